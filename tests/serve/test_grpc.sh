#!/bin/sh
# A trained network, exported, served and asked by our own client through both doors.
. "$(dirname "$0")/../cli/lib.sh"
. "$here/lib.sh"
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive

run 0 train mnist_custom --data digits --examples 2000 --steps 12 --eval-every 0 --output-dir trained \
    --export-dir export
start_server --model mnist=export

# Both doors give the same answers: every iteration has the same accuracy.
run 0 client -s "$grpc" --model mnist --data digits -b 8 -n 12 -w 2
sed -n 's/.*(accuracy: \(.*\)%)/\1/p' out >by_grpc
run 0 client -s "$rest" --protocol rest --model mnist --data digits -b 8 -n 12 -w 2
sed -n 's/.*(accuracy: \(.*\)%)/\1/p' out >by_rest
[ "$(wc -l <by_grpc)" -eq 12 ] || fail "not 12 iterations: $(cat by_grpc)"
cmp -s by_grpc by_rest || fail "REST and gRPC answer differently"

# Several at once are answered, and an old version can be asked by its number.
run 0 client -s "$grpc" --model mnist --data digits --concurrency 4 -n 104 -w 4 --model-version 1
mentions out "Answered: 100 in "
run 1 client -s "$grpc" --model mnist --data digits -n 2 -w 1 --model-version 2
mentions err "NOT_FOUND"
run 1 client -s "$grpc" --model other --data digits -n 2 -w 1
mentions err "NOT_FOUND"

# SIGTERM lets what is in flight end.
"$LOCKSTEP" client -s "$grpc" --model mnist --data digits --concurrency 2 -n 400000 -w 0 \
    --deadline 20 --json load.json >load 2>&1 &
load=$!
sleep 1
kill -TERM "$pid"
wait "$pid"
status=$?
sleep 2 # nobody is there: it asks now and then
[ $status -eq 0 ] || fail "serve: exit status $status after SIGTERM: $(tail -3 server.log)"
kill -INT $load
wait $load
# gRPC resets (CANCELLED) what reaches a server that has begun to end but was not taken yet.
/usr/bin/python3 - load.json <<'EOF' || fail "a request in flight was dropped: $(cat load load.json)"
import json, sys
found = json.load(open(sys.argv[1]))
statuses = found["statuses"]
assert found["requests"] > 0 and set(statuses) <= {"OK", "UNAVAILABLE", "CANCELLED"}, found
assert statuses.get("CANCELLED", 0) <= 2, found
assert statuses.get("UNAVAILABLE", 0) < 60, found
EOF

# Both doors close at once, and both have the whole time: a request that waits in one of them keeps
# neither open, and takes nothing from the other.
start_server --model mnist=export --max-batch-size 64 --batch-timeout-micros 2500000 --drain-timeout 20
/usr/bin/python3 - >body <<'EOF'
import json
print(json.dumps({"instances": [[[[0.5]] * 28] * 28]}))
EOF
curl -s -o by_rest -w '%{http_code}' -d @body "http://$rest/v1/models/mnist:predict" >code &
asking=$!
"$LOCKSTEP" client -s "$grpc" --model mnist --data digits -b 1 -n 1 -w 0 --deadline 20 >by_grpc 2>&1 &
asking_too=$!
sleep 0.7
kill -TERM "$pid"
sleep 0.7
/usr/bin/python3 - "$grpc" "$rest" <<'EOF' || fail "a connection was taken after SIGTERM"
import errno, socket, sys
for address in sys.argv[1:]:
    host, port = address.rsplit(":", 1)
    line = socket.socket()
    line.settimeout(2)
    found = line.connect_ex((host, int(port)))
    assert found == errno.ECONNREFUSED, (address, errno.errorcode.get(found, found))
EOF
kill -0 $asking || fail "the request did not wait: $(cat code by_rest)"
wait $asking
[ "$(cat code)" = 200 ] || fail "the request in flight: $(cat code by_rest)"
wait $asking_too || fail "the call in flight: $(cat by_grpc)"
wait "$pid"
status=$?
[ $status -eq 0 ] || fail "serve: exit status $status after SIGTERM: $(tail -3 server.log)"

finish
