#!/bin/sh
# models, datasets and doctor: for people and for scripts.
. "$(dirname "$0")/lib.sh"

is_json() {
    python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/out" 2>/dev/null ||
        fail "lockstep $*: not JSON: $(head -c 300 "$work/out")"
}

run 0 models
for model in resnet50 vgg16 mnist_keras mnist_custom; do
    mentions out "$model: "
done
# 25,557,032 parameters with 1000 classes is the published size of ResNet-50.
run 0 models resnet50 --classes 1000
mentions out "25557032"
run 0 models vgg16 --classes 1000
mentions out "138357544"
run 2 models resent50
mentions err "resnet50"
run 2 models --classes 10
says err "lockstep models: --classes needs a MODEL"
run 0 datasets
for kind in digits mnist synthetic; do
    mentions out "$kind"
done
run 0 doctor
mentions out "CPUs only"
mentions out "threads "
for library in oneDNN jansson libmpi libjpeg libssl libcurl libgrpc; do
    mentions out "$library "
done
for list in models datasets doctor; do
    run 0 $list --json -
    is_json $list
    run 0 $list --json "$work/$list.json"
    says out ""
    cp "$work/$list.json" "$work/out"
    is_json $list --json FILE
done

# The cores that count are those this process may use.
if command -v taskset >/dev/null; then
    taskset -c "$(taskset -pc $$ | sed 's/.*: *//; s/[-,].*//')" "$LOCKSTEP" doctor --json - \
        >"$work/out"
    mentions out '"threads": 1'
fi
OMP_NUM_THREADS=999 "$LOCKSTEP" doctor >"$work/out"
mentions out "OMP_NUM_THREADS=999 is more than"
finish
