#!/usr/bin/env bash
# The same manifests carry somebody else's program: TensorFlow's wheel from PyPI in an image of its own, two workers of
# MultiWorkerMirroredStrategy that find each other by the TF_CONFIG we render, the checkpoint on the chief's claim.
. "$(dirname "$0")/lib.sh"
must "TensorFlow's image is here" tests/e2e/cluster/import "$(tests/e2e/images/tensorflow)"
job=(multi-worker -p name=mirrored -p image=localhost/tensorflow:1 -p script=mirrored_mnist.py -p deploy=True
    -p create_volume_inspector=False -p checkpoint_size=1G -p CPU=900m -p MEMORY=1536Mi -p GRACE_SECONDS=5)
before
must 'the jobs are accepted' k8s apply "${job[@]}"
for i in 0 1; do
    check "worker $i completes" wait_for 300 condition "job/mirrored-worker-$i" Complete
done
check 'two replicas in sync' says 'replicas in sync: 2' kubectl logs job/mirrored-worker-0
check 'the chief has learnt' says 'Epoch 3, Loss: 0\.[0-9]+, Accuracy: (0\.9|1)' kubectl logs job/mirrored-worker-0
note "$(kubectl logs job/mirrored-worker-0 | grep '^Epoch 3')"
check 'the other worker has the same numbers' test "$(kubectl logs job/mirrored-worker-0 | grep ^Epoch)" = \
    "$(kubectl logs job/mirrored-worker-1 | grep ^Epoch)"
check "its checkpoint is on the chief's claim" test -s "$(volume_of pvc-demo)/checkpoints/ckpt-3.index"
check 'it is deleted' k8s delete "${job[@]}"
check 'nothing is left behind' nothing_left
finish
