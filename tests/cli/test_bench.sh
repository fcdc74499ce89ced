#!/bin/sh
# What users of tf_cnn_benchmarks look for in the output of bench, and of train with
# --display-every, against tests/golden/bench: all but speeds and losses to the letter. `make golden`
# calls this with --update.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
golden=$here/../golden/bench
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }

# compare NAME WORDS...: numbers that differ from run to run have their form in the golden file:
# S.S for a speed with one digit behind the point, L.LLL for a loss with three.
compare() {
    file=$golden/$1.txt
    shift
    run 0 "$@"
    sed -e 's/images\/sec: [0-9]*\.[0-9] +\/- [0-9]*\.[0-9] (jitter = [0-9]*\.[0-9])/images\/sec: S.S +\/- S.S (jitter = S.S)/' \
        -e 's/	[0-9]*\.[0-9][0-9][0-9]$/	L.LLL/' \
        -e 's/^total images\/sec: [0-9]*\.[0-9][0-9]$/total images\/sec: S.SS/' \
        -e 's/ in [0-9]*\.[0-9] s, [0-9]*\.[0-9] examples\/s$/ in S.S s, S.S examples\/s/' \
        -e 's/^\(Loss\|Accuracy\): [0-9]*\.[0-9][0-9][0-9][0-9]$/\1: L.LLLL/' \
        -e 's/^Total time: [0-9]*\.[0-9] s$/Total time: S.S s/' "$work/out" >"$work/form"
    if [ "${update:-}" = yes ]; then
        cp "$work/form" "$file"
    else
        diff -u "$file" "$work/form" ||
            fail "$file differs; if the change is meant, run make golden and read the diff"
    fi
}
update=
[ "${1:-}" = --update ] && update=yes && mkdir -p "$golden"

small="mnist_custom --threads 1 --batch-size 8"
compare training bench $small --num-batches 4 --num-warmup-batches 2 --display-every 2
says err ""
compare cold bench --model=mnist_keras --batch_size=8 --threads 1 --num_batches=2 \
    --num_warmup_batches=0 --data_dir=digits --optimizer sgd --device=cpu --variable_update=horovod \
    --mkl=True --nodistortions --display_every=1
compare forward-only bench $small --num-batches 2 --num-warmup-batches 1 --forward_only
compare train train $small --examples 64 --steps 8 --display_every 2 --num_warmup_batches 3
says err ""
compare train-cold train $small --examples 64 --steps 3 --display_every 1 --num_warmup_batches 0
[ -z "$update" ] || finish

# Warm-up steps of train are among its steps; where no step is left, nothing is measured.
run 0 train $small --examples 64 --steps 2 --num-warmup-batches 2 --display-every 1 --json "$work/j"
grep -q "images/sec: " "$work/out" && fail "a warm-up step was measured"
[ "$(field "$work/j" steps)" = 2 ] || fail "warm-up steps do not train"
[ "$(field "$work/j" median_step_seconds)" = null ] || fail "a warm-up step has a time"
# JSON on standard output comes alone.
run 0 train $small --examples 64 --steps 2 --display-every 1 --num-warmup-batches 0 --json -
[ "$(head -c 1 "$work/out")" = "{" ] || fail "the output does not begin with {"
mentions err "total images/sec: "
run 0 bench $small --num-batches 2 --num-warmup-batches 0 --forward-only --json -
[ "$(field "$work/out" mode)" = forward-only ] || fail "the mode is not forward-only"
[ "$(field "$work/out" steps)" = 2 ] || fail "not 2 steps"
# The recipe's number of steps is one for training.
run 0 bench mnist_keras --threads 1 --batch-size 1 --num-warmup-batches 0 --json -
[ "$(field "$work/out" steps)" = 100 ] || fail "not 100 steps"
run 2 train $small --display-every 0
run 2 train $small --forward-only
mentions err "write lockstep bench"
run 2 bench $small --mode=inference
mentions err "--forward-only"
TF_CONFIG='{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}}' \
    run 2 bench $small --num-batches 1
mentions err "TF_CONFIG names 2 ranks"
finish
