#!/bin/sh
# Our S3 client (a program built from s3_tool.c) and the program itself against a real S3 server that
# verifies signatures.
. "$(dirname "$0")/../cli/lib.sh"
cd "$here/../.." || exit 1
server=$(tests/interop/setup-s3) || exit $?
make -s "${LOCKSTEP#"$PWD/"}" || exit 1
tool=$PWD/${1:-build/release/tests/interop/s3_tool}
checks=0
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL \
    AWS_WEB_IDENTITY_TOKEN_FILE AWS_NO_SIGN_REQUEST LOCKSTEP_S3_ADDRESSING S3_ENDPOINT http_proxy

port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$work/data/bucket" "$work/meta"
ROOT_ACCESS_KEY=interop ROOT_SECRET_KEY='se/cret+key=1' VGW_QUIET=true \
    "$server" --port "127.0.0.1:$port" --keep-alive posix --sidecar "$work/meta" "$work/data" \
    >"$work/server.log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null; rm -rf "$work"' EXIT

export AWS_ENDPOINT_URL_S3="http://127.0.0.1:$port" AWS_ACCESS_KEY_ID=interop \
    AWS_SECRET_ACCESS_KEY='se/cret+key=1' LOCKSTEP_CACHE_DIR="$work/cache" OMP_WAIT_POLICY=passive \
    AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_CONFIG_FILE=/dev/null

tries=0
until "$tool" list bucket "" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || { echo "the server does not start: $(cat "$work/server.log")"; exit 1; }
    sleep 0.2
done

# expect STATUS PART WORDS...: the tool's exit status, and what it says.
expect() {
    wanted=$1 part=$2
    shift 2
    checks=$((checks + 1))
    "$tool" "$@" >"$work/out" 2>"$work/err"
    status=$?
    [ $status -eq "$wanted" ] || fail "$*: status $status, expected $wanted: $(cat "$work/err")"
    [ -z "$part" ] || cat "$work/out" "$work/err" | grep -qF -- "$part" ||
        fail "$*: '$part' is not in: $(head -c 300 "$work/err")"
}

# A server that lets a wrong secret pass would make everything below worthless.
AWS_SECRET_ACCESS_KEY=mistaken expect 1 "the secret key is wrong" list bucket ""
AWS_ACCESS_KEY_ID=somebody expect 1 "access key" list bucket ""
AWS_NO_SIGN_REQUEST=true expect 1 "access denied" list bucket ""
AWS_SESSION_TOKEN=nonsense expect 1 "token" list bucket ""
expect 1 "there is no bucket nowhere" list nowhere ""
expect 1 "no such object" read bucket nothing 0 10
expect 3 "" find bucket nothing

# More objects than one page, and names that a signature can stumble over.
mkdir -p "$work/data/bucket/many"
/usr/bin/python3 - "$work/data/bucket/many" <<'END'
import sys
for i in range(2345):
    open("%s/%05d" % (sys.argv[1], i), "w").write("x")
END
expect 0 "1 many/02344" list bucket many/
[ "$(wc -l <"$work/out")" -eq 2345 ] || fail "$(wc -l <"$work/out") objects listed, not 2345"
printf hello >"$work/hello"
while IFS= read -r key; do
    expect 0 "" write bucket "odd/$key" "$work/hello"
    expect 0 "ello" read bucket "odd/$key" 1 4
    expect 0 "5 odd/$key" list bucket "odd/"
done <<'END'
plain
with space
a+b=c&d
100%20
question?mark#hash
semi;colon:at@comma,
(paren)!*'$
ümläut-日本
deep/er/key
~tilde-_.
END

# A multipart upload, read back in pieces and whole.
/usr/bin/python3 -c 'import random, sys; random.seed(1); sys.stdout.buffer.write(random.randbytes(40000123))' >"$work/large"
expect 0 "" write bucket large "$work/large"
expect 0 "40000123" find bucket large
expect 0 "" read bucket large 0 40000123
cmp -s "$work/out" "$work/large" || fail "the large object came back different"
expect 0 "" read bucket large 39999000 1123
tail -c 1123 "$work/large" | cmp -s - "$work/out" || fail "the end of the large object is different"

# The program itself: made here, trained from there.
program() {
    checks=$((checks + 1))
    run "$@"
}
train() { program 0 train "$@" --steps 1 --threads 2 --quiet; }
program 0 data make mnist "$work/mnist" --examples 640
cp -r "$work/mnist" "$work/data/bucket/mnist"
train mnist_custom --data mnist:s3://bucket/mnist
program 0 data make imagenet s3://bucket/imagenet --examples 40 --eval-examples 8 --train-shards 2 --image-size 100
if "$LOCKSTEP" datasets | grep -q '^imagenet'; then
    train resnet50 --data imagenet:s3://bucket/imagenet --batch-size 2
fi
program 0 data make criteo "$work/criteo" --examples 640
cp -r "$work/criteo" "$work/data/bucket/criteo"
"$LOCKSTEP" models | grep -q '^wide_deep' && train wide_deep --data criteo:s3://bucket/criteo
AWS_SECRET_ACCESS_KEY=mistaken program 1 train mnist_custom --data mnist:s3://bucket/mnist --steps 1
mentions err "the secret key is wrong"
program 2 train mnist_custom --data digits --steps 1 --output-dir s3://bucket/out
mentions err "s3://"
echo "$((checks - failures)) passed, $failures failed"
finish
