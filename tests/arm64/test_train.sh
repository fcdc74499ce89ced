#!/bin/sh
# A few steps of training under an emulator give the losses that they give here: same seed, same weights,
# same pictures. tools/check-arm64 calls it.
. "$(dirname "$0")/../cli/lib.sh"
here_program=$LOCKSTEP
emulated=$work/emulated
printf '#!/bin/sh\nexec qemu-aarch64 "%s" "$@"\n' "$(realpath "$LOCKSTEP_ARM64")" >"$emulated"
chmod +x "$emulated"

# losses PROGRAM: of each step.
losses() {
    LOCKSTEP=$1
    run 0 train mnist_custom --data digits --examples 64 --eval-data none --steps 6 --batch-size 8 --lr 0.01 \
        --warmup-epochs 0 --threads 2 --verbose
    sed -n 's/.* step [0-9]*\/6, loss \([0-9.]*\),.*/\1/p' "$work/err"
}

losses "$here_program" >"$work/here"
losses "$emulated" >"$work/there"
[ "$(wc -l <"$work/there")" -eq 6 ] || fail "not the losses of 6 steps: $(head -c 300 "$work/err")"
paste "$work/here" "$work/there" | awk '{ d = $1 - $2; if (d > 0.002 || d < -0.002) { print; exit 1 } }' ||
    fail "losses here and on arm64: $(paste -s "$work/here" "$work/there")"
finish
