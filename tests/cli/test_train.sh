#!/bin/sh
# train, eval and bench from outside: results, exit statuses, signals, what goes where.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS

# field FILE NAME: the value of a number, word or null in JSON written one field per line.
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }

# is FILE NAME VALUE
is() {
    value=$(field "$1" "$2")
    [ "$value" = "$3" ] || fail "$2 in the JSON is '$value', expected '$3'"
}

small="mnist_custom --examples 640 --threads 2"

# Results go to standard output, progress to standard error, weights and JSON where they are told.
run 0 train $small --epochs 1 --output-dir "$work/a/b" --json "$work/a.json"
mentions out "10 steps, 640 examples in "
mentions out "Accuracy: 0."
mentions out "Total time: "
mentions out "Weights: $work/a/b/weights.safetensors"
mentions err "Z step 1/10, loss "
mentions err "Z finished 10 steps, 640 examples in "
is "$work/a.json" model mnist_custom
is "$work/a.json" data digits
is "$work/a.json" ranks 1
is "$work/a.json" threads 2
is "$work/a.json" steps 10
is "$work/a.json" examples 640
is "$work/a.json" optimizer adam
is "$work/a.json" checkpoint null
is "$work/a.json" interrupted false
for name in seconds examples_per_second median_step_seconds first_step_seconds loss accuracy \
    accuracy_top_5 auc log_loss peak_rss_bytes export version fingerprint input_stall_seconds; do
    [ -n "$(field "$work/a.json" "$name")" ] || fail "the JSON has no $name"
done

# The same seed and threads give the same bits; another seed does not.
run 0 train $small --epochs 1 --output-dir "$work/again" --quiet
says err ""
cmp -s "$work/a/b/weights.safetensors" "$work/again/weights.safetensors" ||
    fail "two runs with the same seed and threads differ"
run 0 train $small --epochs 1 --output-dir "$work/other" --quiet --seed 2
cmp -s "$work/a/b/weights.safetensors" "$work/other/weights.safetensors" &&
    fail "two seeds give the same weights"

# What eval finds is what train found, whatever the batch.
for batch in 1 3 64; do
    run 0 eval mnist_custom --examples 640 --weights "$work/a/b" --batch-size $batch \
        --json "$work/eval.json"
    mentions out "Accuracy @ 1 = 0."
    is "$work/eval.json" accuracy "$(field "$work/a.json" accuracy)"
    is "$work/eval.json" examples 640
done
run 2 eval mnist_custom
mentions err "Give --weights=PATH"
run 1 eval mnist_keras --weights "$work/a/b"

# JSON on standard output comes alone.
run 0 train $small --steps 2 --json -
[ "$(head -c 1 "$work/out")" = "{" ] || fail "the output does not begin with {"
[ "$(tail -n 1 "$work/out")" = "}" ] || fail "the output does not end with }"
is "$work/out" steps 2

# The accuracy gate.
run 0 train $small --steps 2 --target-accuracy 0.001 --quiet
mentions out "Target Accuracy: 0.001"
mentions out " met the target accuracy of 0.001"
run 1 train $small --steps 2 --target-accuracy 0.9999 --quiet
mentions out " did not meet the target accuracy of 0.9999"
run 2 train $small --data synthetic --target-accuracy 0.5
mentions err "--target-accuracy needs an evaluation: give --eval-data"
run 2 train $small --explain --target-accuracy 0.5
mentions err "leave --explain out"
TARGET_ACCURACY=0.9999 run 1 train $small --steps 1 --quiet --json "$work/gate.json"
is "$work/gate.json" target_accuracy 0.9999
is "$work/gate.json" target_met false
TARGET_ACCURACY= run 0 train $small --steps 1 --quiet --json "$work/gate.json"
grep -q "Target Accuracy" "$work/out" && fail "an empty TARGET_ACCURACY is taken for a target"
is "$work/gate.json" target_accuracy null

# Environment and aliases; a flag beats the environment, which beats the recipe.
STEPS=3 OUTPUT_DIR="$work/env" OMP_NUM_THREADS=1 run 0 train --model mnist_custom --examples 640 \
    --data synthetic --batch_size=16 --json -
is "$work/out" steps 3
is "$work/out" threads 1
is "$work/out" batch_size 16
[ -f "$work/env/weights.safetensors" ] || fail "OUTPUT_DIR has no weights"
STEPS=3 run 0 train $small --data synthetic --num_batches 2 --json -
is "$work/out" steps 2
run 0 train $small --data synthetic --max_train_steps 3 --train_epochs 2 --json -
is "$work/out" steps 3
run 0 train $small --data synthetic --max_train_steps 30 --train_epochs 0.2 --json -
is "$work/out" steps 2
run 0 train $small --data synthetic --steps 0 --batch-size 320 --json -
is "$work/out" steps 4

# Wrong words.
run 2 train $small --batch-size 0
run 2 train $small --batch-size -1
run 2 train mnist_custm
mentions err "did you mean mnist_custom?"
run 2 train $small --data dgits
mentions err "digits"
run 2 train $small --momentum 0.5
mentions err "--momentum means nothing to the optimizer adam"
run 2 train $small --schedule sometimes
mentions err "--schedule=sometimes"
run 2 train vgg16 --data digits --steps 1 --batch-size 1
mentions err "[N, 224, 224, 3]"
mentions err "[N, 28, 28, 1]"
run 1 train resnet50 --batch-size 5000 --steps 1
mentions err "use a smaller one"
mentions err "GiB needed"
run 2 train "$work"
run 2 train $small --data "$work"
mentions err "KIND:DIR"

# A loss that is no number stops the run; the last good weights are kept.
wild="--lr 1e20 --schedule constant --warmup-epochs 0 --quiet"
run 1 train $small --steps 10 $wild --output-dir "$work/nan"
mentions err "step 2: "
mentions err "not finite"
mentions err "$work/nan/weights.safetensors"
run 0 train $small --steps 1 $wild --eval-data none --output-dir "$work/one"
cmp -s "$work/nan/weights.safetensors" "$work/one/weights.safetensors" ||
    fail "the weights kept are not those of the last good step"
run 0 eval mnist_custom --examples 64 --weights "$work/nan"
run 1 train $small --steps 5 --optimizer sgd --lr 1e38 --weight-decay 1000 --schedule constant \
    --warmup-epochs 0 --quiet --output-dir "$work/gone"
mentions err "not finite"
[ ! -e "$work/gone/weights.safetensors" ] || fail "weights that are not finite were saved"

# Members on other machines need a secret; too many threads are not used.
TF_CONFIG='{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}}' \
    run 2 train $small --steps 1
mentions err "members on other machines need a secret"
run 0 train $small --steps 1 --threads 9999 --eval-data none
mentions err "9999 threads were asked for"
run 2 train $small --model resnet50
run 2 train $small --json /nowhere/at/all.json
mentions err "/nowhere/at/"

# A signal ends the run after the step in flight, with the weights saved.
for signal in INT:130 TERM:143; do
    : >"$work/err"
    "$LOCKSTEP" train $small --epochs 100000 --verbose --output-dir "$work/${signal%:*}" \
        >"$work/out" 2>"$work/err" &
    process=$!
    tries=0
    until grep -q "step 2/" "$work/err" || [ $tries -ge 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -"${signal%:*}" $process
    wait $process
    status=$?
    [ "$status" -eq "${signal#*:}" ] || fail "SIG${signal%:*}: exit status $status"
    [ -f "$work/${signal%:*}/weights.safetensors" ] || fail "SIG${signal%:*}: no weights"
    mentions err "Z stopped after "
done

# The table of kernels.
run 0 train $small --explain
mentions out "conv2d"
mentions out "5 steps, "
finish
