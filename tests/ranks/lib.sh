# Sourced by the scripts beside it: the program under several ranks of mpirun.
. "$(dirname "$0")/../cli/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS OMP_NUM_THREADS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI does not free all it takes, in modules that are gone when leaks are looked for.
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
LIMIT=${LIMIT:-120} # seconds for one mpirun

skip() {
    echo "skipped: $*"
    exit 77
}
command -v mpirun >/dev/null || skip "no mpirun: install openmpi-bin"

# verdict STATUS WORDS...: of the command that just ended with $status.
verdict() {
    expected=$1
    shift
    [ "$status" -eq "$expected" ] ||
        fail "$*: exit status $status, expected $expected: $(head -c 600 "$work/err")"
}

# ranks STATUS N WORDS...: the program on N ranks; output in $work/out and $work/err as with `run`.
ranks() {
    wanted=$1 count=$2
    shift 2
    timeout -k 5 "$LIMIT" mpirun --oversubscribe -np "$count" "$LOCKSTEP" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
    verdict "$wanted" "$count ranks of lockstep $*"
}

# mixed STATUS "WORDS" "WORDS": two ranks that are told different things.
mixed() {
    timeout -k 5 "$LIMIT" mpirun --oversubscribe -np 1 "$LOCKSTEP" $2 : -np 1 "$LOCKSTEP" $3 \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
    verdict "$1" "lockstep $2 beside $3"
}

# alike A B: two checkpoints, or the newest of two directories, to the last bit.
alike() {
    "$LOCKSTEP" checkpoint diff "$1" "$2" >"$work/diff" 2>&1 ||
        fail "$1 and $2 are not alike: $(head -n 5 "$work/diff")"
}

# field FILE NAME: the value of a number, word or null in JSON written one field per line.
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }

# same NAME FILE FILE: a field that two JSON files share.
same() {
    one=$(field "$2" "$1") two=$(field "$3" "$1")
    [ -n "$one" ] && [ "$one" = "$two" ] || fail "$1 is '$one' in $2 and '$two' in $3"
}

# newest DIR: the last step that has a checkpoint there.
newest() { ls "$1" | sed -n 's/^step-0*\([0-9][0-9]*\)$/\1/p' | sort -n | tail -n 1; }
