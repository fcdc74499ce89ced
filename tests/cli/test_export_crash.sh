#!/bin/sh
# An export is killed, or the disk fails, at each of its calls in turn: a version is whole or not
# there, and the next export clears up what was left.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
faults=$(dirname "$LOCKSTEP")/tests/crash/faults.so
[ -f "$faults" ] || { echo "needs $faults"; exit 77; }
case $LOCKSTEP in *address*) exit 77 ;; esac # its runtime must be the first to be loaded

run 0 train mnist_keras --examples 64 --batch-size 16 --threads 1 --steps 2 --output-dir "$work/w" \
    --quiet
run 0 export "$work/w" --export-dir "$work/whole"

# faulty VARIABLE=VALUE...: an export with faults; its status.
faulty() {
    env LD_PRELOAD="$faults" FAULTS_BELOW="$work/models" "$@" "$LOCKSTEP" export "$work/w" \
        --export-dir "$work/models" > "$work/out" 2> "$work/err"
}

# check WHEN: every version there is whole.
check() {
    for version in "$work/models"/[0-9]*; do
        [ -e "$version" ] || continue
        diff -r "$version" "$work/whole/1" > "$work/diff" 2>&1 ||
            fail "$1: $version is not whole: $(head -c 300 "$work/diff")"
    done
}

faulty FAULTS_LOG="$work/log" || fail "an export without faults failed: $(cat "$work/err")"
calls=$(wc -l < "$work/log")
[ "$calls" -gt 20 ] || fail "only $calls calls: $(cat "$work/log")"
call=1
while [ "$call" -le "$calls" ]; do
    rm -rf "$work/models"
    faulty FAULTS_KILL=$call FAULTS_TORN=1
    check "killed at call $call of $calls ($(sed -n "${call}p" "$work/log"))"
    call=$((call + 1))
done

# What those left is gone after the next one, which has the next number.
rm -rf "$work/models"
faulty FAULTS_KILL=$((calls / 2))
[ -n "$(ls "$work/models" | grep temp-)" ] || fail "nothing was left by a killed export"
run 0 export "$work/w" --export-dir "$work/models"
[ "$(ls -A "$work/models")" = 1 ] || fail "the directory holds $(ls -A "$work/models")"

# A disk that is full, or cannot rename, leaves nothing and is told.
for name in write rename fsync mkdir; do
    rm -rf "$work/models"
    mkdir "$work/models"
    faulty FAULTS_CALL=$name FAULTS_ERRNO=28 && fail "an export succeeded though every $name failed"
    grep -q "No space left on device" "$work/err" || fail "$name: $(cat "$work/err")"
    [ -z "$(ls -A "$work/models")" ] || fail "$name: left $(ls -A "$work/models")"
done
finish
