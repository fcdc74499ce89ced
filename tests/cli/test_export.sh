#!/bin/sh
# Exports from outside: versions that appear whole or not at all, what they hold, and that reading
# them back gives what was written.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS RETRY_LIMIT

# field FILE NAME: the value of a number, word or null in JSON written one field per line.
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }

# is FILE NAME VALUE
is() {
    value=$(field "$1" "$2")
    [ "$value" = "$3" ] || fail "$2 in the JSON is '$value', expected '$3'"
}

# holds DIRECTORY NAMES...: these and nothing else.
holds() {
    directory=$1
    shift
    found=$(ls -A "$directory" | tr '\n' ' ')
    [ "${found% }" = "$*" ] || fail "$directory holds '$found', expected '$*'"
}

small="mnist_custom --examples 64 --batch-size 16 --threads 1"

# A training leaves a version; the next one gets the next number.
run 0 train $small --steps 4 --output-dir "$work/out-dir" --checkpoint-dir "$work/run" \
    --export-dir "$work/models" --json "$work/j"
mentions out "Model exported to $work/models/1"
is "$work/j" export "$work/models/1"
holds "$work/models" 1
holds "$work/models/1" assets.extra model.onnx saved_model.pb variables
holds "$work/models/1/variables" variables.data-00000-of-00001 variables.index
run 0 export "$work/run" --export-dir "$work/models" --json -
is "$work/out" export "$work/models/2"
is "$work/out" export_version 2
is "$work/out" model mnist_custom
is "$work/out" onnx true
run 0 export "$work/out-dir" --export-dir "$work/models"
mentions out "Model exported to $work/models/3"
holds "$work/models" 1 2 3
for file in saved_model.pb model.onnx variables/variables.data-00000-of-00001 \
    variables/variables.index; do
    cmp "$work/models/1/$file" "$work/models/2/$file" || fail "$file differs from the checkpoint's"
    cmp "$work/models/1/$file" "$work/models/3/$file" || fail "$file differs from the weights'"
done

# What is read back is what was trained, to the last bit.
run 0 eval mnist_custom --weights "$work/out-dir" --examples 200 --threads 1 --json "$work/a"
run 0 eval "$work/models" --examples 200 --threads 1 --json "$work/b"
for name in loss accuracy examples model; do
    is "$work/b" $name "$(field "$work/a" $name)"
done
run 2 eval "$work/models" --classes 5
mentions err "--classes would change nothing: an export has its own network and weights"
run 2 eval "$work/models" --weights "$work/out-dir"
mentions err "--weights would change nothing"

# As the server would answer.
run 0 eval "$work/models/1" --as-served --examples 6 --batch-size 4 --outputs "$work/answers"
grep -q '"probabilities": \[' "$work/answers" || fail "no probabilities: $(cat "$work/answers")"
run 2 eval "$work/models/1" --as-served --signature nonsense --examples 6
mentions err 'the export has no signature "nonsense"'
run 2 eval mnist_custom --weights "$work/out-dir" --as-served
mentions err "--as-served is for exports"

run 2 eval "$work/models/1" --outputs "$work/answers" --examples 6
mentions err "--outputs would change nothing without --as-served"

# A network of the user's own, which nobody knows by its name, is read from its graph.
own=$(dirname "$LOCKSTEP")/examples/mnist_small.so
if [ -f "$own" ]; then
    run 0 train "$own" --examples 64 --batch-size 16 --threads 1 --steps 4 --data digits \
        --output-dir "$work/own" --export-dir "$work/owned" --quiet
    run 0 eval "$own" --weights "$work/own" --data digits --examples 200 --threads 1 --json "$work/c"
    run 0 eval "$work/owned" --data digits --examples 200 --threads 1 --json "$work/d"
    is "$work/d" loss "$(field "$work/c" loss)"
    is "$work/d" accuracy "$(field "$work/c" accuracy)"
fi

# The gate stands before the export, in both commands.
run 1 train $small --steps 1 --target-accuracy 1 --export-dir "$work/gated" --json "$work/j"
is "$work/j" export null
holds "$work/gated" ""
run 1 pipeline $small --steps 1 --target-accuracy 1 --retry-limit 1 --export-dir "$work/gated" \
    --checkpoint-dir "$work/gate" --json "$work/j"
is "$work/j" export null
holds "$work/gated" ""
run 0 pipeline $small --steps 1 --target-accuracy 0.001 --checkpoint-dir "$work/passed" \
    --export-dir "$work/gated" --json "$work/j"
is "$work/j" export "$work/gated/1"
mentions out "Model exported to $work/gated/1"

# What a killed export left is cleared up; other names are left alone.
mkdir -p "$work/models/temp-1.5-99/variables" "$work/models/notes"
run 0 export "$work/run" --export-dir "$work/models"
holds "$work/models" 1 2 3 4 notes

# Labels travel; a wrong number of them does not.
printf '%s\n' zero one two three four five six seven eight nine > "$work/names"
run 0 export "$work/run" --export-dir "$work/named" --labels "$work/names"
cmp "$work/names" "$work/named/1/assets/labels.txt" || fail "the labels are others"
run 0 eval "$work/named" --as-served --examples 3 --outputs "$work/answers"
grep -q '"labels": \[' "$work/answers" || fail "no labels among the answers"
head -n 9 "$work/names" > "$work/few"
run 2 export "$work/run" --export-dir "$work/named" --labels "$work/few"
mentions err "9 labels for a network of 10 classes"
run 2 train $small --steps 1 --labels "$work/names"
mentions err "--labels would change nothing without --export-dir"
holds "$work/named" 1

# Wrong words.
run 2 export "$work/run"
mentions err "Give --export-dir=DIR"
run 1 export "$work/nowhere" --export-dir "$work/x"
run 2 export "$work/run" --export-dir s3://bucket/x
run 2 eval "$work/models/notes" --data digits

# Behind the highest number there is none.
mkdir -p "$work/full/9223372036854775807"
run 2 export "$work/run" --export-dir "$work/full"
mentions err "there is a version 9223372036854775807, and no higher number"
holds "$work/full" 9223372036854775807

# A damaged export is refused, with what is wrong.
cp -r "$work/models/1" "$work/damaged"
printf x | dd of="$work/damaged/variables/variables.data-00000-of-00001" bs=1 seek=5000 \
    conv=notrunc 2> /dev/null
run 1 eval "$work/damaged" --examples 16
mentions err "damaged"
rm "$work/damaged/variables/variables.index"
run 1 eval "$work/damaged" --examples 16
mentions err "variables.index"
cp -r "$work/models/1" "$work/foreign"
rm -r "$work/foreign/assets.extra"
run 0 eval "$work/foreign" --data digits --examples 200 --threads 1 --json "$work/b"
is "$work/b" accuracy "$(field "$work/a" accuracy)"
head -c 3000 "$work/foreign/saved_model.pb" > "$work/cut"
cp "$work/cut" "$work/foreign/saved_model.pb"
run 1 eval "$work/foreign" --data digits --examples 16
mentions err "saved_model.pb"

finish
