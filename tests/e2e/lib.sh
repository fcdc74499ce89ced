# Sourced by tests/e2e/test_NAME.sh, which tests/e2e/run starts one after the other on a running
# cluster. A test is a bash script:
#
#     #!/usr/bin/env bash
#     # What it shows, in a sentence or two.
#     . "$(dirname "$0")/lib.sh"
#     claim workdisk 1Gi
#     before
#     check 'the pod is accepted' k8s apply single-node -p DATA=synthetic -p CPU=500m -p STEPS=2
#     check 'it ends well' wait_for 120 phase pod/resnet50v1-5-fp32-training Succeeded
#     check 'its log has the steps' says 'step 2' kubectl logs resnet50v1-5-fp32-training
#     check 'it is deleted' k8s delete single-node
#     check 'nothing is left behind' nothing_left
#     finish
#
# What a test finds in its environment:
#     NS          a fresh namespace, e2e-NAME, that enforces Pod Security `restricted`; the runner
#                 makes it and deletes it. More namespaces: `namespace SUFFIX`.
#     KUBECONFIG  of the test alone; its namespace is NS, so `kubectl get pods` shows the test's pods
#     LOCKSTEP    our program; IMAGE our image (lockstep:VERSION), which is on every node
#     WORK        a directory of the test's own, removed after it
#     DATA        the directory of real data; empty when it is not there (then `skip 'why'`)
#     NODES       how many nodes there are: node-1, node-2 ...; NODE_IP is node-1's address (NodePorts)
#     BUSYBOX     an image with a shell, localhost/busybox:1; localhost/mpi:1 has Open MPI and sshd, as other people's do
# IMAGE, DATA, NODES and BUSYBOX are not exported: `lockstep k8s` takes variables for parameters.
# kubectl and jq are on the PATH. The machine is small: give every pod
# -p CPU=250m or so, a small batch and few steps; a node has two processors in all.
#
# Tests of several runs may go on at the same time: touch nothing outside of your namespaces but PersistentVolumes
# whose name ends in $NS. A test that does (takes an operator away, drains a node) has a line that starts with
# `# Alone` in its head: the runner lets no other test run beside it.
set -uo pipefail
: "${NS:?run by tests/e2e/run NAME}"
tests_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
IMAGE=$E2E_IMAGE DATA=$E2E_DATA NODES=$E2E_NODES BUSYBOX=localhost/busybox:1
checks_passed=0 checks_failed=0
# Told to end (the signal may come twice): a test's own EXIT trap still brings back what it took away.
trap 'trap "" TERM INT; exit 143' TERM INT

# check SENTENCE COMMAND...: runs it, prints `ok` or `FAILED` with the sentence, the seconds, and when it
# failed what it printed. Never ends the test: what follows may tell more.
check() {
    local sentence=$1 from=$SECONDS
    shift
    if "$@" >"$WORK/.check" 2>&1; then
        checks_passed=$((checks_passed + 1))
        printf '  ok     %s (%s s)\n' "$sentence" $((SECONDS - from))
    else
        checks_failed=$((checks_failed + 1))
        printf '  FAILED %s (%s s): %s\n' "$sentence" $((SECONDS - from)) "$*"
        tail -n 40 "$WORK/.check" | cut -c 1-400 | sed 's/^/         | /'
        # Now: what follows may delete the pods whose logs tell why.
        [ "$checks_failed" -gt 1 ] || "$tests_dir/keep-logs" "$LOGS" >/dev/null 2>&1
        return 1
    fi
}

# must SENTENCE COMMAND...: a check without which the rest makes no sense.
must() { check "$@" || finish; }

# note TEXT...: a line of the log that is no check.
note() { printf '         %s\n' "$*"; }

# show LINES COMMAND...: for whoever reads the log: a command and the end of what it prints.
show() {
    note "\$ $(sed "s/^k8s /lockstep k8s /" <<<"${*:2}")"
    "${@:2}" 2>&1 | tail -n "$1" | cut -c 1-200 | sed 's/^/         /'
}

# skip WHY: this test cannot run here.
skip() {
    echo "  skipped: $*"
    exit 77
}

finish() {
    echo "$checks_passed passed, $checks_failed failed"
    [ "$checks_failed" -eq 0 ] && [ "$checks_passed" -gt 0 ]
    exit
}

# fails COMMAND...: whether it fails.
fails() { ! "$@"; }

# silent COMMAND...: whether it succeeds and prints nothing.
silent() {
    local out
    out=$("$@") && printf '%s' "$out" && [ -z "$out" ]
}

# says TEXT COMMAND...: whether the command succeeds and its output has a line that matches (grep -E);
# prints the output. `fails_saying` wants it to fail.
says() {
    local text=$1 out status
    shift
    out=$("$@" 2>&1)
    status=$?
    printf '%s\n' "$out"
    grep -qE -- "$text" <<<"$out" && return $status
}
fails_saying() {
    local text=$1 out
    shift
    out=$("$@" 2>&1) && { printf '%s\n' "$out" && return 1; }
    printf '%s\n' "$out"
    grep -qE -- "$text" <<<"$out"
}

# wait_for SECONDS COMMAND...: tries it twice a second until it succeeds; shows its last output if it never does.
wait_for() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >"$WORK/.wait" 2>&1; do
        [ $SECONDS -lt $until ] || { echo "waited in vain: $*" && cat "$WORK/.wait" && return 1; }
        sleep 0.5
    done
    cat "$WORK/.wait"
}

# phase OBJECT WORD: pods, claims, workflows: whether .status.phase is this.
phase() {
    local now
    now=$(kubectl get "$1" -o 'jsonpath={.status.phase}') && echo "$1 is $now" && [ "$now" = "$2" ]
}

# condition OBJECT TYPE: jobs, MPIJobs, deployments: whether that condition is True.
condition() {
    local now
    now=$(kubectl get "$1" -o "jsonpath={.status.conditions[?(@.type=='$2')].status}") &&
        echo "$1: $2 is '$now'" && [ "$now" = True ]
}

# k8s WORDS...: lockstep k8s in the test's namespace.
k8s() {
    local verb=$1
    shift
    "$LOCKSTEP" k8s "$verb" -n "$NS" "$@" </dev/null
}

# namespace SUFFIX [LEVEL]: makes the namespace $NS-SUFFIX (restricted unless another level is given)
# and prints its name; the runner deletes it with the first.
namespace() {
    kubectl create namespace "$NS-$1" >/dev/null &&
        kubectl label namespace "$NS-$1" lockstep-e2e="$NS" "pod-security.kubernetes.io/enforce=${2:-restricted}" >/dev/null &&
        echo "$NS-$1"
}

# claim NAME SIZE [NAMESPACE]: a claim of the default storage class, bound when this returns. Its volume
# is a directory of this machine, which all nodes see.
claim() {
    kubectl -n "${3:-$NS}" create -f - >/dev/null <<END_OF_CLAIM || return
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: $2}}
END_OF_CLAIM
    kubectl -n "${3:-$NS}" wait --for=jsonpath='{.status.phase}'=Bound "pvc/$1" --timeout=30s >/dev/null
}

# volume_of CLAIM [NAMESPACE]: the directory behind a claim, on this machine: to put data in, to look at results.
volume_of() {
    local volume
    volume=$(kubectl -n "${2:-$NS}" get pvc "$1" -o 'jsonpath={.spec.volumeName}') && [ -n "$volume" ] &&
        kubectl get pv "$volume" -o 'jsonpath={.spec.local.path}'
}

# put_data CLAIM SOURCE [SUBDIRECTORY]: copies a file, or what is in a directory, to a claim's volume.
put_data() {
    local to
    to=$(volume_of "$1")${3:+/$3} || return
    mkdir -p "$to" && if [ -d "$2" ]; then cp -r "$2/." "$to"; else cp "$2" "$to"; fi && chmod -R a+rX "$to"
}

# local_volume NAME DIRECTORY SIZE [CLASS]: a PersistentVolume (its name should end in $NS) on a directory that
# all nodes see, for claims that ask for a volume by name or class. DIRECTORY is made if need be.
local_volume() {
    mkdir -p "$2" && chmod 777 "$2" && kubectl create -f - >/dev/null <<END_OF_VOLUME
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: $3}
  accessModes: [ReadWriteMany]
  storageClassName: "${4:-}"
  persistentVolumeReclaimPolicy: Retain
  local: {path: $2}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}]}}
END_OF_VOLUME
}

# imagenet_records: prints a directory of ImageNet TFRecords (10 classes), made once per cluster: by `lockstep data
# convert` of some real pictures where they are, else by `lockstep data make`, unless LOCKSTEP_REQUIRE_DATA asks for real ones.
imagenet_records() {
    local to=$E2E_SHARED/imagenet
    if [ -d "$DATA/imagenette" ]; then
        note 'the records are made of real pictures (Imagenette)' >&2
    elif [ -n "${LOCKSTEP_REQUIRE_DATA:-}" ]; then
        echo '  FAILED there are no real pictures, and LOCKSTEP_REQUIRE_DATA is set' >&2
        return 1
    else
        note 'the records are made of drawn pictures: there are no real ones here' >&2
    fi
    (
        flock 9
        [ -e "$to/made" ] && exit
        rm -rf "$to" && mkdir -p "$to"
        if [ -d "$DATA/imagenette" ]; then
            (cd "$DATA/imagenette" && for class in train/* val/*; do
                mkdir -p "$to/pictures/$class" && ls "$class"/* | head -n 8 | xargs -I{} cp {} "$to/pictures/$class"
            done) && "$LOCKSTEP" data convert "$to/pictures" "$to/records"
        else
            "$LOCKSTEP" data make imagenet "$to/records" --examples 80 --eval-examples 80
        fi >"$to/log" 2>&1 && chmod -R a+rX "$to" && touch "$to/made"
    ) 9>"$E2E_SHARED/imagenet.lock" && echo "$to/records"
}

# before: remembers what is in the namespace; nothing_left: whether it is the same again (within a minute:
# objects that belong to others go a little later than these).
objects() {
    local all
    all=$(kubectl get "$(kubectl api-resources --verbs=list --namespaced -o name | grep -vE '^(events|endpoints$)' | paste -sd,)" \
        --ignore-not-found -o name)
    grep -q '/kube-root-ca.crt$' <<<"$all" || { echo 'nobody answers' && return 1; } # every namespace has it
    sort <<<"$all"
    kubectl get pv -o 'jsonpath={range .items[*]}{.metadata.name} {.spec.claimRef.namespace}{"\n"}{end}' |
        awk -v ns="$NS" '$2 == ns || substr($1, length($1) - length(ns)) == "-" ns' | sort
}
before() { objects >"$WORK/.before" || { echo '  FAILED the namespace cannot be listed' && checks_failed=$((checks_failed + 1)) && finish; }; }
same_as_before() { objects >"$WORK/.after" && diff "$WORK/.before" "$WORK/.after"; }
nothing_left() { wait_for "${1:-60}" same_as_before; }

# newest_step DIRECTORY: of the checkpoints in it; saved_beyond DIRECTORY STEP: whether one is newer than that.
newest_step() { ls "$1" 2>/dev/null | sed -n 's/^step-0*//p' | sort -n | tail -n 1; }
saved_beyond() { echo "newest is '$(newest_step "$1")'" && [ "0$(newest_step "$1")" -gt "$2" ]; }

# nfs_note: why there is no NFS below.
nfs_note() {
    note "NFS: $(grep -qw nfs4 /proc/filesystems && echo 'this kernel has a client, but no server is set up here' || echo 'this kernel has no client');" \
        "the PersistentVolume under the same claim is a directory of this machine instead"
}

# nfs_to_directory DIRECTORY: a rendered manifest from standard input to standard output, with the NFS volume in it
# replaced by a directory of this machine: where there is no NFS, the claim and everything above it stay the same.
nfs_to_directory() {
    awk -v directory="$1" '
        /^  mountOptions:/ { skipping = 1; next }
        /^  nfs:/ { print "  hostPath:\n    path: " directory; skipping = 1; next }
        skipping && /^(  -|    )/ { next }
        { skipping = 0; print }'
}
