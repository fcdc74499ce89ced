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

# interrupt STATUS SECONDS WORDS...: runs the program, sends it Ctrl-C after so long, and wants it to
# end with this status within three seconds.
interrupt() {
    expected=$1 after=$2
    shift 2
    "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null &
    child=$!
    sleep "$after"
    kill -INT "$child"
    sent=$(date +%s%N)
    wait "$child"
    status=$?
    milliseconds=$((($(date +%s%N) - sent) / 1000000))
    [ "$status" -eq "$expected" ] ||
        fail "lockstep $*: exit status $status, expected $expected: $(head -c 300 "$work/err")"
    [ "$milliseconds" -lt 3000 ] || fail "lockstep $*: went on for $milliseconds ms after Ctrl-C"
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
