#!/usr/bin/env bash
# TensorFlow and Horovod on EKS, as its document has it: VGG16 from TFRecords, WORKERS=2 with two processes each,
# volume nfs-data under claim nfs-external at /mnt, a results file. Once as an MPIJob, once without any operator.
. "$(dirname "$0")/lib.sh"
records=$(imagenet_records) || exit 1
export WORKERS=2 GPU=2 NFS_SERVER=$NODE_IP # the document's variables, exported
volumes='[{ "name": "efs-pvc", "persistentVolumeClaim": { "claimName": "nfs-external" }}]'
mounts='[{ "name": "efs-pvc", "mountPath": "/mnt"}]'
small=(-p volumes="$volumes" -p volumeMounts="$mounts" -p BATCH_SIZE=2 -p STEPS=3 -p CPU=1 -p MEMORY=4Gi
    -p ARGS="--image-size 64 --classes 10 --threads 1 --num-warmup-batches 1 --display-every 1")
nfs_note
mkdir -p "$WORK/export/data" && cp -r "$records"/. "$WORK/export/data" && chmod -R a+rX "$WORK"
results=$WORK/results/benchmark_1.out

# benchmarked: whether the results file is as tf_cnn_benchmarks writes it, and comes from four ranks of two workers,
# and Open MPI has nothing to complain about.
benchmarked() {
    cat "$results"
    ! grep '<stderr>' "$results" | grep -v '<stderr>:lockstep: ' && grep -qE 'Step[[:space:]]+Img/sec' "$results" && grep -qE '^.*total images/sec: [0-9.]+' "$results" &&
        grep -q '\[1,0\]<std' "$results" && grep -q 'JOB MAP' "$results" && grep -qE 'Model: +vgg16' "$results" &&
        [ "$(grep -oE 'Data for node: [^ ]*worker-[01]' "$results" | sort -u | wc -l)" -eq 2 ] &&
        [ "$(grep -o 'Process rank: [0-9]*' "$results" | sort -u | wc -l)" -eq 4 ]
}

before
"$LOCKSTEP" k8s render mpi-benchmark -n "$NS" "${small[@]}" | nfs_to_directory "$WORK/export" >"$WORK/job.yaml"
must 'the MPIJob is accepted' kubectl apply -f "$WORK/job.yaml"
check 'the volume is bound as the document shows it' wait_for 30 says "nfs-data +85Gi +RWX +Retain +Bound +$NS/nfs-external +nfs-external" \
    kubectl get pv -n "$NS"
check 'the log is saved while it runs' k8s logs mpi-benchmark -f --save "$results" --timeout 180
check 'the results are those of four ranks' benchmarked
(cd "$WORK" && show 8 cat results/benchmark_1.out)
check 'the MPIJob has succeeded' wait_for 60 condition mpijob/openmpi Succeeded
check 'lockstep k8s delete removes it' k8s delete mpi-benchmark "${small[@]}"
check 'nothing is left behind' nothing_left

# Without an operator: a secret by the document's commands, a master and workers, the hostfile.
SECRET=openmpi-secret
(cd "$WORK" && mkdir -p .tmp && yes | ssh-keygen -q -N "" -f .tmp/id_rsa >/dev/null)
kubectl create secret generic $SECRET -n "$NS" --from-file=id_rsa="$WORK/.tmp/id_rsa" \
    --from-file=id_rsa.pub="$WORK/.tmp/id_rsa.pub" --from-file=authorized_keys="$WORK/.tmp/id_rsa.pub" >/dev/null
before
"$LOCKSTEP" k8s render openmpi -n "$NS" "${small[@]}" | nfs_to_directory "$WORK/export" >"$WORK/job.yaml"
must 'pods without an operator are accepted' kubectl apply -f "$WORK/job.yaml"
check 'the pods are called as the document has them' says 'openmpi-worker-1' kubectl get pod -n "$NS" -o wide
check 'the master ends well' wait_for 240 phase pod/openmpi-master Succeeded
rm -rf "$WORK/results" && mkdir "$WORK/results"
COMPONENT=openmpi
check "its log is saved by the document's command" sh -c "kubectl logs -n $NS -f $COMPONENT-master >$results"
check 'the results are those of four ranks' benchmarked
show 3 kubectl get pods -n "$NS"
(cd "$WORK" && show 4 cat results/benchmark_1.out)
check 'lockstep k8s delete removes master and workers' k8s delete openmpi "${small[@]}"
check 'nothing is left behind' nothing_left
finish
