#!/bin/sh
# Convolutions by NEON under an emulator, with all gradients, against PyTorch on this machine. tools/check-arm64
# calls it.
. "$(dirname "$0")/../cli/lib.sh"
python=${LOCKSTEP_PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, numpy' 2>/dev/null || {
    echo "skipped: $python has no torch"
    exit 77
}
emulated=$work/run_case
printf '#!/bin/sh\nexec qemu-aarch64 "%s" "$@"\n' "$(realpath "$RUN_CASE_ARM64")" >"$emulated"
chmod +x "$emulated"
export OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1
# Winograd's, with every padding; a chain with batch norm, one with a residual; the same with stride 2.
for cases in "kernel=3 bias=" "conv+bn, 64 channels" "conv+conv+add, 64 channels" \
    "kernel=3 stride=2 bias=" "conv with stride+bn, 64 channels"; do
    "$python" "$here/../reference/check.py" "$emulated" --only "$cases" >"$work/out" 2>&1 ||
        fail "$cases: $(tail -n 20 "$work/out")"
    grep -q '^[1-9][0-9]* passed, 0 failed' "$work/out" || fail "$cases: $(tail -n 3 "$work/out")"
done
finish
