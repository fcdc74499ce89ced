#!/bin/sh
# --recompute: less memory, the same bits, and checkpoints that go on with it or without it.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
small="resnet50 --data synthetic --image-size 32 --classes 5 --batch-size 4 --threads 1 --lr 0.01 \
    --schedule constant --warmup-epochs 0"
bench="resnet50 --image-size 32 --classes 5 --batch-size 4 --threads 1"
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }

# same NAME: the weights in $work/NAME are those of the run without it.
same() {
    cmp -s "$work/plain/weights.safetensors" "$work/$1/weights.safetensors" ||
        fail "$1: other weights than without --recompute"
}

run 0 train $small --steps 4 -o "$work/plain" --json "$work/plain.json"
run 0 train $small --steps 4 --recompute -o "$work/with" --json "$work/with.json"
same with
[ "$(field "$work/plain.json" fingerprint)" = "$(field "$work/with.json" fingerprint)" ] ||
    fail "another fingerprint"
[ "$(field "$work/with.json" saved)" -lt "$(field "$work/plain.json" saved)" ] ||
    fail "saved: $(field "$work/with.json" saved), $(field "$work/plain.json" saved) without"
[ "$(field "$work/with.json" recomputed)" -gt 0 ] || fail "nothing is recomputed"
[ "$(field "$work/plain.json" recomputed)" = 0 ] || fail "recomputed without being asked to"

# Stopped with it and gone on without it, and the other way round.
for order in "--recompute:" ":--recompute"; do
    first=${order%%:*} second=${order#*:} name=resumed$first
    run 0 train $small --steps 2 $first --checkpoint-dir "$work/c$name"
    run 0 train $small --steps 2 $second --checkpoint-dir "$work/c$name" -o "$work/$name"
    grep -q "may differ\|not that of one run" "$work/err" && fail "$name: $(cat "$work/err")"
    same "$name"
done

# Shards: several plans side by side.
run 0 train $small --shards 4 --steps 2 -o "$work/shards"
run 0 train $small --shards 4 --steps 2 --recompute -o "$work/shards-with"
cmp -s "$work/shards/weights.safetensors" "$work/shards-with/weights.safetensors" ||
    fail "--shards: other weights"

run 0 train $small --recompute --steps 2 --explain
mentions out "recomputed in backward"
grep -q "^stage1/block1/norm1 .* recompute " "$work/out" || fail "--explain shows no recomputed norm"
run 0 bench $bench --recompute --num-batches 1 --num-warmup-batches 0 --json -
[ "$(field "$work/out" recomputed)" -gt 0 ] || fail "bench recomputes nothing"

# Where it does nothing it says so.
run 0 train mnist_custom --data synthetic --examples 64 --steps 1 --recompute
mentions err "--recompute saves nothing: mnist_custom keeps no output of a batch norm"
run 2 bench $bench --recompute --forward-only
mentions err "--recompute is about training"
finish
