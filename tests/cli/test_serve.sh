#!/bin/sh
# A model is trained, exported and served; curl asks. Answers, errors, new and broken versions,
# tokens, TLS, limits, draining.
. "$(dirname "$0")/lib.sh"
unset MODEL_NAME MODEL_BASE_PATH OUTPUT_DIR DATASET_DIR
export no_proxy='*'
server=

# serve NAME WORDS...: starts a server in the background; its REST port is in $port then.
serve() {
    log=$work/$1.log
    shift
    "$LOCKSTEP" serve --host 127.0.0.1 --port 0 --rest-port auto "$@" >"$log" 2>&1 </dev/null &
    server=$!
    until port=$(sed -n 's/.*REST API at:[^:]*:\([0-9]*\) .*/\1/p' "$log" 2>/dev/null) && [ -n "$port" ]; do
        kill -0 "$server" 2>/dev/null || { fail "serve $*: $(cat "$log")"; return 1; }
        sleep 0.05
    done
    url=http://127.0.0.1:$port
}
ready() {
    until curl -s -o "$work/ready" "$url/readyz" && grep -q true "$work/ready"; do sleep 0.05; done
}
# stop STATUS
stop() {
    kill -TERM "$server"
    wait "$server"
    status=$?
    [ "$status" -eq "$1" ] || fail "the server ended with $status, not $1: $(tail -3 "$log")"
    server=
}
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
# ask WORDS...: curl; the answer is in $work/out, its status in $code.
ask() {
    code=$(curl -s -o "$work/out" -w '%{http_code}' "$@")
}
answers() {
    [ "$code" = "$1" ] || fail "HTTP status $code, not $1: $(head -c 300 "$work/out")"
}

run 0 train mnist_custom --data digits --examples 640 --steps 5 --batch-size 64 --output-dir "$work/run" --quiet
run 0 export "$work/run" --export-dir "$work/models"
python3 - >"$work/body" <<'EOP'
import json
print(json.dumps({"instances": [[[[(r * c % 7) / 7] for c in range(28)] for r in range(28)] for _ in range(3)]}))
EOP

# --- answers, errors, the page
serve plain --model "mnist=$work/models" --poll 0.1 --access-log "$work/access"
ready
ask -d @"$work/body" "$url/v1/models/mnist:predict"
answers 200
mentions out '"predictions": ['
mentions out '"probabilities": ['
first=$(cat "$work/out")
ask -d @"$work/body" "$url/v1/models/mnist/versions/1:predict"
[ "$(cat "$work/out")" = "$first" ] || fail "another answer to the same question"
ask "$url/v1/models/mnist"
answers 200
mentions out '"state": "AVAILABLE"'
ask "$url/v1/models/mnist/metadata"
mentions out '"DT_FLOAT"'
ask -d '{"instances": [[1]]}' "$url/v1/models/mnist:predict"
answers 400
mentions out '"error"'
ask -d @"$work/body" "$url/v1/models/other:predict"
answers 404
ask "$url/monitoring/prometheus/metrics"
mentions out ':tensorflow:serving:request_count{model_name="mnist",status="OK"}'
mentions out 'nv_inference_request_success{model="mnist",version="1"} 2'
ask "$url/"
mentions out '<title>lockstep serve</title>'
grep -q '127.0.0.1 "POST /v1/models/mnist:predict" OK' "$work/access" ||
    fail "the access log: $(cat "$work/access")"

# --- the same bits as eval --as-served, at an equal batch
python3 - >"$work/four" <<'EOP'
import json
print(json.dumps({"inputs": {"input_tensor": [[[[(r * c * k % 11) / 11] for c in range(28)] for r in range(28)]
                                               for k in range(4)]}}))
EOP
run 0 eval "$work/models/1" --as-served --inputs "$work/four" --batch-size 4 --outputs "$work/local"
ask -d @"$work/four" "$url/v1/models/mnist:predict"
answers 200
python3 - "$work/local" "$work/out" <<'EOP' || fail "the server's numbers are not those of eval --as-served"
import json, struct, sys
a, b = (json.load(open(path))["outputs"] for path in sys.argv[1:])
bits = lambda rows: [struct.pack("f", v) for row in rows for v in row]
sys.exit(bits(a["probabilities"]) != bits(b["probabilities"]) or len(b["probabilities"]) != 4)
EOP

# --- a body nested 100,000 deep, and one that is too large
python3 -c 'print("{\"instances\": " + "[" * 100000 + "]" * 100000 + "}")' >"$work/deep"
ask -d @"$work/deep" "$url/v1/models/mnist:predict"
answers 400
mentions out 'nested too deep'

# --- new versions while requests come
{
    while [ ! -e "$work/enough" ]; do
        curl -s -o /dev/null -w '%{http_code}\n' -d @"$work/body" "$url/v1/models/mnist:predict"
    done >"$work/codes"
} &
asker=$!
mkdir "$work/models/2"
cp "$work/models/1/saved_model.pb" "$work/models/2"      # half copied: no variables
until ask "$url/v1/models/mnist/versions/2" && grep -q END "$work/out"; do sleep 0.05; done
mentions out '"error_code": "UNKNOWN"'
run 0 export "$work/run" --export-dir "$work/models"     # becomes version 3
until ask "$url/v1/models/mnist/versions/3" && grep -q AVAILABLE "$work/out"; do sleep 0.05; done
until ask "$url/v1/models/mnist/versions/1" && grep -q END "$work/out"; do sleep 0.05; done
touch "$work/enough"
wait "$asker"
[ "$(sort -u "$work/codes")" = 200 ] || fail "answers during the change: $(sort "$work/codes" | uniq -c)"
ask -d @"$work/body" "$url/v1/models/mnist:predict"
[ "$(cat "$work/out")" = "$first" ] || fail "version 3 has the same weights, but answers otherwise"
grep -q 'version 2 is not served' "$log" || fail "nothing was said about the broken version"
stop 0
grep -q draining "$log" || fail "it did not drain: $(cat "$log")"

# --- told to end, it is not ready but answers until balancers had time to notice
serve leaving --model "mnist=$work/models" --drain-delay 3
ready
kill -TERM "$server"
until grep -q 'not ready any more' "$log"; do sleep 0.05; done
ask "$url/readyz"
answers 503
ask -d @"$work/body" "$url/v1/models/mnist:predict"
answers 200
wait "$server" || fail "the server that left ended with $?: $(tail -3 "$log")"

# --- an ONNX file alone is version 1 of a model of its name; a path needs no option
cp "$work/models/1/model.onnx" "$work/alone.onnx"
serve onnx "$work/alone.onnx"
ready
ask -d @"$work/body" "$url/v1/models/alone:predict"
answers 200
[ "$(cat "$work/out")" = "$first" ] || fail "the ONNX file answers otherwise than the SavedModel beside it"
ask "$url/v1/models/alone/versions/1"
answers 200
mentions out AVAILABLE
stop 0
serve path "figures=$work/models" --model "$work/alone.onnx" --model "second=$work/alone.onnx"
ready
for name in figures alone second; do
    ask -d @"$work/body" "$url/v1/models/$name:predict"
    answers 200
done
stop 0
head -c 5000 "$work/alone.onnx" >"$work/half.onnx"
serve half "$work/half.onnx" --max-num-load-retries 0
until ask "$url/v1/models/half/versions/1" && grep -q END "$work/out"; do sleep 0.05; done
mentions out 'half.onnx'
stop 0
run 1 serve s3://bucket/digits
mentions err "model 'digits': s3://bucket/digits: models are served from a file system"
run 1 serve --model digits=gs://bucket/digits
mentions err "mount the store there, or copy the versions into a directory"
run 2 serve
mentions err "which models? Give a directory or an ONNX file"

# --- versions, labels and batching from TF Serving's files
cat >"$work/models.config" <<EOC
model_config_list { config {
  name: 'digits' base_path: '$work/models' model_platform: 'tensorflow'
  model_version_policy { specific { versions: 1 versions: 3 } }
  version_labels { key: 'stable' value: 1 } } }
EOC
printf 'max_batch_size { value: 4 }\nbatch_timeout_micros { value: 1000 }\n' >"$work/batching"
serve config --model_config_file "$work/models.config" --model_config_file_poll_wait_seconds=0.2 \
    --allow_version_labels_for_unavailable_models --enable_batching --batching_parameters_file "$work/batching"
ready
until ask "$url/v1/models/digits/versions/1" && grep -q AVAILABLE "$work/out"; do sleep 0.05; done
ask -d @"$work/body" "$url/v1/models/digits/labels/stable:predict"
answers 200
ask -d @"$work/body" "$url/v1/models/digits/versions/3:predict"
answers 200
ask -d @"$work/body" "$url/v1/models/digits/labels/none:predict"
answers 404
sed "s/'digits'/'numbers'/" "$work/models.config" >"$work/next" && mv "$work/next" "$work/models.config"
until ask -d @"$work/body" "$url/v1/models/numbers:predict" && [ "$code" = 200 ]; do sleep 0.05; done
until ask -d @"$work/body" "$url/v1/models/digits:predict" && [ "$code" = 404 ]; do sleep 0.05; done
echo 'model_config_list {' >"$work/models.config"
until grep -q 'the models stay as they are' "$log"; do sleep 0.05; done
ask -d @"$work/body" "$url/v1/models/numbers:predict"
answers 200
stop 0

# --- tokens, TLS, mutual TLS
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/ca.key" -out "$work/ca.pem" -days 2 \
    -subj /CN=authority 2>/dev/null
for who in server client; do
    openssl req -newkey rsa:2048 -nodes -keyout "$work/$who.key" -out "$work/$who.csr" \
        -subj "/CN=$who" 2>/dev/null
    printf 'subjectAltName=IP:127.0.0.1\n' >"$work/san"
    openssl x509 -req -in "$work/$who.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial \
        -days 2 -extfile "$work/san" -out "$work/$who.pem" 2>/dev/null
done
echo 'a-long-secret' >"$work/tokens"
serve tls --model "mnist=$work/models" --token-file "$work/tokens" --tls-cert "$work/server.pem" \
    --tls-key "$work/server.key" --tls-client-ca "$work/ca.pem" --max-request-bytes 64K
url=https://127.0.0.1:$port
trust="--cacert $work/ca.pem --cert $work/client.pem --key $work/client.key"
# shellcheck disable=SC2086
until ask $trust "$url/readyz" && grep -q true "$work/out"; do sleep 0.05; done
# shellcheck disable=SC2086
ask $trust -d @"$work/body" "$url/v1/models/mnist:predict"
answers 401
# shellcheck disable=SC2086
ask $trust -H 'Authorization: Bearer a-long-secret' -d @"$work/body" "$url/v1/models/mnist:predict"
answers 200
# shellcheck disable=SC2086
ask $trust -H 'Authorization: Bearer a-long-secret' -d @"$work/deep" "$url/v1/models/mnist:predict"
answers 413
ask --cacert "$work/ca.pem" "$url/readyz" # no certificate of its own
[ "$code" = 000 ] || fail "a client without a certificate got $code"
ask "http://127.0.0.1:$port/readyz"
[ "$code" = 000 ] || fail "a client without TLS got $code"
stop 0

# --- the same from TF Serving's ssl_config_file, for a server alone
{
    printf 'server_key: "'; sed ':a;N;$!ba;s/\n/\\n/g' "$work/server.key" | tr -d '\n'; printf '"\n'
    printf 'server_cert: "'; sed ':a;N;$!ba;s/\n/\\n/g' "$work/server.pem" | tr -d '\n'; printf '"\n'
} >"$work/ssl.config"
MODEL_NAME=models MODEL_BASE_PATH=$work serve ssl --ssl_config_file "$work/ssl.config"
url=https://127.0.0.1:$port
until ask --cacert "$work/ca.pem" "$url/readyz" && grep -q true "$work/out"; do sleep 0.05; done
ask --cacert "$work/ca.pem" -d @"$work/body" "$url/v1/models/models:predict"
answers 200
stop 0

# --- who has no token fills no memory, and what others sent is given back
serve memory --model "mnist=$work/models" --token-file "$work/tokens"
ready
python3 - "$port" "$server" <<'EOP' || fail "memory: see above"
import socket, sys, threading, time
port, server = int(sys.argv[1]), sys.argv[2]
def megabytes():
    lines = open(f"/proc/{server}/status").read().splitlines()
    return int([line for line in lines if line.startswith("VmRSS")][0].split()[1]) >> 10
answers = []
def send(headers):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(b"POST /v1/models/mnist:predict HTTP/1.1\r\nHost: localhost\r\n" + headers
                     + b"Content-Length: 30000000\r\n\r\n")
        for _ in range(30):
            line.sendall(b"x" * 1000000)
        answers.append(line.recv(12))
def send_all(headers):
    answers.clear()
    threads = [threading.Thread(target=send, args=(headers,)) for _ in range(6)]
    most = 0
    for thread in threads: thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, megabytes())
        time.sleep(0.01)
    return most
keeps_what_is_freed = "libasan" in open(f"/proc/{server}/maps").read()
before = megabytes()
most = send_all(b"")
assert answers == [b"HTTP/1.1 401"] * 6, answers
assert most < before + 40 or keeps_what_is_freed, (before, most)
send_all(b"Authorization: Bearer a-long-secret\r\n")
assert answers == [b"HTTP/1.1 400"] * 6, answers
limit = time.time() + 10
while megabytes() > before + 40 and not keeps_what_is_freed:
    assert time.time() < limit, (before, megabytes())
    time.sleep(0.1)
EOP
stop 0

# --- an access log that cannot be written is told of, once, and is no reason not to answer
serve full --model "mnist=$work/models" --access-log /dev/full
ready
for _ in 1 2 3; do
    ask -d @"$work/body" "$url/v1/models/mnist:predict"
    answers 200
done
stop 1
[ "$(grep -c 'access log cannot be written: No space left' "$log")" -eq 1 ] ||
    fail "the full access log: $(cat "$log")"
grep -q '3 lines of the access log are missing' "$log" || fail "lost lines: $(cat "$log")"

# --- too many at once: some are refused, none is lost, and SIGTERM waits for those in flight
serve flood --model "mnist=$work/models" --max-batch-size 4 --max-enqueued-batches 1
ready
python3 - "$port" "$work/body" "$server" <<'EOP' || fail "overload: see above"
import http.client, os, signal, sys, threading
port, body, server = int(sys.argv[1]), open(sys.argv[2], "rb").read(), int(sys.argv[3])
codes, lock, begun = [], threading.Lock(), threading.Barrier(25)
def ask():
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    line.connect()
    begun.wait()
    for _ in range(4):
        try:
            line.request("POST", "/v1/models/mnist:predict", body)
            reply = line.getresponse()
            reply.read()
            code = reply.status
            over = reply.getheader("Connection") == "close"
        except (http.client.HTTPException, OSError) as error:
            code, over = repr(error), True
        with lock:
            codes.append(code)
            first = len(codes) == 40
        if first:
            os.kill(server, signal.SIGTERM)
        if over:
            break
threads = [threading.Thread(target=ask) for _ in range(24)]
for thread in threads: thread.start()
begun.wait()
for thread in threads: thread.join()
counts = {code: codes.count(code) for code in set(codes)}
if not set(counts) <= {200, 429}: print(counts)
sys.exit(not set(counts) <= {200, 429} or counts.get(200, 0) < 1)
EOP
wait "$server"
status=$?
[ "$status" -eq 0 ] || fail "the server ended with $status: $(tail -3 "$log")"
server=

# --- what cannot be served is said at once
run 2 serve
mentions err 'which models?'
run 2 serve --model x=y --model-config-file z
run 2 serve --model x=y --rest-port 70000
run 2 serve --model x=y --grpc-max-threads 65
mentions err '64'
run 2 serve --model x=y --rest-api-num-threads 9999
mentions err '64'
echo 'num_batch_threads { value: 1025 }' >"$work/batching"
run 2 serve --model x=y --batching-parameters-file "$work/batching" --rest-port auto --port 0
mentions err 'num_batch_threads 1025; at most 1024'
run 2 serve --model x=y --use_alts_credentials
mentions err 'TLS is what there is'
run 1 serve --model-config-file "$work/nothing" --rest-port auto --port 0
run 1 serve --model "x=$work" --tls-cert "$work/body" --tls-key "$work/body" --rest-port auto --port 0
mentions err "the server's certificate cannot be read"
run 2 serve --model x=y --rest-port 0 --port 0
mentions err 'no door is open'
finish
