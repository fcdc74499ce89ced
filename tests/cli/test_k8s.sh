#!/bin/sh
# lockstep k8s: what is rendered, against tests/golden/k8s; what is refused; and kubectl, of which a
# stand-in (tests/support/kubectl) notes the words. `make golden` calls this with --update.
. "$(dirname "$0")/lib.sh"
golden=$here/../golden/k8s
# The environment gives parameters, too: none of the tester's.
for name in $("$LOCKSTEP" k8s list | cut -d' ' -f1 | while read -r kind; do
    "$LOCKSTEP" k8s params "$kind" | sed -n '/^NAME /,$s/^\([A-Za-z_]*\) .*/\1/p'
done | sort -u); do
    unset "$name"
done

# golden NAME WORDS...: what this renders is what it was.
golden() {
    file=$golden/$1.yaml
    shift
    run 0 k8s render "$@"
    if [ "${update:-}" = yes ]; then
        cp "$work/out" "$file"
    else
        diff -u "$file" "$work/out" || fail "$file differs; if it is meant, run make golden"
    fi
}
update=
if [ "${1:-}" = --update ]; then
    update=yes
    mkdir -p "$golden"
    rm -f "$golden"/*.yaml
fi
golden single-node single-node
golden single-node-nfs single-node -p NFS_SERVER=nfs.example
golden single-node-wide-deep single-node -p MODEL=wide_deep
golden multi-node multi-node
golden multi-node-nfs multi-node -p NFS_SERVER=nfs.example
golden pipeline pipeline
golden pipeline-nfs pipeline -p NFS_SERVER=nfs.example
golden pipeline-tensorflow pipeline -p SERVER=tensorflow
golden mpi-benchmark mpi-benchmark -p NFS_SERVER=nfs.example
golden openmpi openmpi -p NFS_SERVER=nfs.example
golden eks-cluster eks-cluster -p PLACEMENT_GROUP=training
golden eks-storage-efs eks-storage -p FILE_SYSTEM=efs -p FILE_SYSTEM_ID=fs-0123
golden eks-storage-fsx eks-storage -p FILE_SYSTEM_ID=fs-0123
golden eks-storage-fsx-dynamic eks-storage -p PROVISIONING=dynamic -p SUBNET_ID=subnet-1 \
    -p SECURITY_GROUP_IDS=sg-1 -p S3_IMPORT_PATH=s3://dl-benchmark-dataset/imagenet
golden eks-training eks-training
golden eks-training-s3 eks-training -p SOURCE=s3 -p S3_PATH=s3://dl-benchmark-dataset/imagenet
golden eks-training-synthetic eks-training -p SOURCE=synthetic
golden multi-worker multi-worker
golden multi-worker-deploy multi-worker -p deploy=True -p create_volume_inspector=False
golden multi-worker-tensorflow multi-worker -p deploy=True -p create_volume_inspector=False \
    -p image=registry.example/mnist:1
golden elastic elastic
golden elastic-kueue elastic -p SCHEDULER=kueue -p QUEUE=team -p DASHBOARD_PORT=8080 -p SECRET=group
golden serving serving
golden device-plugin device-plugin
[ -z "$update" ] || exit 0

# Lists.
run 0 k8s list
for kind in single-node multi-node pipeline mpi-benchmark openmpi eks-cluster multi-worker elastic; do
    mentions out "$kind"
done
run 0 k8s list --json -
/usr/bin/python3 -c 'import json, sys; k = json.load(open(sys.argv[1]))["kinds"]; assert "pipeline" in [x["name"] for x in k]' \
    "$work/out" || fail "k8s list --json - is not as it should be"
run 0 k8s params multi-worker
mentions out "worker_replicas"
mentions out "processors of the inspector"
run 2 k8s params multinode
mentions err "did you mean multi-node?"

# A parameter file gives what flags give; flags beat it; the environment comes last.
run 0 k8s init multi-node -p WORKERS=3 -p USER_ID=1234
cp "$work/out" "$work/job.yaml"
run 0 k8s render "$work/job.yaml"
cp "$work/out" "$work/by-file"
run 0 k8s render multi-node -p WORKERS=3 -p USER_ID=1234
cmp -s "$work/out" "$work/by-file" || fail "a parameter file renders something else than flags"
run 0 k8s render "$work/job.yaml" -p WORKERS=4
mentions out "replicas: 4"
WORKERS=9 run 0 k8s render "$work/job.yaml"
mentions out "replicas: 3"
WORKERS=9 run 0 k8s render multi-node
mentions out "replicas: 9"
unset WORKERS
run 1 k8s render "$work/nothing.yaml"
mentions err "nothing.yaml"
echo "kind: multi-node
parameters: {WORKER: 1}" >"$work/bad.yaml"
run 2 k8s render "$work/bad.yaml"
mentions err "did you mean WORKERS?"

# Nothing is printed when something is wrong.
for words in "multi-worker -p deploy=True" "single-node -p STORAGE=nfs" "multi-node -p WORKERS=0" \
    "multi-node -p MODEL_NAME=My_Model" "single-node -p MEMORY=lots" "nonsense" "single-node -p X=1" \
    "openmpi -p CREATE_VOLUME=False -p WORKERS=2000000000" "elastic -p WORKERS=1001" \
    'openmpi -p CREATE_VOLUME=False -p volumes=[{"name":"a","x":1.5}]' "single-node -p MODEL=resnet51"; do
    run 2 k8s render $words
    says out ""
done

run 2 k8s render single-node -p MODEL=resnet51
mentions err "did you mean resnet50?"
run 0 k8s render single-node -p MODEL=/models/mine.so
run 2 k8s package "$work/other" -p MODEL=resnet51
NFS_SERVER=nfs.example run 0 k8s render single-node
mentions err "NFS_SERVER=nfs.example comes from the environment"
unset NFS_SERVER

# What is rendered is what our own command line takes. Where words are for mpirun, ours come last.
commands() {
    awk '/^ *command:$/ { on = 1; next }
        on && sub(/^ *- /, "") { gsub(/^"|"$/, ""); if (ours) print; ours += $0 == "lockstep"; next }
        { if (ours) print "."; on = ours = 0 }' "$1"
}
count=0
for file in "$golden"/*.yaml; do
    set --
    commands "$file" >"$work/commands"
    while read -r word; do
        if [ "$word" != . ]; then
            case $word in *'$(JOB_COMPLETION_INDEX)'*) word=0 ;; esac
            set -- "$@" "$word"
            continue
        fi
        # A flag that is not there comes last: what is said about it says that the others are fine.
        run 2 "$@" --no-such-flag
        mentions err "no-such-flag"
        count=$((count + 1))
        set --
    done <"$work/commands"
done
[ "$count" -gt 20 ] || fail "only $count of our own command lines were rendered"

# Who runs it.
run 0 k8s render single-node
mentions out "# Nobody was named to run as"
mentions out "runAsUser: 1000"
says err ""
run 0 k8s render single-node -p USER_ID=0
mentions err "warning: USER_ID=0 runs as root"
mentions out "runAsNonRoot: false"
run 0 k8s render single-node -p USER_ID=77
grep -q "Nobody was named" "$work/out" && fail "someone was named to run as"

# kubectl.
mkdir -p "$work/notes/answers"
export KUBECTL="$here/../support/kubectl" KUBECTL_NOTES="$work/notes"
notes() { grep -qxF -- "$1" "$work/notes/calls" || fail "kubectl was not called as '$1': $(cat "$work/notes/calls")"; }
answer() { cat >"$work/notes/answers/$1"; }
forget() { rm -f "$work/notes/calls" "$work/notes/input" "$work/notes/answers"/*; }

echo applied | answer apply_-f
run 0 k8s apply multi-node -n team -p WORKERS=3
notes "-n team apply -f -"
says out applied
run 0 k8s render multi-node -n team -p WORKERS=3
cmp -s "$work/out" "$work/notes/input" || fail "apply sends something else than render prints"
run 0 k8s apply single-node --context prod
notes "--context prod apply -f -"
run 0 k8s apply single-node --dry-run
notes "apply -f - --dry-run=server"
echo gone | answer delete_--ignore
run 0 k8s delete multi-node -n team
notes "-n team delete --ignore-not-found -f -"
forget
echo 1 | answer apply_-f.status
run 1 k8s apply single-node
forget
run 2 k8s apply eks-cluster
mentions err "another program"

echo "line 1" | answer logs
run 1 k8s logs single-node
mentions err "no pod has started yet"
run 1 k8s logs single-node -f --timeout 0
mentions err "no pod has started yet"
echo '{"items": []}' | answer get_-o_json_pods
echo '{"status": {"phase": "Pending"}}' | answer get_-o_json_pod_resnet
run 1 k8s logs multi-node
mentions err "no pod has started yet"
run 1 k8s logs single-node
mentions err "no pod has started yet"
echo '{"items": [{"status": {"phase": "Pending"}}, {"status": {"phase": "Running"}}]}' | answer get_-o_json_pods
echo '{"status": {"phase": "Succeeded"}}' | answer get_-o_json_pod_
run 0 k8s logs multi-node
notes "logs -l training.kubeflow.org/job-name=resnet50v1-5-fp32-training,training.kubeflow.org/job-role=launcher --tail=-1"
says out "line 1"
run 0 k8s logs openmpi -p NFS_SERVER=a -f --save "$work/results/benchmark_1.out"
notes "-n kubeflow-dist-train logs pod/openmpi-master --tail=-1 -f --max-log-requests=100"
says out "line 1"
[ "$(cat "$work/results/benchmark_1.out")" = "line 1" ] || fail "the log was not saved"
run 0 k8s logs pipeline
notes "logs -l workflows.argoproj.io/workflow=wide-deep-large-ds-fp32-training-wf,app.kubernetes.io/component=training -c main --tail=-1"
run 0 k8s logs multi-worker
notes "logs -l batch.kubernetes.io/job-name=tf-learning-worker-0 --tail=-1"
forget
echo pods | answer get_
run 0 k8s status pipeline
notes "get workflows.argoproj.io,deployments.apps,services,pods -l app.kubernetes.io/instance=wide-deep-large-ds-fp32-training"
forget

echo '{"status": {"conditions": [{"type": "Running", "status": "False"}, {"type": "Succeeded", "status": "True"}]}}' |
    answer mpijobs_kubeflow
run 0 k8s wait multi-node
notes "get -o json mpijobs.kubeflow.org/resnet50v1-5-fp32-training"
mentions out "succeeded"
echo '{"status": {"phase": "Failed"}}' | answer pod_
run 1 k8s wait single-node
mentions err "failed"
echo '{"status": {"phase": "Running"}}' | answer pod_
run 1 k8s wait single-node --timeout 0
mentions err "has not finished"
run 1 k8s wait elastic --timeout 0
mentions err "is not there"
rolled() {
    echo '{"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 3}, "status":
        {"observedGeneration": '"$1"', "replicas": '"$2"', "updatedReplicas": '"$3"', "availableReplicas": '"$4"'}}' |
        answer deployment_model
}
rolled 2 3 3 3
run 0 k8s wait serving
mentions out "is ready"
for unready in "1 3 3 3" "2 4 3 4" "2 3 2 3" "2 3 3 2"; do
    rolled $unready
    run 1 k8s wait serving --timeout 0
    mentions err "has not finished"
done
echo '{"kind": "DaemonSet", "status": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}}' |
    answer daemonsets
run 0 k8s wait device-plugin
mentions out "is ready"
echo '{"kind": "DaemonSet", "status": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}}' |
    answer daemonsets
run 1 k8s wait device-plugin --timeout 0
forget

# The doctor: first nothing is there, then everything.
echo '{"serverVersion": {"gitVersion": "v1.34.10"}}' | answer version
run 1 k8s doctor multi-node -n team
mentions out "MPI Operator is not installed"
mentions out "mpi-operator.yaml"
mentions out "namespace team is not there"
mentions out "claim workdisk is not there"
mentions out "no DNS pod runs"
run 1 k8s doctor pipeline -n team
mentions out "Argo Workflows is not installed"
run 1 k8s doctor -n team --json -
/usr/bin/python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["findings"][0]["verdict"] == "ok"' \
    "$work/out" || fail "k8s doctor --json - is not as it should be"
# What the user has no right to see is not said to be missing.
echo 1 | answer get_.status
echo 'Error from server (Forbidden): nodes is forbidden: User "jane" cannot list resource' | answer get_.errors
echo ok | answer apply_--dry-run
run 0 k8s doctor multi-node -n team
mentions out "MPI Operator: you may not look at it"
mentions out "the namespace and its Pod Security level: you may not look at it"
mentions out "claim workdisk: you may not look at it"
rm "$work/notes/answers"/get_.* "$work/notes/answers"/apply*
echo '{"spec": {"versions": [{"name": "v2beta1", "served": true}]}}' | answer mpijobs_kubeflow
echo '{"spec": {"versions": [{"name": "v1alpha1", "served": true}]}}' | answer workflows_argoproj
echo '{"items": [{"spec": {"template": {"spec": {"containers": [{"image": "operator:1"}]}}}}]}' | answer deployments_-A
echo '{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}' | answer namespaces_team
echo '{"items": [{"metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}]}' |
    answer storageclasses
echo '{"items": [{"status": {"phase": "Running"}}]}' | answer pods_-A
echo '{"items": []}' | answer resourcequotas
echo '{"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}' | answer persistentvolumeclaims_workdisk
echo '{"items": [{"status": {"images": [{"names": ["docker.io/library/lockstep:'"$("$LOCKSTEP" version | sed -n 's/^lockstep \([0-9.]*\).*/\1/p' | head -n 1)"'"]}]}}]}' |
    answer get_-o_json_nodes
echo ok | answer apply_--dry-run
run 0 k8s doctor multi-node -n team
mentions out "MPI Operator with v2beta1 (operator:1)"
mentions out "Pod Security level restricted"
mentions out "is on all 1 nodes"
echo '{"items": [{"metadata": {"name": "small"}, "status": {"hard": {"requests.cpu": "2", "pods": "10"}, "used": {"requests.cpu": "500m"}}}]}' |
    answer resourcequotas
run 1 k8s doctor multi-node -n team
mentions out "quota small allows 2 of requests.cpu, 500m are taken, and this needs 4.5"
echo '{"items": []}' | answer resourcequotas
echo '{"spec": {"accessModes": ["ReadWriteOnce"]}}' | answer persistentvolumeclaims_workdisk
run 1 k8s doctor multi-node -n team
mentions out "can be mounted by one node only"
echo '{"spec": {"accessModes": ["ReadWriteMany"]}}' | answer persistentvolumeclaims_models
run 0 k8s doctor serving -n team -p PVC_NAME=models -p REPLICAS=2
mentions out "no metrics server"
echo '{}' | answer apiservices
run 0 k8s doctor serving -n team -p PVC_NAME=models -p REPLICAS=2
mentions out "replicas can follow the load"
# The pods that an operator would make are tried by themselves, and the last that is sent.
echo '{"spec": {"accessModes": ["ReadWriteMany"]}}' | answer persistentvolumeclaims_workdisk
run 0 k8s doctor multi-node -n team
for sample in 0 1; do
    grep -q "name: .*-sample-$sample$" "$work/notes/input" || fail "doctor does not try pod $sample of an MPIJob"
done
grep -q serviceAccountName "$work/notes/input" && fail "doctor tries pods with an account that is not there yet"
echo 1 | answer apply_--dry-run.status
echo 'Error from server (Forbidden): pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true' |
    answer apply_--dry-run.errors
run 1 k8s doctor single-node -n team -p USER_ID=0
mentions out "Pod Security refuses the pods"
KUBECTL=/nowhere/kubectl run 1 k8s doctor
mentions err "/nowhere/kubectl cannot be started"
unset KUBECTL

# As a plugin of kubectl's.
ln -s "$LOCKSTEP" "$work/kubectl-lockstep"
"$work/kubectl-lockstep" list >"$work/out" || fail "kubectl-lockstep list fails"
mentions out "single-node"

# The package.
run 0 k8s package "$work/tree" -p USER_ID=1234
for use in single-node multi-node pipeline; do
    for storage in user-allocated-pvc user-mounted-nfs; do
        for file in Krmfile kustomization.yaml config-map.yaml; do
            [ -s "$work/tree/quickstart/mlops/$use/$storage/$file" ] || fail "$use/$storage has no $file"
        done
    done
done
[ -s "$work/tree/quickstart/mlops/single-node/user-mounted-nfs/pod.yaml" ] || fail "no pod.yaml"
[ -s "$work/tree/quickstart/mlops/multi-node/user-allocated-pvc/mpi-job.yaml" ] || fail "no mpi-job.yaml"
grep -q 'runAsUser: 1234 # {"$openapi":"USER_ID"}' "$work/tree/quickstart/mlops/single-node/user-mounted-nfs/pod.yaml" ||
    fail "pod.yaml has no setter for USER_ID"
run 2 k8s package "$work/other" -p STORAGE=nfs
run 2 k8s package "$work/other" -p nonsense=1
[ ! -e "$work/other" ] || fail "a refused package left files"
finish
