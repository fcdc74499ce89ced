#!/bin/sh
# Two ranks of a batch, and two batches of one rank in a step, do what one rank does with twice the
# batch, but for the rounding of sums; networks without batch norm and dropout, whose statistics and
# random streams are each piece's own. float16 on the wire stays near.
. "$(dirname "$0")/lib.sh"

# largest A B: the largest difference of any number in two checkpoints.
largest() {
    "$LOCKSTEP" checkpoint diff "$1" "$2" --json "$work/diff.json" >/dev/null 2>&1
    sed -n 's/^ *"largest": \([^,]*\),*$/\1/p' "$work/diff.json" |
        awk 'BEGIN { most = 0 } $1 + 0 > most { most = $1 + 0 } END { print most }'
}
# at_most LIMIT A B, more_than LIMIT A B
at_most() {
    found=$(largest "$2" "$3")
    awk "BEGIN { exit !($found <= $1) }" || fail "$2 and $3 differ by $found, more than $1"
}
more_than() {
    found=$(largest "$2" "$3")
    awk "BEGIN { exit !($found > $1) }" || fail "$2 and $3 differ by only $found, not by $1"
}

# go RANKS DIR WORDS...: five steps of plain SGD, under which a gradient's error stays what it is.
go() {
    group=$1 directory=$work/$2
    shift 2
    ranks 0 "$group" train "$@" --optimizer sgd --lr 0.1 --schedule constant --warmup-epochs 0 \
        --steps "${steps:-5}" --threads 1 --checkpoint-dir "$directory" --checkpoint-every 0 -q
}

# Steps move weights by some hundredths. A gradient is a mean over the batch, so an order of summing
# changes it by a few units of its last place, of which 1e-6 is a hundred at that size.
compare() {
    name=$1
    shift
    go 1 "$name-whole" "$@" --batch-size 96
    go 2 "$name-ranks" "$@" --batch-size 48
    go 3 "$name-thirds" "$@" --batch-size 32
    go 1 "$name-parts" "$@" --batch-size 48 --accumulate 2
    go 2 "$name-both" "$@" --global-batch-size 96 --accumulate 3
    go 1 "$name-other" "$@" --batch-size 48
    for way in ranks thirds parts both; do
        at_most 1e-6 "$work/$name-whole" "$work/$name-$way"
    done
    more_than 1e-3 "$work/$name-whole" "$work/$name-other"
    # Eleven bits of a gradient travel, so one step of a hundredth is wrong by some millionths; more
    # steps would show what a network makes of that.
    steps=1
    go 1 "$name-first" "$@" --batch-size 96
    go 2 "$name-half" "$@" --batch-size 48 --wire float16
    steps=5
    at_most 1e-5 "$work/$name-first" "$work/$name-half"
    more_than 1e-7 "$work/$name-first" "$work/$name-half"
}

compare mnist_keras mnist_keras --examples 960 --eval-data none
compare wide_deep wide_deep --data synthetic --examples 960 --embedding-rows 60 \
    --embedding-dim 4 --hidden 16,8 --dropout 0 --group none --eval-data none

# Ranks on unlike processors, of which one is made to believe that it is old: other kernels, other
# layouts, so gradients travel in plain order; with a fixed order of bits they are refused.
unlike() {
    wanted=$1
    shift
    timeout -k 5 "$LIMIT" mpirun --oversubscribe -np 1 "$LOCKSTEP" "$@" : \
        -np 1 -x DNNL_MAX_CPU_ISA=SSE41 -x ONEDNN_MAX_CPU_ISA=SSE41 "$LOCKSTEP" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
    verdict "$wanted" "unlike processors: $*"
}
if grep -qw avx2 /proc/cpuinfo; then
    sgd="train mnist_custom --examples 960 --eval-data none --optimizer sgd --lr 0.1 --steps 5 \
        --schedule constant --warmup-epochs 0 --threads 1 -q"
    run 0 $sgd --batch-size 96 --checkpoint-dir "$work/alike"
    unlike 0 $sgd --batch-size 48 --checkpoint-dir "$work/unlike"
    mentions err "uses other kernels than rank 0"
    mentions err "gradients are exchanged in plain order, without overlap"
    at_most 1e-6 "$work/alike" "$work/unlike"
    unlike 1 $sgd --global-batch-size 96 --shards 4
    mentions err "with --shards all ranks need the same kind of processor"
fi

# Where all is said twice.
ranks 2 2 train mnist_keras --examples 960 --batch-size 48 --global-batch-size 96
mentions err "--batch-size is of one rank, --global-batch-size of all: give one of them"
ranks 2 2 train mnist_keras --examples 960 --global-batch-size 97
mentions err "cannot be divided into 2 equal parts"
ranks 2 2 train mnist_keras --examples 960 --shards 4 --wire float16
mentions err "bits would depend on the number of ranks"
ranks 0 2 train mnist_keras --examples 960 --batch-size 24 --shards 4 --steps 1 --eval-data none -q
mentions err "with --shards give --global-batch-size=48"
ranks 2 3 train mnist_keras --examples 960 --shards 2
mentions err "--shards=2 is less than one for each of 3 ranks"
finish
