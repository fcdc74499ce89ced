#!/bin/sh
# Networks that PyTorch exported, shown, evaluated, trained, resumed and refused.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
python=${LOCKSTEP_PYTHON:-/usr/bin/python3}
"$python" -c 'import torch' 2>/dev/null || { echo "no torch: install python3-torch"; exit 1; }
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/onnx_models.py" "$work" >/dev/null 2>"$work/err" ||
    { echo "FAILED: $(tail -n 1 "$work/err")"; exit 1; }

# field FILE NAME: the value of a number, word or null in JSON written one field per line.
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }
# below A B WHAT: a number is less than another.
below() { awk "BEGIN { exit !($1 < $2) }" || fail "$3: $1 is not below $2"; }

# Its operations, under the file's names.
run 0 models "$work/mlp.onnx"
mentions out "mlp: read from $work/mlp.onnx"
mentions out "/3/Gemm"
mentions out "digits"
run 0 models "$work/cnn.onnx" --json -
mentions out '"classes": 10'

# Evaluated with the file's own weights, and trained from them.
run 0 eval "$work/mlp.onnx" --examples 1000 --json "$work/before.json"
below 2 "$(field "$work/before.json" loss)" "loss of an untrained network"
run 0 train "$work/mlp.onnx" --examples 6400 --epochs 1 --lr 0.05 --output-dir "$work/trained" \
    --json "$work/train.json" --quiet
below "$(field "$work/train.json" loss)" 1 "loss after training"
run 0 eval "$work/mlp.onnx" --weights "$work/trained" --examples 1000 --json "$work/after.json"
below 0.8 "$(field "$work/after.json" accuracy)" "accuracy after training"
[ "$(field "$work/after.json" model)" = mlp ] || fail "the model is not called mlp"

# No step, no change: what was saved is what the file had.
run 0 train "$work/cnn.onnx" --steps 1 --lr 0 --examples 64 --output-dir "$work/same" --quiet
run 0 eval "$work/cnn.onnx" --weights "$work/same" --examples 500 --json "$work/saved.json"
grep -q '"loss"' "$work/saved.json" || fail "no loss from saved weights"

# Checkpoints: ten steps at once, and five and five, give the same bits.
small="--examples 640 --batch-size 32 --threads 2 --quiet"
run 0 train "$work/cnn.onnx" $small --steps 10 --checkpoint-dir "$work/a" --output-dir "$work/a-out"
run 0 train "$work/cnn.onnx" $small --steps 5 --checkpoint-dir "$work/b"
run 0 train "$work/cnn.onnx" $small --steps 5 --checkpoint-dir "$work/b" --output-dir "$work/b-out"
cmp -s "$work/a-out/weights.safetensors" "$work/b-out/weights.safetensors" ||
    fail "resuming a network from ONNX gives other weights"
head -c 2000 "$work/b-out/weights.safetensors" | tr -d '\0' >"$work/header"
for name in 0.weight 1.weight 1.running_mean 6.bias; do
    grep -qF "\"$name\"" "$work/header" || fail "no parameter is called $name"
done
run 2 train "$work/mlp.onnx" $small --steps 1 --checkpoint-dir "$work/b"
mentions err "is a checkpoint of cnn, not of mlp"

# Which kernels it got.
run 0 train "$work/cnn.onnx" --examples 64 --steps 2 --explain
mentions out "conv2d"
mentions out "clip"

# Another number of classes starts the last layer afresh; another size of pictures is taken.
run 0 train "$work/mlp.onnx" --classes 12 $small --steps 1
run 0 train "$work/colour.onnx" --image-size 48 --classes 7 --batch-size 4 --steps 2 --quiet
run 1 train "$work/mlp.onnx" --image-size 30 --data synthetic --steps 1
mentions err "weights for 784 numbers meet 900"

# Pictures scaled as PyTorch's networks want them, unless told otherwise.
run 0 data make imagenet "$work/set" --examples 24 --eval-examples 16 --classes 5 --image-size 64
set -- --data "imagenet:$work/set" --batch-size 8
run 0 eval "$work/colour.onnx" "$@" --json "$work/usual.json"
run 0 eval "$work/colour.onnx" "$@" --pixels torch --json "$work/torch.json"
run 0 eval "$work/colour.onnx" "$@" --pixels unit --json "$work/unit.json"
[ "$(field "$work/usual.json" loss)" = "$(field "$work/torch.json" loss)" ] ||
    fail "pictures for an ONNX network are not scaled as torchvision does"
[ "$(field "$work/usual.json" loss)" != "$(field "$work/unit.json" loss)" ] ||
    fail "--pixels changes nothing"

# What cannot be computed is named, all of it; so is what is no ONNX file.
run 1 train "$work/unknown.onnx" --steps 1
mentions err "InstanceNormalization"
mentions err "PRelu"
head -c 1000 "$work/mlp.onnx" >"$work/torn.onnx"
run 1 eval "$work/torn.onnx"
mentions err "torn.onnx: "
run 1 eval "$work/none.onnx"
mentions err "none.onnx"
run 2 train "$work/mlp.onnx" --pixels torch --steps 1
mentions err "--pixels would change nothing: digits"
finish
