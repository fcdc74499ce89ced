#!/bin/sh
# Wide & Deep for any CSV: a column file trains the Adult census to 85 %.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS

data=$(cd "${LOCKSTEP_DATA:-$here/../../../shared/data}/adult" 2>/dev/null && pwd)
if [ -z "$data" ]; then
    [ "${LOCKSTEP_REQUIRE_DATA:-0}" = 1 ] && fail "the Adult census is not there" && exit 1
    echo "skipped: no Adult census beside the project"
    exit 77
fi
cp "$here/../../examples/adult.columns" "$work/" && ln -s "$data"/adult.*.gz "$work/" || exit 1
run 0 train wide_deep --data "table:$work/adult.columns" --hidden 128,64 --embedding-dim 16 \
    --lr 0.03 --group wide/=ftrl,lr=0.05 --batch-size 128 --epochs 8 --target-accuracy 0.85
mentions out " met the target accuracy of 0.85"
finish
