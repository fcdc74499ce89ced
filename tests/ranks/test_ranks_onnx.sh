#!/bin/sh
# Ranks that train an ONNX file: as many as one likes give the same bits, and where machines have
# different files under one name, the first rank's weights count.
. "$(dirname "$0")/lib.sh"
corpus=$here/../../fuzz/corpus/onnx
mkdir "$work/here" "$work/there"
cp "$corpus/training" "$work/here/net.onnx"
# One number of the first weights changed: name, tag and length stand before it.
python3 - "$work/here/net.onnx" "$work/there/net.onnx" <<'END' || fail "cannot change the file"
import sys
data = bytearray(open(sys.argv[1], "rb").read())
place = data.index(b"\x42\x080.weight\x4a") + len(b"\x42\x080.weight\x4a") + 1
data[place + 2] ^= 0x40
open(sys.argv[2], "wb").write(data)
END

settings="--data synthetic --examples 64 --shards 2 --global-batch-size 8 --steps 5 --threads 1 -q"
ranks 0 1 train "$work/here/net.onnx" $settings --checkpoint-dir "$work/one"
ranks 0 2 train "$work/here/net.onnx" $settings --checkpoint-dir "$work/two"
alike "$work/one" "$work/two"
ranks 0 1 train "$work/there/net.onnx" $settings --checkpoint-dir "$work/other"
"$LOCKSTEP" checkpoint diff "$work/one" "$work/other" >/dev/null 2>&1 && fail "the files do not differ"
mixed 0 "train $work/here/net.onnx $settings --checkpoint-dir $work/mixed" \
    "train $work/there/net.onnx $settings --checkpoint-dir $work/mixed"
alike "$work/one" "$work/mixed"
finish
