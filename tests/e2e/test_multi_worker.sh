#!/usr/bin/env bash
# The MultiWorkerMirrored document with our image: claim first, then two worker Jobs with their Services and TF_CONFIG, the
# checkpoint on the chief's claim, then the volume inspector reads it.
. "$(dirname "$0")/lib.sh"
small=(-p CPU=500m -p MEMORY=512Mi -p GRACE_SECONDS=20 -p inspector_image="$BUSYBOX" -p checkpoint_size=1G
    -p ARGS="--examples 2560 --epochs 2 --batch-size 64 --threads 1")
before
"$LOCKSTEP" k8s init multi-worker >"$WORK/myjob.yaml"
job() { k8s "$1" "$WORK/myjob.yaml" "${small[@]}" "${@:2}"; }
must 'step 2, the claim' job apply -p create_volume_inspector=False
check 'it is bound' wait_for 30 phase pvc/pvc-demo Bound
render() { k8s render "$WORK/myjob.yaml" "${small[@]}" "$@"; }
render -p deploy=True -p create_volume_inspector=False -p create_pvc_checkpoint=False >"$WORK/jobs.yaml"
must 'step 3, render | kubectl create: two Jobs and their Services' kubectl create -n "$NS" -f "$WORK/jobs.yaml"
for i in 0 1; do
    check "worker $i completes" wait_for 180 condition "job/tf-learning-worker-$i" Complete
done
check 'kubectl get jobs shows both' says '^tf-learning-worker-1 +Complete +1/1' kubectl get jobs -n "$NS"
check "the chief's log has the end of training" says 'step 40/40, loss [0-9.]+' kubectl logs -n "$NS" job/tf-learning-worker-0
check 'of two ranks' says '2 ranks' kubectl logs -n "$NS" job/tf-learning-worker-0
check 'and what it reached' says '^Accuracy: 0\.[0-9]+' kubectl logs -n "$NS" job/tf-learning-worker-0
show 4 kubectl logs -n "$NS" job/tf-learning-worker-0
check 'lockstep k8s logs shows the same' says '^Accuracy: 0\.[0-9]+' job logs -p deploy=True -p create_volume_inspector=False
volume=$(volume_of pvc-demo)
check "the checkpoint is on the chief's claim" "$LOCKSTEP" checkpoint verify "$volume/checkpoints"
check 'and the SavedModel' test -s "$volume/workertemp_0/1/saved_model.pb"
check 'the jobs are deleted' kubectl delete -f "$WORK/jobs.yaml"

check 'deploy and inspector together are refused, as the document asks' fails_saying 'create_volume_inspector' \
    render -p deploy=True
must 'step 4, the volume inspector' job apply -p create_pvc_checkpoint=False
check 'runs' kubectl wait --for=condition=Ready pod/volume-inspector --timeout=60s
check 'and shows the trained model' says 'saved_model.pb' kubectl -n "$NS" exec volume-inspector -- ls -R /pvcmnt
show 6 kubectl -n "$NS" exec volume-inspector -- ls -R /pvcmnt
check 'lockstep k8s delete removes inspector and claim' job delete
check 'nothing is left behind' nothing_left
finish
