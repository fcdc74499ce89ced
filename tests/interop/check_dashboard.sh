#!/bin/sh
# The live page and the saved one in a real browser (Debian's Chromium): what they show is what the
# run says of itself, by eye, keyboard and on a phone. DASHBOARD_SHOTS=DIR keeps pictures.
cd "$(dirname "$0")/../.." || exit 1
program=${1:-build/release/lockstep}
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS http_proxy https_proxy
export OMP_WAIT_POLICY=passive no_proxy='*'
exec timeout 1500 /usr/bin/python3 tests/interop/dashboard_browser.py "$program"
