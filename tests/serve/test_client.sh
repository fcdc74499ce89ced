#!/bin/sh
# `lockstep client` against a gRPC door whose answers are known.
. "$(dirname "$0")/../cli/lib.sh"
. "$here/lib.sh"
cd "$work" || exit 1
rows eval.csv 200

start_fake
# As the Wide & Deep client of the Model Zoo prints it.
run 0 client -s "$server" -d eval.csv -b 4 -n 6 -w 2
mentions out " SERVER_URL: $server "
[ "$(grep -c '^Iteration [1-6]: 0\.[0-9]* sec (accuracy: 75.00%)$' out)" -eq 6 ] ||
    fail "the iterations: $(cat out)"
mentions out "Average time: 0."
mentions out "Batch size = 4"
grep -q '^Throughput: [0-9.]* examples/sec$' out || fail "no throughput: $(cat out)"
grep -q '^Latency' out && fail "a latency with batch 4"
run 0 client --server "$server" --data_file eval.csv --num_iteration 12 --warm_up_iteration 10
grep -q '^Latency: [0-9.]* ms$' out || fail "no latency: $(cat out)"

# Load: closed and open loop, and what scripts read.
run 0 client -s "$server" -d eval.csv --concurrency 3 -n 210 -w 10 --plot --html page.html --json -
run 0 client -s "$server" -d eval.csv --concurrency 3 -n 210 -w 10 --plot --html page.html --json out.json
mentions out "3 connections, each as fast as answers come"
mentions out "Answered: 200 in "
mentions out "Accuracy: 75.00%"
grep -q '^  <= .* ms |#' out || fail "no plot: $(cat out)"
grep -q '</svg>' page.html || fail "no picture in the page"
/usr/bin/python3 - out.json <<'EOF' || fail "the JSON: $(cat out.json)"
import json, sys
found = json.load(open(sys.argv[1]))
latency = found["latency_seconds"]
assert found["requests"] == 200 and found["failed"] == 0 and found["accuracy"] == 0.75
assert found["loop"] == "closed" and found["statuses"] == {"OK": 200}
assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
EOF
run 0 client -s "$server" -d eval.csv --rate 200 --duration 1 --json out.json
mentions out "200 requests/sec over 64 connections"
interrupt 130 1 client -s "$server" -d eval.csv --duration 60 --concurrency 2
mentions out "Answered: "

# Several requests at a time on a connection: all are answered, each to its own question.
run 0 client -s "$server" -d eval.csv --concurrency 2 --streams 8 -n 410 -w 10 --json out.json
mentions out "2 connections, each with 8 requests at a time"
mentions out "Answered: 400 in "
mentions out "Accuracy: 75.00%"
grep -q '"streams": *8' out.json || fail "the JSON: $(cat out.json)"
run 1 client -s "$server" -d eval.csv --model nobody --streams 4 -n 8 -w 1
mentions out "NOT_FOUND: 7"
run 0 client -s "$server" -d eval.csv --streams 4 --rate 200 --duration 1 -w 0 --json out.json
mentions out "200 requests/sec over 1 connections, several at a time on each"
mentions out "Answered: 200 in "
run 2 client -s "$server" -d eval.csv --streams 2 --protocol rest
mentions err "--streams=2 is for grpc"

# What a call costs that asks no model.
run 0 client -s "$server" --health --concurrency 2 -n 30 -w 10 --json out.json
mentions out "Load: grpc.health.v1 by grpc, 2 connections"
mentions out "Answered: 20 in "
grep -q 'Accuracy' out && fail "nothing was asked, but it is accurate: $(cat out)"
grep -q '"requests": *20' out.json || fail "the JSON: $(cat out.json)"
run 2 client -s "$server" --health -d eval.csv
mentions err "leave --data out"
run 2 client -s "$server" --health --protocol rest
mentions err "leave --protocol out"

# What goes wrong is said.
run 1 client -s "$server" -d eval.csv --model nobody -n 2 -w 1
mentions err "NOT_FOUND: Servable not found for request: Latest(nobody)"
run 1 client -s "$server" -d eval.csv --signature other -n 2 -w 1
mentions err 'FAILED_PRECONDITION: Serving signature key "other" not found.'
run 1 client -s "$server" -d eval.csv --model nobody --concurrency 2 -n 8 -w 1
mentions out "NOT_FOUND: 7"
run 1 client -s 127.0.0.1:1 -d eval.csv --deadline 500ms
mentions err "does the server listen there?"
run 2 client -s "$server"
mentions err "which data"
run 2 client -s "$server" -d digits
mentions err "which model"
run 2 client -s "$server" -d digits --model resnet50 -n 2 -w 1
mentions err "has pictures of [N, 28, 28, 1], but the model takes [N, 224, 224, 3]"
run 2 client -s "$server" -d eval.csv -n 5 -w 5
mentions err "leaves nothing to measure"
printf '1,2\n' >short.csv
run 1 client -s "$server" -d short.csv -n 2 -w 1
mentions err "short.csv: line 1 has 2 fields"

# A slow server cannot hide behind a client that waits for it: latencies count from when a request
# should have been sent. 4 connections, 50 ms each, are at most 80 requests a second; at 200 the
# queue grows all the time, and half of the second's requests are late by more than 400 ms.
start_fake delay=0.05
run 0 client -s "$server" -d eval.csv --rate 200 --duration 1 --concurrency 4 -w 0 --json slow.json
/usr/bin/python3 - slow.json <<'EOF' || fail "coordinated omission: $(cat slow.json)"
import json, sys
found = json.load(open(sys.argv[1]))
assert found["latency_seconds"]["p50"] > 0.4, found
EOF

# Overload is counted by status.
start_fake delay=0.05 limit=1
run 1 client -s "$server" -d eval.csv --concurrency 8 -n 60 -w 0
mentions out "RESOURCE_EXHAUSTED"

# Tokens.
printf 'sesame\n' >token
printf 'simsim\n' >wrong
start_fake token=sesame
run 1 client -s "$server" -d eval.csv -n 2 -w 1
mentions err "UNAUTHENTICATED"
run 1 client -s "$server" -d eval.csv -n 2 -w 1 --token-file wrong
run 0 client -s "$server" -d eval.csv -n 2 -w 1 --token-file token

# TLS, and TLS on both sides.
make_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
        -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -keyout "$1.key" -out "$1.pem" \
        2>/dev/null
}
make_certificate door
make_certificate visitor
make_certificate stranger
start_fake certificate=door.pem key=door.key
port=${server##*:}
run 0 client -s "127.0.0.1:$port" -d eval.csv -n 2 -w 1 --ca-file door.pem
run 1 client -s "127.0.0.1:$port" -d eval.csv -n 2 -w 1 --ca-file stranger.pem --deadline 2
run 1 client -s "127.0.0.1:$port" -d eval.csv -n 2 -w 1 --deadline 2
# Who connects and says nothing, or only the beginning of a handshake, costs nothing.
/usr/bin/python3 - "$port" "${servers##* }" <<'EOF' || fail "silent visitors keep the server busy"
import socket, sys, time
def ticks():
    words = open("/proc/%s/stat" % sys.argv[2]).read().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])
visitors = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(4)]
visitors[0].send(b"\x16\x03\x01\x02\x00\x01")
time.sleep(0.2)
before = ticks()
time.sleep(1)
sys.exit(ticks() - before > 30)
EOF
start_fake certificate=door.pem key=door.key client-ca=visitor.pem
port=${server##*:}
run 0 client -s "127.0.0.1:$port" -d eval.csv -n 2 -w 1 --ca-file door.pem \
    --certificate-file visitor.pem --key-file visitor.key
run 1 client -s "127.0.0.1:$port" -d eval.csv -n 2 -w 1 --ca-file door.pem --deadline 2
run 1 client -s "127.0.0.1:$port" -d eval.csv -n 2 -w 1 --ca-file door.pem --deadline 2 \
    --certificate-file stranger.pem --key-file stranger.key

finish
