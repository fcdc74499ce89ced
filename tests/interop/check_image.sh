#!/bin/sh
# A container engine that others wrote (podman with runc) loads our image and runs it as a cluster would:
# read-only, as a user that nobody knows, without a network; then everything that tests/image/run tries
# without an engine.
cd "$(dirname "$0")/../.." || exit 1
program=${1:-build/release/lockstep}
[ "$(id -u)" -eq 0 ] || { echo 'needs root, for containers'; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
passed=0 failed=0

engine() {
    podman --runtime runc --root "$place/storage" --runroot "$place/run" --storage-driver vfs \
        --cgroup-manager cgroupfs "$@"
}
# contained WORDS...: what the image's program says to them.
contained() {
    engine run --rm --network none --read-only --tmpfs /tmp --user 4242:4242 --log-driver none \
        --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --cap-drop ALL \
        --security-opt no-new-privileges docker.io/library/lockstep:interop "$@"
}
# try SENTENCE PATTERN COMMAND...: it must succeed and say something like PATTERN.
try() {
    sentence=$1 pattern=$2
    shift 2
    if "$@" >"$place/log" 2>&1 && grep -q "$pattern" "$place/log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$sentence"
        tail -n 20 "$place/log" | sed 's/^/    /'
    fi
}
try 'the image is made' 'lockstep.tar' tools/image "$program" interop "$place/image"
try 'podman loads it' 'lockstep:interop' engine load --input "$place/image/lockstep.tar"
try 'a container says its version' '^lockstep [0-9]' contained version
try 'a container trains' '^Accuracy: ' contained train mnist_custom --data digits --steps 5 --quiet
try 'a container exports and asks what it serves' '^Served as ' \
    contained pipeline mnist_custom --data digits --steps 20 --output-dir /tmp/out \
    --export-dir /tmp/export --quiet

LOCKSTEP=$program tests/image/run >"$place/without" 2>&1
grep -v '^[0-9]* passed, [0-9]* failed$' "$place/without"
passed=$((passed + $(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$place/without" | tail -n 1)))
failed=$((failed + $(sed -n 's/.* passed, \([0-9]*\) failed$/\1/p' "$place/without" | tail -n 1)))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
