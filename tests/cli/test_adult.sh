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
