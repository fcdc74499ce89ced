#!/bin/sh
# Wide & Deep: on drawn data, saved and loaded again; on the Adult census to 85 %.
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

data=$(cd "${LOCKSTEP_DATA:-$here/../../../shared/data}/adult" 2>/dev/null && pwd)
if [ -z "$data" ]; then
    [ "${LOCKSTEP_REQUIRE_DATA:-0}" = 1 ] && fail "the Adult census is not there"
    finish
fi
# Gains and losses are few round sums that mean much one by one: categories, not quantities.
cat >"$work/adult.columns" <<END
file train $data/adult.data.gz
file eval $data/adult.test.gz skip 1
column age numeric
column workclass categorical 100
column fnlwgt ignore
column education categorical 100
column education_num numeric
column marital_status categorical 100
column occupation categorical 100
column relationship categorical 100
column race categorical 100
column sex categorical 10
column capital_gain categorical 1000
column capital_loss categorical 1000
column hours_per_week numeric
column native_country categorical 1000
label income >50K >50K.
END
run 0 train wide_deep --data "table:$work/adult.columns" --hidden 128,64 --embedding-dim 16 \
    --lr 0.03 --group wide/=ftrl,lr=0.05 --batch-size 128 --epochs 8 --target-accuracy 0.85
mentions out " met the target accuracy of 0.85"
finish
