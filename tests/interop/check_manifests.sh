#!/bin/sh
# Everything that `lockstep k8s` renders, for many parameters, validated strictly by kubeconform: unknown
# fields and wrong types are errors. The objects inside workflows are validated, too, with the workflow's
# arguments in them.
. "$(dirname "$0")/../cli/lib.sh"
cd "$here/../.." || exit 1
tools=$(tests/interop/setup-kustomize) || exit $?
schemas=$(tests/interop/setup-schemas) || exit $?
checks=0

conform() {
    "$tools/kubeconform" -strict -schema-location "$schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" "$@" 2>&1
}
# valid WORDS...: renders it, into a file of its own; all are validated at the end, in one call.
mkdir "$work/objects" "$work/inner"
valid() {
    checks=$((checks + 1))
    echo "$*" >"$work/inner/words-$checks"
    "$LOCKSTEP" k8s render "$@" >"$work/objects/$checks.yaml" 2>"$work/err" ||
        { fail "render $*: $(cat "$work/err")"; rm "$work/objects/$checks.yaml"; }
}

# A validator that lets anything pass would make everything below worthless.
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, imge: b}]}\n' >"$work/bad.yaml"
conform "$work/bad.yaml" >"$work/out" && fail "kubeconform lets a misspelt field pass"
printf 'apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: x}\nspec: {slotsPerWorker: "2"}\n' >"$work/bad.yaml"
conform "$work/bad.yaml" >"$work/out" && fail "kubeconform lets a text pass for a number"
printf 'apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: x, zone: y}\n' >"$work/bad.yaml"
conform "$work/bad.yaml" >"$work/out" && fail "kubeconform lets an unknown field of eksctl's pass"
checks=$((checks + 3))

for kind in single-node multi-node elastic pipeline; do
    for storage in "" "-p STORAGE=nfs -p NFS_SERVER=nfs.example"; do
        for more in "" "-p SCHEDULER=kueue -p QUEUE=team" "-p SCHEDULER=volcano -p QUEUE=on" \
            "-p USER_ID=0 -p GROUP_ID=0 -p FS_ID=0" "-p IMAGE_PULL_SECRET=regcred -n team" \
            "-p DATA=synthetic" "-p DATASET_CLAIM=1.10 -p MODEL_NAME=on-training -p USER_NAME=1e3" \
            "-p CPU=1e3 -p MEMORY=0.5Gi -p GRACE_SECONDS=600"; do
            valid $kind $storage $more
        done
    done
done
for kind in single-node multi-node elastic; do
    valid $kind -p DASHBOARD_PORT=8080
done
for workers in 1 2 17; do
    valid multi-node -p WORKERS=$workers -p SLOTS=3 -p SECRET=shared
    valid multi-node -p WORKERS=$workers -p IMAGE=mpioperator/x:1 -p EXEC="mpirun -np 2 python '/a b.py'" -p GPU=2
    valid elastic -p WORKERS=$workers -p MIN_RANKS=1 -p SECRET=shared
    valid multi-worker -p worker_replicas=$workers -p deploy=True -p create_volume_inspector=False
    valid multi-worker -p worker_replicas=$workers -p deploy=True -p create_volume_inspector=False \
        -p image=tensorflow/tensorflow:2.16.1 -p script=yes -p GPU=1
    valid openmpi -p NFS_SERVER=nfs.example -p WORKERS=$workers
    valid openmpi -p CREATE_VOLUME=False -p SECRET=none -p WORKERS=$workers -p SLOTS=2
    valid mpi-benchmark -p NFS_SERVER=10.0.0.1 -p WORKERS=$workers -p GPU=2
done
valid multi-worker
valid multi-worker -p create_volume_inspector=False
valid openmpi -p NFS_SERVER=a -p IMAGE=rgaut/horovod:latest -p EXEC="mpiexec -np 8 sh -c 'NCCL_DEBUG=INFO python3.6 x'"
valid mpi-benchmark -p CREATE_VOLUME=False -p SECRET=openmpi-secret \
    -p volumes='[{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "b", "secret": {"secretName": "x", "defaultMode": 256}}]' \
    -p volumeMounts='[{"name": "a", "mountPath": "/a", "readOnly": true}]'
valid pipeline -p SERVER=tensorflow -p NODE_PORT=30500 -p REPLICAS=1 -p TARGET_ACCURACY=
valid eks-cluster
valid eks-cluster -p PLACEMENT_GROUP=training -p SSH_PUBLIC_KEY=~/.ssh/id_rsa.pub -p NODES=8 -p NODE_TYPE=p3.16xlarge
valid eks-storage -p FILE_SYSTEM=efs -p FILE_SYSTEM_ID=fs-1
valid eks-storage -p FILE_SYSTEM=efs -p FILE_SYSTEM_ID=fs-1 -p PROVISIONING=dynamic
valid eks-storage -p FILE_SYSTEM_ID=fs-1
valid eks-storage -p PROVISIONING=dynamic -p SUBNET_ID=subnet-1 -p SECURITY_GROUP_IDS=sg-1,sg-2 -p S3_IMPORT_PATH=s3://a -p S3_EXPORT_PATH=s3://a/out
for source in efs fsx synthetic; do valid eks-training -p SOURCE=$source; done
valid eks-training -p SOURCE=s3 -p S3_PATH=s3://a/b -p S3_SECRET=aws -p SERVICE_ACCOUNT=reader -p S3_ENDPOINT=http://minio:9000
valid serving
valid serving -p SERVER=tensorflow -p SERVICE_TYPE=NodePort -p REPLICAS=1
valid device-plugin
# Drivers ignore parameters that they do not know.
/usr/bin/python3 tests/interop/driver_names.py "$schemas" "$work/objects"/*.yaml >"$work/out" ||
    fail "names that AWS's drivers do not know: $(cat "$work/out")"
checks=$((checks + 1))
/usr/bin/python3 tests/interop/workflow_objects.py "$work/objects" || fail "objects inside workflows"
checks=$((checks + $(find "$work/objects" -name '*-inner-*.yaml' | wc -l)))
conform "$work/objects" >"$work/out"
while read -r file line; do
    number=${file##*/} number=${number%%[-.]*}
    fail "$(cat "$work/inner/words-$number"): $file $line"
done <"$work/out"
echo "$((checks - failures)) passed, $failures failed"
finish
