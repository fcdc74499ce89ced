#!/bin/sh
# Triton's own HTTP client asks our REST door by the Open Inference Protocol: tensors as JSON and as
# bytes behind it, texts, metadata, health; every way gives the same numbers as /v1.
cd "$(dirname "$0")/../.." || exit 1
program=${1:-build/release/lockstep}
unset DATASET_DIR OUTPUT_DIR MODEL_NAME MODEL_BASE_PATH http_proxy https_proxy
export no_proxy='*'
python=$(tools/venv rest-clients tritonclient==2.41.0 geventhttpclient==2.0.12 python-rapidjson==1.20 \
    numpy==1.26.4 urllib3==2.2.3) || exit 1
exec timeout 600 "$python" tests/interop/rest_clients.py "$program"
