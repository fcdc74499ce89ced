#!/usr/bin/env bash
# ResNet50 v1.5 on one node, as its document has it: the package's user-allocated-pvc through kustomize, and
# user-mounted-nfs; logs by the document's commands; checkpoint and weights on the claim.
. "$(dirname "$0")/lib.sh"
records=$(imagenet_records) || exit 1
small="-p DATASET_DIR=$records -p BATCH_SIZE=4 -p STEPS=3 -p CPU=1"
small_args="--image-size 64 --classes 10 --threads 1"
pod=resnet50v1-5-fp32-training

# The document's own way: package, kustomize build, kubectl apply -f.
must 'a claim is bound' claim workdisk 2Gi
before
check 'the package is written' "$LOCKSTEP" k8s package "$WORK/package" $small -p ARGS="$small_args"
cd "$WORK/package/quickstart/mlops/single-node" || finish
echo "namespace: $NS" >>user-allocated-pvc/kustomization.yaml # what `kustomize edit set namespace` writes
kubectl kustomize user-allocated-pvc >user-allocated-pvc.yaml
must 'its user-allocated-pvc is accepted' kubectl apply -f user-allocated-pvc.yaml
check 'it ends well' wait_for 240 phase "pod/$pod" Succeeded
check "the document's command finds the pod" says "^$pod\$" sh -c 'kubectl get pods -oname|grep training|cut -c5-'
check 'and its log has every step' says 'step 3/3, loss [0-9.]+' sh -c \
    'kubectl logs -f $(kubectl get pods -oname|grep training|cut -c5-)'
show 4 sh -c 'kubectl logs $(kubectl get pods -oname|grep training|cut -c5-)'
check 'and what it reached' says '^Accuracy: [01]\.[0-9]+' kubectl logs "$pod"
results=$(volume_of workdisk)/lockstep/$pod
check 'a whole checkpoint of step 3 is on the claim' says '^ *3 .*newest' "$LOCKSTEP" checkpoint list "$results/checkpoints"
check 'every byte of it is right' "$LOCKSTEP" checkpoint verify "$results/checkpoints"
check 'it belongs to the user the pod ran as' says '^1000$' stat -c %u "$results/checkpoints"
check 'weights are on the claim' test -s "$results/output/weights.safetensors"
check 'kubectl delete -f removes it' kubectl delete -f user-allocated-pvc.yaml
check 'nothing is left behind' nothing_left

# The same on NFS, through our own commands.
nfs_note
mkdir -p "$WORK/nfs" && chmod 777 "$WORK/nfs"
"$LOCKSTEP" k8s render single-node -n "$NS" -p STORAGE=nfs -p NFS_SERVER=$NODE_IP $small -p ARGS="$small_args" |
    nfs_to_directory "$WORK/nfs" >"$WORK/nfs.yaml"
must 'user-mounted-nfs is accepted' kubectl apply -f "$WORK/nfs.yaml"
check 'lockstep k8s wait says that it succeeded' says 'succeeded' k8s wait single-node --timeout 240
check 'lockstep k8s logs shows its steps' says 'step 3/3' k8s logs single-node
check 'lockstep k8s status shows it' says "$pod .*Completed" k8s status single-node
check 'the checkpoint is on the volume' "$LOCKSTEP" checkpoint verify "$WORK/nfs/lockstep/$pod/checkpoints"
check 'lockstep k8s delete removes it' k8s delete single-node -p STORAGE=nfs -p NFS_SERVER=$NODE_IP $small
check 'nothing is left behind' nothing_left
finish
