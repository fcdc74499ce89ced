#!/usr/bin/env bash
# An MPIJob loses a worker's pod, then its launcher's, in mid-training: by their restart policies both come back, and
# training goes on from the newest checkpoint to its end.
. "$(dirname "$0")/lib.sh"
job=mnist-custom-training
steps=1500
params=(-p MODEL=mnist_custom -p MODEL_NAME=$job -p DATA=digits -p BATCH_SIZE=32 -p STEPS=$steps -p CPU=1 -p MEMORY=1Gi
    -p GRACE_SECONDS=30 -p ARGS="--checkpoint-every 50 --threads 1 --eval-data none")
launcher() { kubectl get pods -oname | grep launch | cut -c5-; }
must 'a claim is bound' claim workdisk 1Gi
checkpoints=$(volume_of workdisk)/lockstep/$job/checkpoints
newest() { newest_step "$checkpoints"; }
beyond() { saved_beyond "$checkpoints" "$1"; }

before
must 'the MPIJob is accepted' k8s apply multi-node "${params[@]}"
must 'training has begun and saved' wait_for 180 beyond 0
uid=$(kubectl get pod $job-worker-1 -o 'jsonpath={.metadata.uid}')
at=$(newest)
check "a worker's pod is deleted after step $at" kubectl delete pod $job-worker-1 --wait=false
worker_is_new() { [ "$(kubectl get pod $job-worker-1 -o 'jsonpath={.metadata.uid}')" != "$uid" ] && phase pod/$job-worker-1 Running; }
check 'the operator makes another' wait_for 120 worker_is_new
# resumed STEP: whether the launcher's training goes on from there or later, to the same end.
resumed() {
    local line from
    line=$(kubectl logs "$(launcher)" | grep -m 1 -E "training from step [1-9][0-9]* to $steps,") && echo "$line" &&
        from=${line#*training from step } && [ "${from%% *}" -ge "$1" ]
}
check 'training goes on from its checkpoint' wait_for 180 resumed "$at"
note "$(resumed "$at")"
at=$(newest)
check "and gets further than step $at" wait_for 180 beyond "$at"

first=$(launcher)
at=$(newest)
check "the launcher's pod is deleted after step $at" kubectl delete pod "$first" --wait=false
launcher_is_new() { [ "$(launcher | grep -vx "$first")" ] && phase "pod/$(launcher | grep -vx "$first")" Running; }
check 'its job makes another' wait_for 120 launcher_is_new
check 'which goes on from the checkpoint' wait_for 180 resumed "$at"
note "$(resumed "$at")"
check 'the MPIJob succeeds' says 'succeeded' k8s wait multi-node "${params[@]}" --timeout 300
check "the last step is $steps" says "^$steps\$" newest
check 'its checkpoint is whole' "$LOCKSTEP" checkpoint verify "$checkpoints"
check 'lockstep k8s delete removes it' k8s delete multi-node "${params[@]}"
check 'nothing is left behind' nothing_left
finish
