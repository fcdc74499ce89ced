#!/bin/sh
# The package tree under kustomize 3.8.7 (cfg set, edit set namespace, build) and kustomize 5 (build):
# the objects are those that `lockstep k8s render` prints for the same parameters.
. "$(dirname "$0")/../cli/lib.sh"
cd "$here/../.." || exit 1
tools=$(tests/interop/setup-kustomize) || exit $?
old=$tools/kustomize-3.8.7 new=$tools/kustomize
checks=0

# same WHAT FILE WORDS...: the file's objects are those of `lockstep k8s render WORDS`.
same() {
    label=$1 file=$2
    shift 2
    checks=$((checks + 1))
    "$LOCKSTEP" k8s render "$@" >"$work/rendered" 2>"$work/err" || { fail "$label: $(cat "$work/err")"; return; }
    /usr/bin/python3 tests/interop/same_objects.py "$file" "$work/rendered" >"$work/differences" ||
        fail "$label: $(head -c 600 "$work/differences")"
}

# build WHERE WHAT WORDS...: both build it, to the same as render.
build() {
    where=$1 what=$2
    shift 2
    for program in "$old" "$new"; do
        "$program" build "$where" >"$work/built" 2>"$work/err" ||
            { fail "$(basename "$program") build $what: $(head -c 300 "$work/err")"; continue; }
        same "$what with $(basename "$program")" "$work/built" "$@"
    done
}

# set_all NAME VALUE: as the documents say it.
set_all() {
    checks=$((checks + 1))
    (cd "$tree/quickstart/mlops" && "$old" cfg set . "$1" "$2" -R) >"$work/out" 2>&1 ||
        fail "kustomize cfg set . $1 $2 -R: $(head -c 300 "$work/out")"
}

tree=$work/plain
run 0 k8s package "$tree"
for kind in single-node multi-node pipeline; do
    build "$tree/quickstart/mlops/$kind/user-allocated-pvc" "$kind as it is" "$kind"
done

tree=$work/changed
run 0 k8s package "$tree"
set_all NFS_SERVER 10.20.30.40
set_all NFS_PATH /export/home
set_all PVC_NAME 1.10
set_all PVC_PATH /scratch
set_all FS_ID 3000
set_all GROUP_ID 2000
set_all GROUP_NAME staff
set_all USER_ID 1234
set_all USER_NAME john.doe
set_all DATASET_DIR /data/imagenet
set_all OUTPUT_DIR results
set_all WORKERS 4
set_all REPLICAS 5
set_all RETRY_LIMIT 2
set_all TARGET_ACCURACY 0.8
set_all TF_SERVING_PORT 9000
set_all IMAGE registry.example/lockstep:1
for kind in single-node multi-node pipeline; do
    for storage in pvc nfs; do
        case $storage in
        pvc) case=user-allocated-pvc words="-p STORAGE=pvc -p PVC_NAME=1.10 -p PVC_PATH=/scratch" ;;
        nfs) case=user-mounted-nfs words="-p STORAGE=nfs -p NFS_SERVER=10.20.30.40 -p NFS_PATH=/export/home" ;;
        esac
        case $kind in
        multi-node) words="$words -p WORKERS=4" ;;
        pipeline) words="$words -p REPLICAS=5 -p RETRY_LIMIT=2 -p TARGET_ACCURACY=0.8 -p TF_SERVING_PORT=9000" ;;
        esac
        where=$tree/quickstart/mlops/$kind/$case
        build "$where" "$kind/$case" "$kind" $words -p FS_ID=3000 -p GROUP_ID=2000 \
            -p GROUP_NAME=staff -p USER_ID=1234 -p USER_NAME=john.doe -p DATASET_DIR=/data/imagenet \
            -p OUTPUT_DIR=results -p IMAGE=registry.example/lockstep:1
        (cd "$where" && "$old" edit set namespace team) || fail "kustomize edit set namespace: $where"
        build "$where" "$kind/$case in a namespace" "$kind" $words -p FS_ID=3000 -p GROUP_ID=2000 \
            -p GROUP_NAME=staff -p USER_ID=1234 -p USER_NAME=john.doe -p DATASET_DIR=/data/imagenet \
            -p OUTPUT_DIR=results -p IMAGE=registry.example/lockstep:1 -n team
    done
done
echo "$((checks - failures)) passed, $failures failed"
finish
