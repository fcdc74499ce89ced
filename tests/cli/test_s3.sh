#!/bin/sh
# Data in a bucket, from outside: made there, trained from there, refused where it cannot be. The
# server is ours (tests/support/s3_server.py), checks signatures, and ends with this script.
. "$(dirname "$0")/lib.sh"
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_ENDPOINT_URL AWS_NO_SIGN_REQUEST \
    AWS_WEB_IDENTITY_TOKEN_FILE LOCKSTEP_S3_ADDRESSING LOCKSTEP_CACHE_BYTES http_proxy DATASET_DIR \
    OUTPUT_DIR
mkfifo "$work/stop"
/usr/bin/python3 "$here/../support/s3_server.py" <"$work/stop" >"$work/port" &
exec 9>"$work/stop" # held open until the script ends
tries=0
until [ -s "$work/port" ] || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
export AWS_ENDPOINT_URL_S3="http://127.0.0.1:$(cat "$work/port")" AWS_ACCESS_KEY_ID=AKIDTEST \
    AWS_SECRET_ACCESS_KEY=test/secret+key= LOCKSTEP_CACHE_DIR="$work/cache" AWS_MAX_ATTEMPTS=2 \
    LOCKSTEP_S3_RETRY_SECONDS=0.05 AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_CONFIG_FILE=/dev/null \
    OMP_WAIT_POLICY=passive TMPDIR="$work/tmp"
mkdir "$work/tmp"
train="train mnist_custom --steps 1 --examples 64 --threads 1 --quiet"

run 0 data make mnist s3://plain/mnist --examples 640 --eval-examples 100
run 0 data make mnist "$work/mnist" --examples 640 --eval-examples 100
run 0 $train --data mnist:s3://plain/mnist/ --output-dir "$work/far"
run 0 $train --data "mnist:$work/mnist" --output-dir "$work/near"
cmp -s "$work/far/weights.safetensors" "$work/near/weights.safetensors" ||
    fail "training from a bucket and from a directory differ"

# None is replaced without --force, wherever it lies.
run 2 data make mnist s3://plain/mnist --examples 640 --eval-examples 100

# Looked at piece by piece: it need not fit into the cache.
run 0 data make imagenet s3://plain/drawn --examples 24 --eval-examples 8 --image-size 64 \
    --json "$work/made.json"
run 0 data make imagenet "$work/drawn" --examples 24 --eval-examples 8 --image-size 64
bytes=$(cat "$work"/drawn/*-of-* | wc -c)
grep -q "\"bytes\": $bytes[,}]*$" "$work/made.json" ||
    fail "not $bytes bytes written: $(cat "$work/made.json")"
LOCKSTEP_CACHE_BYTES=8K run 0 data verify imagenet:s3://plain/drawn
mentions out "32 examples are fine, 0 damaged"

run 1 $train --data mnist:s3://plain/nothing
mentions err "there is nothing with this prefix"
run 1 $train --data mnist:s3://nowhere/mnist
mentions err "there is no bucket nowhere"
run 2 $train --data mnist:s3://
mentions err "expected s3://BUCKET"
AWS_SECRET_ACCESS_KEY=mistaken run 1 $train --data mnist:s3://plain/mnist
mentions err "the secret key is wrong"
grep -q mistaken "$work/err" && fail "the message holds the secret"
AWS_ENDPOINT_URL_S3=http://127.0.0.1:1 run 1 $train --data mnist:s3://plain/mnist
mentions err "(after 2 attempts)"

# Ctrl-C does not wait for a server that keeps one waiting.
for command in "$train --data mnist:s3://plain/mnist" "data verify imagenet:s3://plain/drawn" \
    "data make mnist s3://plain/more"; do
    AWS_ENDPOINT_URL_S3=http://127.0.0.1:1 AWS_MAX_ATTEMPTS=8 LOCKSTEP_S3_RETRY_SECONDS=20 \
        interrupt 130 0.5 $command
done

# No checkpoints there, with the reason, before anything is computed.
run 2 $train --data digits --output-dir s3://plain/out
mentions err "can neither rename nor flush"

[ -z "$(ls "$work/tmp")" ] || fail "files were left on the way to the bucket"
exec 9>&-
finish
