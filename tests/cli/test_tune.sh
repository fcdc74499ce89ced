#!/bin/sh
# bench --tune measures kernels and writes a file; runs with --kernels follow it, and say where not.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }
small="mnist_keras --threads 1 --batch-size 4"
train="$small --data synthetic --examples 64 --steps 2"

run 0 bench $small --tune "$work/kernels.txt" --num-batches 1
mentions out "Follow it with --kernels=$work/kernels.txt"
grep -q "^kernels 1$" "$work/kernels.txt" || fail "no version: $(cat "$work/kernels.txt")"
grep -q "^threads 1$" "$work/kernels.txt" || fail "no threads"
grep -q "^processor .*, " "$work/kernels.txt" || fail "no processor"
grep -q "^conv2d 4x1x28x28 32x1x3x3 .* use " "$work/kernels.txt" || fail "no rule for the convolution"
run 0 train $train --kernels "$work/kernels.txt" --explain
mentions out "kernels: 1 of 1 convolutions as $work/kernels.txt says"
says err "$(grep -v warning "$work/err")"

# Winograd's method fits these layers, but the fixed rule leaves it out where tiles are few.
run 0 bench resnet50 --image-size 32 --classes 10 --threads 1 --batch-size 1 --tune "$work/few.txt" --num-batches 1
if grep -q avx2 /proc/cpuinfo; then
    grep -q "^#.* winograd " "$work/few.txt" || fail "Winograd's method was not tried: $(cat "$work/few.txt")"
fi
awk '/^#.* winograd / { tried = 1; other = /the fixed rule takes/; wrong = /the fixed rule takes winograd/; next }
     tried && (wrong || (/ use winograd$/ && !other)) { print; failed = 1 }
     { tried = 0 }
     END { exit failed }' "$work/few.txt" || fail "the fixed rule is said to take Winograd's method"

# A rule for all of them, on any machine; the choice is a part of the fingerprint and of the JSON.
echo "kernels 1
conv2d * use onednn" >"$work/direct.txt"
run 0 train $train --json "$work/fixed.json" --checkpoint-dir "$work/c"
[ "$(field "$work/fixed.json" kernels)" = null ] || fail "kernels: $(field "$work/fixed.json" kernels)"
run 0 train $train --kernels "$work/direct.txt" --json "$work/direct.json" --checkpoint-dir "$work/c"
[ "$(field "$work/direct.json" kernels)" = "$work/direct.txt" ] || fail "the file is not in the JSON"
mentions err "--kernels is the rules "
run 0 checkpoint show "$work/c"
mentions out "kernels"
if grep -q "own:thin" "$work/kernels.txt"; then
    [ "$(field "$work/fixed.json" fingerprint)" != "$(field "$work/direct.json" fingerprint)" ] ||
        fail "the same fingerprint with other kernels"
fi

# Shapes that it does not name, another machine, other threads, and what is no such file.
run 0 train mnist_keras --threads 1 --batch-size 8 --data synthetic --examples 64 --steps 1 \
    --kernels "$work/kernels.txt"
mentions err "does not name 1 of the 1 convolutions of mnist_keras at this batch size"
sed 's/^processor .*/processor Another One, sse41/' "$work/kernels.txt" >"$work/other.txt"
run 2 train $train --kernels "$work/other.txt"
mentions err 'was measured on "Another One, sse41", this is "'
sed 's/^threads .*/threads 64/' "$work/kernels.txt" >"$work/threads.txt"
run 2 train $train --kernels "$work/threads.txt"
mentions err "was measured with 64 threads, and 1 compute here"
echo "kernels 1
conv2d * use onednm" >"$work/wrong.txt"
run 1 train $train --kernels "$work/wrong.txt"
mentions err "wrong.txt: line 2: conv2d has no kernel 'onednm'; did you mean 'onednn'?"
run 1 train $train --kernels "$work/nowhere.txt"
mentions err "nowhere.txt"
run 2 bench $small --tune "$work/x" --kernels "$work/direct.txt"
mentions err "leave --kernels out"
run 2 bench $small --forward-only --kernels "$work/direct.txt"
mentions err "--kernels is about training"
run 2 bench wide_deep --threads 1 --batch-size 4 --embedding-rows 10 --tune "$work/x"
mentions err "wide_deep has no convolution"
[ ! -e "$work/x" ] || fail "a file was written"
finish
