# Sourced by the scripts that show what --shards promises: the same bits for any number of ranks and
# threads, and when a run is continued by another number of ranks.
. "$(dirname "$0")/lib.sh"

# A rate that is the same at every step, whatever was the goal when the step was made.
steady="--schedule constant --warmup-epochs 0"

# go RANKS THREADS DIR WORDS...: RANKS 0 is a process without mpirun.
go() {
    group=$1 threads=$2 directory=$3
    shift 3
    set -- train "$@" $steady --threads "$threads" --checkpoint-dir "$directory" \
        --checkpoint-every 0 --keep 1 -q --json "$directory.json"
    if [ "$group" -eq 0 ]; then run 0 "$@"; else ranks 0 "$group" "$@"; fi
}

# identical STEPS "RANKS..." NAME WORDS...: so many steps in one process, which all others repeat.
identical() {
    steps=$1 groups=$2 name=$3
    shift 3
    go 0 1 "$work/$name" "$@" --steps "$steps"
    for group in 0 $groups; do
        # One process once more, with two threads; ranks have one each.
        [ "$group" -eq 0 ] && threads=2 || threads=1
        go $group $threads "$work/other" "$@" --steps "$steps"
        alike "$work/$name" "$work/other"
        same train_loss "$work/$name.json" "$work/other.json"
        same loss "$work/$name.json" "$work/other.json"
        rm -r "$work/other"
    done
}

# resized "RANKS..." NAME WORDS...: one step by each in turn, against the steps of `identical`.
resized() {
    groups=$1 name=$2
    shift 2
    for group in $groups; do
        go $group $((group ? 1 : 2)) "$work/resized" "$@" --steps 1
        ! grep -q "warning:" "$work/err" || fail "$group ranks went on: $(cat "$work/err")"
    done
    alike "$work/$name" "$work/resized"
    rm -r "$work/resized"
}
