#!/usr/bin/env bash
# lockstep k8s doctor finds what is missing in a cluster, and says nothing else.
# Alone on the cluster: takes both operators away for a while.
. "$(dirname "$0")/lib.sh"
cluster=$(dirname "$0")/cluster
bring_back() {
    for operator in mpi-operator argo; do
        "$cluster/operator" $operator | kubectl apply --server-side -f - >/dev/null
    done
    kubectl -n mpi-operator rollout status deployment/mpi-operator --timeout=60s &&
        kubectl -n argo rollout status deployment/workflow-controller --timeout=60s
}
trap bring_back EXIT

# finds SENTENCE PROBLEM WORDS...: doctor fails, and its only problem is the one that matches.
finds() {
    local sentence=$1 problem=$2
    shift 2
    check "doctor finds $sentence" only_problem "$problem" "$@"
    note "\$ lockstep k8s doctor $*"
    grep -A1 '^problem' "$WORK/findings" | cut -c 1-200 | sed 's/^/         /'
}
only_problem() {
    local wanted=$1 status
    shift
    k8s doctor "$@" >"$WORK/findings"
    status=$?
    cat "$WORK/findings"
    [ $status -eq 1 ] && [ "$(grep -c '^problem' "$WORK/findings")" -eq 1 ] && grep '^problem' "$WORK/findings" | grep -qE -- "$wanted" &&
        grep -A1 '^problem' "$WORK/findings" | grep -q -- '->'
}

# A kubelet tells of an image that was just imported half a minute later.
every_node_tells() {
    kubectl get nodes -o json | jq -e --arg image "$IMAGE" --argjson nodes "$NODES" \
        '[.items[] | select(any(.status.images[]?.names[]?; endswith("/" + $image) or . == $image))] | length == $nodes'
}
must 'every node has told of the image' wait_for 120 every_node_tells

must 'a claim is bound' claim workdisk 1Gi
for kind in single-node multi-node pipeline elastic; do
    check "doctor finds nothing wrong with $kind" says '^ok ' k8s doctor $kind
done
finds 'a missing claim' 'claim elsewhere is not there' multi-node -p PVC_NAME=elsewhere

kubectl create quota small --hard=requests.cpu=3,pods=2 >/dev/null
finds 'a quota that is too small' 'quota small allows 2 of pods' multi-node -p CPU=1
kubectl delete quota small >/dev/null
kubectl create quota small --hard=limits.memory=5Gi >/dev/null
finds "too little memory in a quota" "quota small allows 5Gi of limits.memory, 0 are taken, and this needs [0-9.]+Gi" multi-node -p CPU=1
kubectl delete quota small >/dev/null

for kind in single-node multi-node elastic pipeline; do
    finds "that $kind as root is refused in a restricted namespace" 'Pod Security refuses the pods: .*runAsNonRoot' $kind \
        -p USER_ID=0 -p GROUP_ID=0 -p FS_ID=0
done
open=$(namespace open privileged)
claim workdisk 1Gi "$open"
check 'and accepted in one that is not' "$LOCKSTEP" k8s doctor single-node -n "$open" -p USER_ID=0 -p GROUP_ID=0 -p FS_ID=0

kubectl delete deployment -n mpi-operator mpi-operator >/dev/null
finds 'an MPI Operator that does not run' 'MPI Operator.* nobody works on it' multi-node
kubectl delete crd mpijobs.kubeflow.org >/dev/null
check 'doctor finds no MPI Operator' fails_saying 'problem +MPI Operator is not installed' k8s doctor multi-node
check 'which does not matter where none is needed' k8s doctor single-node
"$cluster/operator" argo | kubectl delete --wait -f - >/dev/null 2>&1
check 'doctor finds no Argo' fails_saying 'problem +Argo Workflows is not installed' k8s doctor pipeline
trap - EXIT
check 'both operators come back' bring_back
check 'and doctor is content' k8s doctor pipeline
finish
