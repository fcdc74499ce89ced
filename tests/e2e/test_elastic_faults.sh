#!/usr/bin/env bash
# One training of the elastic kind loses a worker's pod, another by eviction, a node by `kubectl drain`, and the leader's pod,
# and ends with the weights of a training that nothing happened to, bit by bit. (Kubernetes waits 10 s, then 20, 40 ...
# before it replaces the pod of a member.)
# Alone: a node is drained.
. "$(dirname "$0")/lib.sh"
job=mnist-custom-training
steps=2500
recipe="--examples 3200 --global-batch-size 32 --shards 4 --checkpoint-every 100 --eval-data none"
kind=(elastic -p MODEL=mnist_custom -p DATA=digits -p STEPS=$steps -p WORKERS=3 -p CPU=400m -p MEMORY=512Mi -p GRACE_SECONDS=20
    -p ARGS="$recipe")
must 'a claim is bound' claim workdisk 1Gi
checkpoints=$(volume_of workdisk)/lockstep/$job/checkpoints
newest() { newest_step "$checkpoints"; }
beyond() { saved_beyond "$checkpoints" "$1"; }
# member INDEX: its pod that is not ending.
member() {
    kubectl get pods -l "batch.kubernetes.io/job-completion-index=$1" -o json |
        jq -r '.items[] | select(.metadata.deletionTimestamp == null and .status.phase == "Running") | .metadata.name'
}
replaced() { echo "member $1 is '$(member "$1")', was '$2'" && [ -n "$(member "$1")" ] && [ "$(member "$1")" != "$2" ]; }

# lose INDEX WHAT COMMAND...: the command takes that member's pod away; another comes, and training goes on.
lose() {
    local index=$1 what=$2 pod at
    shift 2
    pod=$(member "$index") at=$(newest)
    check "after step $at: $what" "$@" "$pod"
    check '... another pod takes its place' wait_for 120 replaced "$index" "$pod"
    at=$(newest)
    check "... and training goes on after step $at" wait_for 120 beyond "$at"
    note "$(kubectl logs "$(member 0)" | grep -E 'generation|training from step' | tail -n 2 | paste -sd';')"
}
delete_pod() { kubectl delete pod "$1" --wait=false; }
evict() {
    printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s", "namespace": "%s"}}' "$1" "$NS" |
        kubectl create --raw "/api/v1/namespaces/$NS/pods/$1/eviction" -f -
}
drain_node_of() {
    drained=$(kubectl get pod "$1" -o 'jsonpath={.spec.nodeName}')
    kubectl drain "$drained" --pod-selector="app.kubernetes.io/instance=$job" --ignore-daemonsets --delete-emptydir-data \
        --timeout=90s
}
drained=
trap '[ -z "$drained" ] || kubectl uncordon "$drained" >/dev/null' EXIT

before
must 'the job is accepted' k8s apply "${kind[@]}"
must 'training has begun and saved' wait_for 120 beyond 0
lose 1 "a worker's pod is deleted" delete_pod
lose 2 "another worker's pod is evicted" evict
lose 2 "the node of a worker is drained" drain_node_of
check 'no member is left on that node' silent kubectl get pods --field-selector="status.phase=Running,spec.nodeName=$drained" -o name
check 'the node is uncordoned' kubectl uncordon "$drained"
lose 0 "the leader's pod is deleted" delete_pod
check 'the job succeeds' says succeeded k8s wait "${kind[@]}" --timeout 300
check "the last step is $steps" says "^$steps\$" newest
check 'one process trains the same here, undisturbed' "$LOCKSTEP" train mnist_custom --data digits --steps $steps $recipe \
    --checkpoint-dir "$WORK/alone" --quiet
check 'to the same bits' "$LOCKSTEP" checkpoint diff "$WORK/alone" "$checkpoints"
note "$(kubectl get job $job -o 'jsonpath=pods that failed: {.status.failed}, succeeded: {.status.succeeded}')"
check 'lockstep k8s delete removes it' k8s delete "${kind[@]}"
check 'nothing is left behind' nothing_left
finish
