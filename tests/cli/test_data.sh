#!/bin/sh
# data make, inspect, verify and convert, one after the other, and a network that trains on what
# came out.
. "$(dirname "$0")/lib.sh"
export OMP_WAIT_POLICY=passive

# value FILE EXPRESSION: of a JSON file, with its object as j.
value() {
    python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}
# equals WHAT ACTUAL EXPECTED
equals() {
    [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"
}

# ---- draw
set=$work/drawn
run 0 data make imagenet "$set" --examples 24 --eval-examples 8 --classes 3 --image-size 64 \
    --train-shards 2 --seed 5
mentions out "--data imagenet:$set"
[ -f "$set/train-00001-of-00002" ] || fail "the second shard is missing"
run 2 data make imagenet "$set" --examples 24
mentions err "--force"
run 2 data make mnist "$work/m" --classes 3
run 0 data make mnist "$work/digits" --examples 60 --eval-examples 20
run 0 data make criteo "$work/clicks" --examples 500 --eval-examples 100

# A file that is named is opened, whatever lies around it: here a tree that no path reaches.
python3 - "$work/clicks" <<'PYTHON'
import os, sys
os.chdir(sys.argv[1])
for _ in range(20):
    os.mkdir("x" * 250)
    os.chdir("x" * 250)
PYTHON
printf 'file train train.csv\nlabel clicked\n' >"$work/clicks/a.columns"
for i in $(seq 39); do
    [ "$i" -le 13 ] && kind=numeric || kind=categorical
    echo "column c$i $kind" >>"$work/clicks/a.columns"
done
for data in "criteo:$work/clicks" "table:$work/clicks/a.columns"; do
    run 0 train wide_deep --data "$data" --steps 1 --batch-size 8 --eval-data none
done

# ---- look
run 0 data inspect "imagenet:$set" --sheet "$work/sheet.png" --samples 5 --json "$work/found.json"
mentions out "training: 24 examples"
equals "pictures" "$(value "$work/found.json" 'j["training"]["examples"]')" 24
equals "labels" "$(value "$work/found.json" 'sum(l["count"] for l in j["training"]["labels"])')" 24
equals "width" "$(value "$work/found.json" 'int(j["training"]["width"]["max"])')" 64
head -c 8 "$work/sheet.png" | grep -q PNG || fail "the sheet is no PNG"
run 0 data inspect "mnist:$work/digits" --sheet "$work/sheet.png"
run 0 data inspect "criteo:$work/clicks" --json "$work/found.json"
equals "rows" "$(value "$work/found.json" 'j["evaluation"]["examples"]')" 100
run 0 data inspect digits --examples 30
run 2 data inspect synthetic
run 2 data inspect nothing:x
run 1 data inspect "imagenet:$work/nowhere"

# ---- damage a byte in the middle, and see it named; the other records are still counted
run 0 data verify "imagenet:$set"
mentions out "32 examples are fine, 0 damaged"
cp -r "$set" "$work/damaged"
shard=$work/damaged/train-00000-of-00002
python3 - "$shard" >"$work/offset" <<'PYTHON'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
offset, starts = 0, []
while offset < len(data):
    starts.append(offset)
    offset += 16 + struct.unpack_from("<Q", data, offset)[0]
data[starts[3] + 500] ^= 1      # in the data of the fourth record
data[starts[6] + 2] ^= 1        # in the length of the seventh
open(sys.argv[1], "wb").write(data)
print(starts[3], starts[6])
PYTHON
read -r first second <"$work/offset"
run 1 data verify "imagenet:$work/damaged" --json "$work/verify.json"
mentions out "$shard"
mentions out "$first"
mentions out "$second"
mentions out "30 examples are fine, 2 damaged"
equals "offsets" "$(value "$work/verify.json" '[p["offset"] for p in j["problems"]]')" \
    "[$first, $second]"

# ---- bad rows of a text, all of them
mkdir "$work/dented"
cp "$work"/clicks/*.csv "$work/dented"
sed -i -e '7s/,/;/' -e '300s/^[01]/2/' -e '500s/$/,more/' "$work/dented/train.csv"
run 1 data verify "criteo:$work/dented" --json "$work/verify.json"
for line in 7 300 500; do
    mentions out "$work/dented/train.csv: line $line: "
done
mentions out "597 examples are fine, 3 damaged"
equals "lines" "$(value "$work/verify.json" '[p["line"] for p in j["problems"]]')" "[7, 300, 500]"
run 1 train wide_deep --data "criteo:$work/dented" --steps 1 --eval-data none
mentions err "line 7: "

# ---- Ctrl-C in the middle of a packed shard: a small file of many members that unpacks to 17 GB
mkdir "$work/endless"
python3 - "$work/endless/train-00000-of-00001" <<'PYTHON'
import gzip, sys
record = (1 << 20).to_bytes(8, "little")  # its sum does not fit: every byte is a place to look at
member = gzip.compress((record + bytes((1 << 20) + 8)) * 16, 1)
open(sys.argv[1], "wb").write(member * 1000)
PYTHON
for part in verify inspect; do
    interrupt 130 0.5 data $part "imagenet:$work/endless"
done

# ---- and while a training unpacks shards: nothing is left behind
mkdir "$work/packed"
python3 - "$work/packed/train-00000-of-00001" <<'PYTHON'
import gzip, struct, sys
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
    table.append(i)
def masked(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ table[crc & 255 ^ byte]
    crc ^= 0xffffffff
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xa282ead8 & 0xffffffff)
length, data = struct.pack("<Q", 1 << 18), bytes(1 << 18)
record = length + masked(length) + data + masked(data)
open(sys.argv[1], "wb").write(gzip.compress(record * 64, 1) * 1000)
PYTHON
interrupt 130 0.5 train resnet50 --data "imagenet:$work/packed" --eval-data none --steps 1
left=$(find "$work/packed/.lockstep" -type f 2>/dev/null)
[ -z "$left" ] || fail "left behind: $left"

# ---- folders to shards, twice, and with other settings
python3 - "$set" "$work/folders" <<'PYTHON'
# The pictures of the shards as files: JPEGs lie between FFD8 and FFD9 at the end of each record.
import glob, os, struct, sys
for shard in sorted(glob.glob(sys.argv[1] + "/*-of-*")):
    split = "train" if "train" in shard else "val"
    data, offset, number = open(shard, "rb").read(), 0, 0
    while offset < len(data):
        length = struct.unpack_from("<Q", data, offset)[0]
        record = data[offset + 12:offset + 12 + length]
        start, end = record.index(b"\xff\xd8\xff"), record.rindex(b"\xff\xd9") + 2
        folder = os.path.join(sys.argv[2], split, record[record.index(b"n0000"):][:9].decode())
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%s_%d.jpg" % (os.path.basename(shard), number)), "wb") as f:
            f.write(record[start:end])
        offset, number = offset + 16 + length, number + 1
PYTHON
run 0 data convert "$work/folders" "$work/shards" --train-shards 3 --json "$work/convert.json"
equals "pictures" "$(value "$work/convert.json" 'j["train_pictures"]')" 24
cp "$work/shards/train-00001-of-00003" "$work/before"
run 0 data convert "$work/folders" "$work/shards" --train-shards 3
mentions out "which were there already"
cmp -s "$work/before" "$work/shards/train-00001-of-00003" || fail "a shard was written twice"
mv "$work/shards/train-00001-of-00003" "$work/kept"
run 1 data verify "imagenet:$work/shards"
mentions err "train-00001-of-00003"
mv "$work/kept" "$work/shards/train-00001-of-00003"
mkdir "$work/nothing"
: >"$work/nothing/train-00000-of-00001"
run 1 data verify "imagenet:$work/nothing"
mentions err "holds no examples"
run 2 data convert "$work/folders" "$work/shards" --train-shards 3 --resize 32
mentions err "resize was 0, now 32"
run 0 data convert "$work/folders" "$work/small" --resize 32 --packing gzip
run 0 data verify "imagenet:$work/small"
mentions out "32 examples are fine"
run 0 data verify "images:$work/folders"
picture=$(basename "$(find "$work/folders/train" -name '*.jpg' | sort | head -n 1)")
echo "$picture,0.1,0.2,0.5,0.9" >"$work/boxes.csv"
run 0 data convert "$work/folders" "$work/boxed" --boxes "$work/boxes.csv"
run 0 data convert "$work/folders" "$work/boxed" --boxes "$work/boxes.csv"
mentions out "which were there already"
echo "$picture,0.1,0.3,0.5,0.9" >"$work/boxes.csv"
run 2 data convert "$work/folders" "$work/boxed" --boxes "$work/boxes.csv"
run 2 data convert "$work/folders"
run 1 data convert "$work/nowhere" "$work/x"
[ ! -e "$work/x" ] || fail "a conversion without a source made its target"
echo hello >"$work/folders/train/n00000001/text.jpg"
run 1 data verify "images:$work/folders"
mentions out "n00000001/text.jpg"
run 1 data convert "$work/folders" "$work/y"
mentions err "n00000001/text.jpg"
head -c 2000 /dev/zero >"$work/folders/train/n00000001/zero.jpg"
run 1 data convert "$work/folders" "$work/skipped" --skip-bad-records 1
mentions err "more than 1 bad pictures: "
run 0 data convert "$work/folders" "$work/skipped" --skip-bad-records 2 --json "$work/skipped.json"
mentions err "left out: "
mentions err "n00000001/text.jpg"
mentions err "n00000001/zero.jpg"
mentions out "2 of them were bad and left out"
equals "left out" "$(value "$work/skipped.json" 'j["bad_records"]')" 2
run 0 data verify "imagenet:$work/skipped"
mentions out "32 examples are fine"
rm "$work/folders/train/n00000001/zero.jpg"
rm "$work/folders/train/n00000001/text.jpg"

# ---- and a network learns from all of them; what a killed run left is removed
mkdir -p "$work/small/.lockstep"
abandoned=$work/small/.lockstep/train-00000-of-00001.unpacked.0123456789abcdef.part
: >"$abandoned"
for data in "imagenet:$work/shards" "images:$work/folders" "imagenet:$work/small"; do
    run 0 train resnet50 --data "$data" --classes 3 --image-size 32 --batch-size 4 --steps 2
done
[ ! -e "$abandoned" ] || fail "$abandoned is still there"
run 2 train resnet50 --data "images:$work/folders/train" --classes 3 --image-size 32 --batch-size 4
mentions err "no part of its own for evaluation"
run 0 train resnet50 --data "images:$work/folders/train" --classes 3 --image-size 32 \
    --batch-size 4 --steps 1 --eval-data none
run 2 train resnet50 --data "images:$work/folders" --classes 2 --image-size 32 --batch-size 4 \
    --steps 1
mentions err "--classes 3"
run 0 train mnist_custom --data "mnist:$work/digits" --batch-size 10 --steps 2
finish
