#!/usr/bin/env bash
# The elastic kind: an Indexed Job whose members share a secret, its NetworkPolicy beside it, the live page through its
# Service; the weights it ends with are, to the last bit, those of one process on this machine.
. "$(dirname "$0")/lib.sh"
job=mnist-custom-training
recipe="--examples 3200 --global-batch-size 32 --shards 2 --checkpoint-every 200 --eval-data none"
kind=(elastic -p MODEL=mnist_custom -p DATA=digits -p STEPS=600 -p SECRET=members -p DASHBOARD_PORT=8080 -p CPU=500m
    -p MEMORY=512Mi -p GRACE_SECONDS=20 -p ARGS="$recipe")
must 'a claim is bound' claim workdisk 1Gi
before
openssl rand -hex 32 >"$WORK/id_rsa"
kubectl create secret generic members --from-file=id_rsa="$WORK/id_rsa" >/dev/null
must 'the job is accepted' k8s apply "${kind[@]}"
leader() { kubectl get pods -l batch.kubernetes.io/job-completion-index=0 -o name | tail -n 1; }

# The page's address in the log has its token; the Service leads to it.
page_in_log() { kubectl logs "$(leader)" | grep -om 1 'dashboard: http://.*'; }
must 'the log tells the address of the live page' wait_for 90 page_in_log
token=$(page_in_log | sed -n 's/.*token=//p')
page=http://$(kubectl get service "$job-dashboard" -o 'jsonpath={.spec.clusterIP}'):8080
check 'the page is reachable through its Service' says '<title>' curl -s --noproxy '*' "$page/?token=$token"
check 'and asks for the token' says '^40[13]$' curl -s --noproxy '*' -o /dev/null -w '%{http_code}' "$page/"

check 'lockstep k8s wait says that it succeeded' says succeeded k8s wait "${kind[@]}" --timeout 240
check 'with both members' says '^2$' kubectl get job "$job" -o 'jsonpath={.status.succeeded}'
check "its log has the last step" says 'step 600/600, loss [0-9.]+' kubectl logs "$(leader)"
show 3 kubectl logs "$(leader)"
show 8 k8s status "${kind[@]}"
check 'a NetworkPolicy was beside it' says "^$job " kubectl get networkpolicy
results=$(volume_of workdisk)/lockstep/$job
check 'the checkpoint on the claim is whole' "$LOCKSTEP" checkpoint verify "$results/checkpoints"
check 'one process computes it here' "$LOCKSTEP" train mnist_custom --data digits --steps 600 $recipe \
    --checkpoint-dir "$WORK/alone" --quiet
check 'to the same bits' "$LOCKSTEP" checkpoint diff "$WORK/alone" "$results/checkpoints"
check 'lockstep k8s delete removes it' k8s delete "${kind[@]}"
kubectl delete secret members >/dev/null
check 'nothing is left behind' nothing_left
finish
