#!/bin/sh
# Wide & Deep on drawn data, saved and loaded again; and what it refuses.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS

field() {
    sed -n "s/^ *\"$2\": \([^,]*\),*$/\1/p" "$1"
}

small="--embedding-rows 50 --embedding-dim 4 --hidden 16,8 --batch-size 64"
run 0 train wide_deep --data synthetic --eval-data synthetic $small --steps 20 -q \
    -o "$work/weights" --json "$work/train.json"
mentions out "AUC: "
mentions out "Log loss: "
run 0 eval wide_deep --data synthetic $small -w "$work/weights" --json "$work/eval.json"
for name in loss accuracy auc log_loss; do
    one=$(field "$work/train.json" $name) two=$(field "$work/eval.json" $name)
    [ -n "$one" ] && [ "$one" = "$two" ] || fail "$name: '$one' after training, '$two' when loaded"
done
run 0 train wide_deep --data synthetic $small --steps 2 --explain
mentions out "deep/embedding"

# What cannot be meant is said.
run 2 train wide_deep --data synthetic --hidden 16,x
mentions err "--hidden=16,x"
run 2 train wide_deep --data synthetic --group wide/=ftrl,momentum=0.5
mentions err "momentum means nothing to the optimizer ftrl"
run 2 train wide_deep --data synthetic --group wide/=lars
mentions err "needs the norm of all of wide/table"
run 2 train wide_deep --data synthetic --group nothing
mentions err "expected PREFIX=RULE"
run 2 eval wide_deep --data synthetic $small
run 1 train wide_deep --data synthetic --embedding-rows 2000000000 --embedding-dim 4096
mentions err "GiB needed"

# Options that would change nothing are refused, not ignored.
run 2 train wide_deep --data synthetic --image-size 64
mentions err "--image-size would change nothing: wide_deep has no such part"
run 2 train wide_deep --data synthetic --classes 3
run 2 train wide_deep --data synthetic --scaling deviation
mentions err "no numeric columns to scale"
run 2 train wide_deep --data synthetic --data-cache
mentions err "--data-cache would change nothing"
for option in "--hidden 8" "--dropout 0.5" "--embedding-dim 4" "--embedding-rows 9" \
    "--scaling deviation"; do
    run 2 train mnist_custom --data digits --examples 200 --steps 1 $option
    mentions err "would change nothing"
done
finish
