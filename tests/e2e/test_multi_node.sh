#!/usr/bin/env bash
# ResNet50 v1.5 on two workers, as its document has it: an MPIJob of the real MPI Operator on a claim and on NFS; the
# launcher found by the document's command; rank outputs, checkpoint and weights on the volume.
. "$(dirname "$0")/lib.sh"
records=$(imagenet_records) || exit 1
small="-p DATASET_DIR=$records -p BATCH_SIZE=4 -p STEPS=3 -p CPU=1 -p MEMORY=2Gi"
small_args="--image-size 64 --classes 10 --threads 1"
job=resnet50v1-5-fp32-training

must 'a claim is bound' claim workdisk 2Gi
before
check 'doctor finds nothing missing' k8s doctor multi-node $small
show 9 k8s doctor multi-node -p CPU=1 -p MEMORY=2Gi
must 'the MPIJob is accepted' k8s apply multi-node $small -p ARGS="$small_args"
check 'both workers run' wait_for 120 says '^2$' kubectl get mpijob $job -o 'jsonpath={.status.replicaStatuses.Worker.active}'
[ "$NODES" -lt 2 ] || check 'on two nodes' says '^2$' sh -c \
    "kubectl get pods -l app.kubernetes.io/component=worker -o 'jsonpath={range .items[*]}{.spec.nodeName}{\"\n\"}{end}' | sort -u | wc -l"
check 'lockstep k8s wait says that it succeeded' says 'succeeded' k8s wait multi-node --timeout 300
check "the document's command finds the launcher" says "^$job-launcher" sh -c \
    'kubectl get pods -oname|grep launch|cut -c5-'
check 'whose log has every step' says 'step 3/3, loss [0-9.]+' sh -c \
    'kubectl logs -f $(kubectl get pods -oname|grep launch|cut -c5-)'
show 4 sh -c 'kubectl logs $(kubectl get pods -oname|grep launch|cut -c5-)'
check 'trained by two ranks, 24 examples in all' says '3 steps, 24 examples' k8s logs multi-node
results=$(volume_of workdisk)/lockstep/$job
check 'OUTPUT_DIR has what each rank printed, in a directory' says 'rank.1' find "$results/output"
check 'a whole checkpoint is on the claim' "$LOCKSTEP" checkpoint verify "$results/checkpoints"
check 'weights are on the claim' test -s "$results/output/weights.safetensors"
check 'lockstep k8s delete removes it' k8s delete multi-node $small
check 'nothing is left behind' nothing_left

nfs_note
mkdir -p "$WORK/nfs" && chmod 777 "$WORK/nfs"
"$LOCKSTEP" k8s render multi-node -n "$NS" -p STORAGE=nfs -p NFS_SERVER=$NODE_IP $small -p ARGS="$small_args" |
    nfs_to_directory "$WORK/nfs" >"$WORK/nfs.yaml"
must 'user-mounted-nfs is accepted' kubectl apply -f "$WORK/nfs.yaml"
check 'it succeeds' wait_for 300 condition mpijob/$job Succeeded
check 'its launcher tells' says 'step 3/3' kubectl logs "job/$job-launcher"
check 'the checkpoint is on the volume' "$LOCKSTEP" checkpoint verify "$WORK/nfs/lockstep/$job/checkpoints"
check 'kubectl delete -f removes it' kubectl delete -f "$WORK/nfs.yaml"
check 'nothing is left behind' nothing_left
finish
