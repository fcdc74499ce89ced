#!/usr/bin/env bash
# Servers under load, over gRPC and REST: a pod is deleted, a new version of the model appears, the Deployment is rolled out
# anew, and no request fails; a pod that is taken away with no grace costs at most what it was just answering.
. "$(dirname "$0")/lib.sh"
kind=(serving -p MODEL_NAME=digits -p REPLICAS=2 -p MAX_REPLICAS=3 -p SERVICE_TYPE=NodePort -p CPU=400m -p MEMORY=256Mi)
must 'a claim is bound' claim workdisk 1Gi
must 'a model is trained and exported' "$LOCKSTEP" train mnist_custom --data digits --examples 3200 --epochs 1 --batch-size 64 \
    --eval-data none --output-dir "$WORK/run" --export-dir "$WORK/model" --quiet
must 'it is put on the claim' put_data workdisk "$WORK/model" model
models=$(volume_of workdisk)/model
before
must 'the servers are accepted' k8s apply "${kind[@]}"
check 'they are available' kubectl rollout status deployment/digits --timeout=90s
for object in hpa/digits pdb/digits networkpolicy/digits; do
    check "with $object beside them" kubectl get "$object"
done
port() { kubectl get service digits -o "jsonpath={.spec.ports[?(@.name=='$1')].nodePort}"; }
grpc=$NODE_IP:$(port grpc) rest=$NODE_IP:$(port rest)

# loads: begins to ask through both doors, until `loads_end`.
loads() {
    rm -f "$WORK"/load-*.json
    "$LOCKSTEP" client -s "$grpc" --model digits -d digits --rate 40 --concurrency 4 --duration 600s \
        --json "$WORK/load-grpc.json" >"$WORK/load-grpc.log" 2>&1 &
    grpc_load=$!
    "$LOCKSTEP" client -s "$rest" --protocol rest --model digits -d digits --rate 20 --concurrency 4 --duration 600s \
        --json "$WORK/load-rest.json" >"$WORK/load-rest.log" 2>&1 &
    rest_load=$!
    loads_began=$SECONDS
    sleep 2
}
loads_end() {
    sleep 3
    load_seconds=$((SECONDS - loads_began))
    kill -INT $grpc_load $rest_load 2>/dev/null
    wait $grpc_load $rest_load
    grpc_load= rest_load=
}
grpc_load= rest_load=
trap 'kill $grpc_load $rest_load 2>/dev/null' EXIT
# all_answered DOOR RATE [FAILURES THAT ARE ALLOWED]: as many as were to be asked (in whole seconds, and connecting takes some),
# and right as often as the model is.
all_answered() {
    cat "$WORK/load-$1.log"
    jq -c '{requests, failed, accuracy, statuses, p99: .latency_seconds.p99}' "$WORK/load-$1.json"
    jq -e ".requests > 0.9 * $2 * ($load_seconds - 2) and .accuracy > 0.8 and .failed <= ${3:-0}" "$WORK/load-$1.json"
}
pods() { kubectl get pods -l app.kubernetes.io/component=serving -o name; }
available() { [ "$(kubectl get deployment digits -o 'jsonpath={.status.availableReplicas}')" = 2 ] && [ "$(pods | wc -l)" -eq 2 ]; }

loads
check 'under load a pod is deleted' kubectl delete "$(pods | head -n 1)" --timeout=90s
check 'another takes its place' wait_for 90 available
cp -r "$models/1" "$models/tmp" && mv "$models/tmp" "$models/2" # complete when it appears
version() { curl -s --noproxy '*' "http://$rest/v1/models/digits" | jq -e '.model_version_status[] | select(.version == "2" and .state == "AVAILABLE")'; }
check 'a new version of the model is served' wait_for 60 version
check 'the Deployment is rolled out anew' kubectl rollout restart deployment/digits
check 'to its end' kubectl rollout status deployment/digits --timeout=150s
check 'the old pods are gone' wait_for 90 available
loads_end
check 'every request over gRPC was answered' all_answered grpc 40
check 'every request over REST was answered' all_answered rest 20
for door in grpc rest; do note "$door: $(jq -c '{requests, failed, accuracy}' "$WORK/load-$door.json")"; done

loads
check 'under load a pod is deleted with no grace' kubectl delete "$(pods | head -n 1)" --grace-period=0 --force
check 'another takes its place' wait_for 90 available
loads_end
check 'over gRPC no more failed than were under way on its connections' all_answered grpc 40 4
check 'nor over REST' all_answered rest 20 4
for door in grpc rest; do note "$door: $(jq -c '{requests, failed, statuses}' "$WORK/load-$door.json")"; done
check 'lockstep k8s delete removes it' k8s delete "${kind[@]}"
check 'nothing is left behind' nothing_left
finish
