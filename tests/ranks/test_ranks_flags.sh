#!/bin/sh
# The mpirun lines of the original packages work unchanged; rank 0 alone speaks; and ranks that were
# told different things are refused, naming the difference.
. "$(dirname "$0")/lib.sh"
train="train mnist_custom --examples 160 --steps 3 --batch-size 16 --threads 1 --eval-data none"

# launch FLAGS: mpirun with them in place of ours.
launch() {
    timeout -k 5 "$LIMIT" mpirun "$@" "$LOCKSTEP" $train --json "$work/run.json" \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
    verdict 0 "mpirun $*"
    [ "$(field "$work/run.json" global_batch_size)" = 32 ] ||
        fail "mpirun $*: the batch of both ranks is '$(field "$work/run.json" global_batch_size)'"
}

# once FILE TEXT: in exactly one line.
once() {
    found=$(grep -cF -- "$2" "$1")
    [ "$found" -eq 1 ] || fail "'$2' is in $found lines of $1: $(head -c 600 "$1")"
}

# ---- as the MPIJob of ResNet-50 has it ----
launch --allow-run-as-root -np 2 -x PYTHONPATH -x LD_LIBRARY_PATH -mca pml ob1 -mca btl ^openib \
    -mca btl_tcp_if_exclude lo,docker0 -bind-to none -map-by slot --oversubscribe \
    -output-filename "$work/output"
once "$work/out" "3 steps, 96 examples in "
once "$work/err" "Z step 3/3, "
for file in stdout stderr; do
    [ -f "$work/output/1/rank.0/$file" ] || fail "rank 0 has no $file: $(find "$work/output")"
    [ ! -s "$work/output/1/rank.1/$file" ] || fail "rank 1 said: $(cat "$work/output/1/rank.1/$file")"
done
once "$work/output/1/rank.0/stdout" "3 steps, 96 examples in "

# ---- as the tutorial of tf_cnn_benchmarks has it ----
# The name that the local machine gives itself is one for which no remote shell is needed.
printf 'localhost slots=2\n' >"$work/hosts"
launch -np 2 --hostfile "$work/hosts" --allow-run-as-root --display-map --tag-output \
    --timestamp-output -bind-to none -map-by slot --mca plm_rsh_no_tree_spawn 1 \
    -x NCCL_DEBUG=INFO -mca pml ob1 -mca btl ^openib
once "$work/out" "Process rank: 1"
# Each line is marked once: who wrote it, and nothing in the middle of it.
once "$work/err" "Z step 3/3, "
grep -F "[1,0]<stderr>:" "$work/err" | grep -q "[1,0]<stderr>:.*[1,0]<stderr>:" &&
    fail "a line came in pieces: $(head -c 600 "$work/err")"
grep -F "[1,1]" "$work/out" "$work/err" && fail "rank 1 spoke"

# ---- one of them exports ----
ranks 0 2 $train --export-dir "$work/models" --json "$work/run.json"
[ "$(ls -A "$work/models")" = 1 ] || fail "two ranks exported $(ls -A "$work/models")"
[ "$(field "$work/run.json" export)" = "$work/models/1" ] || fail "no export in the JSON"

# ---- told different things ----
for option in "--lr 0.5" "--shards 2" "--optimizer sgd"; do
    mixed 1 "$train" "$train $option"
    mentions err "the ranks were started differently: rank 0 has \""
    mentions err "rank 1 has \"$option\""
    # One says it for both, and nobody trains.
    mentions err "lockstep: the ranks"
    grep -q "lockstep: rank 1: the ranks" "$work/err" && fail "said twice: $(cat "$work/err")"
    ! grep -q "Z step" "$work/err" || fail "$option: they trained"
done
printf 'kernels 1\nconv2d * use onednn\n' >"$work/kernels.txt"
mixed 1 "$train" "$train --kernels $work/kernels.txt"
mentions err "--kernels "
mixed 1 "train mnist_custom --examples 160 --steps 1 --batch-size 16 --eval-data none" \
    "train mnist_keras --examples 160 --steps 1 --batch-size 16 --eval-data none"
mentions err "rank 1 has \"model mnist_keras\""

# Drawn data and its division follow from some words; whichever is named, they do not train.
for option in "--seed 7" "--batch-size 8"; do
    mixed 1 "$train" "$train $option"
    mentions err "the ranks were started differently: rank 0 has \""
    ! grep -q "Z step" "$work/err" || fail "$option: they trained"
done

# The same words, other files.
for n in 300 340; do
    run 0 data make mnist "$work/$n" -n $n --eval-examples 100
done
files="train mnist_custom --steps 1 --batch-size 16 --threads 1"
mixed 1 "$files --data mnist:$work/300" "$files --data mnist:$work/340"
grep -q 'rank 0 has ".*examples.*", rank 1 has ".*examples.*"' "$work/err" ||
    fail "data of another size: $(cat "$work/err")"

# Data for evaluation, too: a rank without any would not come when the others wait for its part.
mixed 1 "$train" "$train --eval-data digits"
mentions err "rank 0 has \"no evaluation data\", rank 1 has \"digits evaluation data of "

# Wrong words end the job with the status for wrong words, and the rank is named.
mixed 2 "$train" "$train --steps many"
mentions err "lockstep train: rank 1: --steps=many: "
mixed 1 "$train" "$train --data mnist:$work/nowhere"
mentions err "rank 1: data mnist:$work/nowhere: "

# Others who are not there are not waited for.
HOROVOD_SIZE=4 "$LOCKSTEP" $train >"$work/out" 2>"$work/err"
status=$?
verdict 2 "HOROVOD_SIZE=4"
mentions err "HOROVOD_SIZE names 4 ranks, but only mpirun"
ranks 2 2 eval mnist_custom --examples 160 -w "$work/none"
mentions err "this command computes in one process"

# What only rank 0 does is no difference.
ranks 0 2 $train --display-every 2
[ "$(grep -c "^total images/sec: " "$work/out")" -eq 1 ] || fail "--display-every: $(cat "$work/out")"

# The benchmark, too: one header, one speed of all, one trace that rank 0 writes.
ranks 0 2 bench mnist_custom --batch-size 16 --num-batches 6 --num-warmup-batches 2 --threads 1 \
    --variable_update=horovod --display_every 3 --explain --trace "$work/bench.json" \
    --trace-steps 3:2
mentions out "Batch size:  32 global"
[ "$(grep -c "total images/sec" "$work/out")" -eq 1 ] || fail "not one speed: $(cat "$work/out")"
grep -q '"rank 1 on ' "$work/bench.json" || fail "rank 1 is not in the trace of the benchmark"
finish
