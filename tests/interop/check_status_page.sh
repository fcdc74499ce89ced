#!/bin/sh
# The server's status page in a real browser (Debian's Chromium): what it shows is what its metrics
# say, while requests come, versions change and the server ends. STATUS_SHOTS=DIR keeps pictures.
cd "$(dirname "$0")/../.." || exit 1
program=${1:-build/release/lockstep}
unset DATASET_DIR OUTPUT_DIR MODEL_NAME MODEL_BASE_PATH http_proxy https_proxy
export OMP_WAIT_POLICY=passive no_proxy='*'
exec timeout 900 /usr/bin/python3 tests/interop/status_page_browser.py "$program"
