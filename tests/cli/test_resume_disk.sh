#!/bin/sh
# A disk that is full, then read-only: the training says so, and what was saved before stays whole.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
tiny=$(dirname "$LOCKSTEP")/tests/crash/tiny.so
[ -f "$tiny" ] || { echo "$tiny is missing: make crash builds it"; exit 1; }

unshare=unshare
[ "$(id -u)" -eq 0 ] || unshare="unshare -r"
$unshare -m mount -t tmpfs none "$work" 2> /dev/null || {
    echo "nothing may be mounted here"
    exit 77
}

mkdir "$work/disk"
cat > "$work/script" <<SCRIPT
set -e
mount -t tmpfs -o size=256k none "$work/disk"
train() {
    "$LOCKSTEP" train "$tiny" --examples 160 --threads 1 --eval-data none \
        --checkpoint-dir "$work/disk/run" "\$@"
}
train --steps 2 --keep 1
dd if=/dev/zero of="$work/disk/filler" bs=1k 2> /dev/null || true
if train --steps 2 --checkpoint-every 1; then echo "full, and saved?"; exit 1; else [ \$? -eq 1 ]; fi
ls -a "$work/disk/run"
"$LOCKSTEP" checkpoint verify "$work/disk/run"
rm "$work/disk/filler"
train --steps 2
mount -o remount,ro "$work/disk"
if train --steps 2; then echo "read-only, and saved?"; exit 1; else [ \$? -eq 1 ]; fi
"$LOCKSTEP" checkpoint verify "$work/disk/run"
SCRIPT
$unshare -m sh "$work/script" > "$work/disk.out" 2>&1 ||
    fail "on a small disk: $(tail -n 20 "$work/disk.out")"
grep -q "No space left on device; the training goes on" "$work/disk.out" ||
    fail "a full disk is no warning: $(cat "$work/disk.out")"
grep -q "Read-only file system" "$work/disk.out" || fail "read-only: $(cat "$work/disk.out")"
grep -q "^.draft" "$work/disk.out" && fail "a full disk leaves $(cat "$work/disk.out")"
finish
