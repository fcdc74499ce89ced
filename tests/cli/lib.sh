# Sourced by the scripts beside it: the program under test and a few checks that say both values.
# A script ends with `finish`; 77 as exit status means skipped.
set -u
here=$(cd "$(dirname "$0")" && pwd)
: "${LOCKSTEP:=$here/../../build/release/lockstep}"
LOCKSTEP=$(cd "$(dirname "$LOCKSTEP")" && pwd)/$(basename "$LOCKSTEP")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# run STATUS WORDS...: runs the program; its output is in $work/out and $work/err.
run() {
    expected=$1
    shift
    "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" -eq "$expected" ] ||
        fail "lockstep $*: exit status $status, expected $expected: $(head -c 300 "$work/err")"
}

# catches PID: whether the process has a handler for SIGINT.
catches() {
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    [ $((0x${mask:-2} & 2)) -ne 0 ]
}

# interrupt STATUS SECONDS WORDS...: runs the program, sends it Ctrl-C so long after it began to
# listen, and wants it to end with this status within ten seconds.
interrupt() {
    expected=$1 after=$2
    shift 2
    "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null &
    child=$!
    until catches "$child"; do
        sleep 0.05
    done
    sleep "$after"
    kill -INT "$child"
    sent=$(date +%s)
    wait "$child"
    status=$?
    seconds=$(($(date +%s) - sent))
    [ "$status" -eq "$expected" ] ||
        fail "lockstep $*: exit status $status, expected $expected: $(head -c 300 "$work/err")"
    [ "$seconds" -le 10 ] || fail "lockstep $*: went on for $seconds s after Ctrl-C"
}

# says out|err TEXT: the last run's output is exactly this line.
says() {
    [ "$(cat "$work/$1")" = "$2" ] || fail "std$1 is '$(cat "$work/$1")', expected '$2'"
}

# mentions out|err TEXT
mentions() {
    grep -qF -- "$2" "$work/$1" || fail "std$1 does not mention '$2': $(head -c 300 "$work/$1")"
}

finish() {
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
