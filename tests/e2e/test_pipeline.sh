#!/usr/bin/env bash
# The Wide and Deep pipeline by Argo, as its document has it: a first attempt misses the target accuracy, a second goes
# on from its checkpoint and meets it, three servers are deployed behind a NodePort and asked by `lockstep client` and by
# a Python client; and a target that cannot be met ends after RETRY_LIMIT with nothing deployed.
. "$(dirname "$0")/lib.sh"
name=wide-deep-large-ds-fp32-training
# Clicks that the first of the categories decides: after 20 steps about 0.7 of them are guessed, after 40 more than 0.9.
clicks() {
    awk -v rows="$1" -v seed="$2" 'BEGIN {
        srand(seed)
        for (i = 0; i < rows; i++) {
            category = int(rand() * 200)
            printf "%d", (category * 7919 % 13) % 2
            for (j = 1; j <= 13; j++) printf ",%d", int(rand() * 100)
            printf ",c%d", category
            for (j = 2; j <= 26; j++) printf ",x%d", int(rand() * 20)
            print ""
        }
    }'
}
mkdir -p -m 755 "$WORK/clicks" && clicks 8192 1 >"$WORK/clicks/train.csv" && clicks 1000 2 >"$WORK/clicks/eval.csv"
args="--hidden 32,16 --embedding-dim 8 --optimizer adam --lr 0.01 --group none --threads 1"
small="-p BATCH_SIZE=256 -p CPU=500m -p MEMORY=512Mi"

must 'a claim is bound' claim workdisk 1Gi
results=$(volume_of workdisk)/lockstep/$name
before
k8s render pipeline $small -p DATASET_DIR="$WORK/clicks" -p STEPS=20 -p TARGET_ACCURACY=0.85 -p RETRY_LIMIT=3 \
    -p GRACE_SECONDS=40 -p ARGS="$args" >"$WORK/pipeline.yaml"
must 'the workflow is accepted' kubectl apply -f "$WORK/pipeline.yaml"

# Beside it, in a namespace of its own, the one that cannot succeed.
never=$(namespace never)
claim workdisk 1Gi "$never" && claim clicks 1Gi "$never" && cp "$WORK"/clicks/*.csv "$(volume_of clicks "$never")"
must 'another, whose target cannot be met, too' "$LOCKSTEP" k8s apply pipeline -n "$never" $small -p DATASET_CLAIM=clicks \
    -p STEPS=1 -p TARGET_ACCURACY=1 -p RETRY_LIMIT=1 -p ARGS="$args"

check 'the workflow succeeds' wait_for 300 phase "wf/$name-wf" Succeeded
check 'kubectl get wf shows it' says "$name-wf +Succeeded" kubectl get wf
show 3 kubectl get wf
trainings() { kubectl get pods -oname --sort-by=.metadata.creationTimestamp | grep -- -train- | cut -c5-; }
note "pods of the training step: $(trainings | paste -sd' ')"
first=$(trainings | sed -n 1p) second=$(trainings | sed -n 2p)
check 'there were two attempts' test "$(trainings | wc -l)" -eq 2
check 'the first missed the target' says '^Accuracy of 0\.[0-9]+ did not meet the target accuracy of 0.85' kubectl logs "$first" main
check 'the second went on from its checkpoint' says 'from step 20 ' kubectl logs "$second" main
check 'and met the target' says '^Accuracy of 0\.[0-9]+ met the target accuracy of 0.85' kubectl logs "$second" main
note "$(kubectl logs "$first" main | grep '^Accuracy of'); then: $(kubectl logs "$second" main | grep '^Accuracy of')"
check 'it exported the model' says '^Model exported to ' kubectl logs "$second" main
check 'what missed was not exported: there is one version' test "$(ls "$results/output/model")" = 1
check 'which is a SavedModel' test -s "$results/output/model/1/saved_model.pb"
check 'the checkpoint is on the claim and whole' "$LOCKSTEP" checkpoint verify "$results/checkpoints"

check 'three servers are available' says '^3$' kubectl get deployment "$name-deployment" -o 'jsonpath={.status.availableReplicas}'
# The document's way to their address.
node=$(kubectl describe node node-1 | sed -n 's/ *InternalIP: *//p')
port=$(kubectl describe service "$name-service" | sed -n 's/^NodePort: *grpc *\([0-9]*\).*/\1/p')
check 'the service has a NodePort' test "${port:-0}" -ge 30000
for i in 1 2; do
    check "lockstep client gets right answers from node-$i" says 'Throughput: ' "$LOCKSTEP" client \
        -s "$(kubectl get node "node-$i" -o 'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}'):$port" \
        -d "$WORK/clicks/eval.csv" -b 50 -n 20 -w 2 --json "$WORK/client.json"
    check 'with the accuracy that training reported' jq -e '.accuracy > 0.85 and .failed == 0' "$WORK/client.json"
    note "$(jq -c '{requests, failed, accuracy}' "$WORK/client.json")"
done
python=$(tools/venv interop tensorflow-cpu==2.21.0 tensorboard==2.21.0) && api=$(tests/interop/setup-serving-api "$python")
check "a Python client that asks as the document's does, too" says 'Accuracy: 0\.[89]' "$python" tests/e2e/ask_wide_deep.py "$api" \
    "$node:$port" "$WORK/clicks/eval.csv"

never_ended() { says '^Failed$' kubectl -n "$never" get wf -o 'jsonpath={.items[0].status.phase}'; }
check 'the other workflow fails' wait_for 200 never_ended
check 'after two attempts' says '^2$' sh -c "kubectl -n $never get pods -oname | grep -c -- -train-"
check 'nothing was deployed' silent kubectl -n "$never" get deployments,services -o name
check 'nothing was exported' fails says . ls "$(volume_of workdisk "$never")/lockstep/$name/output/model"
kubectl delete namespace "$never" >/dev/null

check 'kubectl delete -f removes all' kubectl delete -f "$WORK/pipeline.yaml"
check 'nothing is left behind' nothing_left
finish
