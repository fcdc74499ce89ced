#!/bin/sh
# --dashboard and --metrics-port from outside: what is served while a training runs, to whom, and
# what is left behind.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS http_proxy
export OMP_WAIT_POLICY=passive no_proxy='*'
small="mnist_custom --examples 640 --threads 1"
trainer=
trap '[ -z "$trainer" ] || kill -9 $trainer 2>/dev/null; rm -rf "$work"' EXIT

# await COMMAND...: until it succeeds, or two minutes have passed.
await() {
    tries=0
    until "$@" || [ $tries -ge 1200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}
# begin WORDS...: a training that goes on until `stop`; its addresses are in $page and $metrics.
begin() {
    : >"$work/err" # the last one's words are not this one's
    "$LOCKSTEP" train $small --steps 1000000 "$@" >"$work/out" 2>"$work/err" </dev/null &
    trainer=$!
    await grep -q ' step 1/' "$work/err"
    page=$(sed -n 's/^lockstep: dashboard: //p' "$work/err")
    metrics=$(sed -n 's/^lockstep: metrics: //p' "$work/err")
}
stop() {
    kill -TERM $trainer
    wait $trainer
    status=$?
    trainer=
    [ $status -eq 143 ] || fail "a stopped training ends with status $status, expected 143"
}
# get ADDRESS [curl's words]: the body is in $work/body, the head in $work/head.
get() { curl -sS -m 60 -o "$work/body" -D "$work/head" "$@" 2>"$work/curl" || :; }
# has head|body TEXT
has() { grep -qF -- "$2" "$work/$1" || fail "no '$2' in the $1 of $address: $(head -c 300 "$work/$1")"; }
answers() { # STATUS ADDRESS...
    wanted=$1 address=$2
    shift
    get "$@"
    head -n 1 "$work/head" | grep -q " $wanted " ||
        fail "$*: '$(head -n 1 "$work/head" | tr -d '\r')', expected $wanted $(cat "$work/curl")"
}

# On the loopback: the page, its parts, its data, the metrics; nothing else, and no other names.
begin --dashboard 0 --metrics-port 0 --output-dir "$work/run" --eval-every 50
case $page in http://127.0.0.1:*/) ;; *) fail "the page is at '$page'" ;; esac
answers 200 "$page"
has head "Content-Security-Policy: default-src 'none'; script-src 'self'"
has head "X-Content-Type-Options: nosniff"
has body "<title>lockstep</title>"
for part in dashboard.css text.js charts.js layers.js ranks.js dashboard.js; do
    answers 200 "$page$part"
done
answers 404 "${page}favicon.ico"
answers 404 "${page}web/dashboard.html"
answers 405 "${page}data" -X POST -d x
answers 403 "$page" -H 'Host: attacker.example'
answers 200 "$page" -H 'Host: localhost:1234'

# Wait for an evaluation, so that everything there is to tell is told.
evaluated() { get "${page}data" && grep -q '"items":\[{' "$work/body"; }
await evaluated
/usr/bin/python3 - "$work/body" <<'END' || fail "the data is not as it should be"
import json, sys
data = json.load(open(sys.argv[1]))
assert data["run"]["model"] == "mnist_custom" and data["run"]["batch"] == 64, data["run"]
assert data["status"]["state"] == "running" and data["status"]["step"] >= 50, data["status"]
assert data["status"]["total"] == 1000000
points = data["points"]
lengths = {len(column) for column in points.values() if isinstance(column, list)}
assert len(lengths) == 1 and lengths.pop() >= 50, lengths
assert points["step"][:3] == [1, 2, 3]
assert all(0 < loss < 10 for loss in points["loss"])
assert data["evaluations"]["items"][0]["step"] == 50
assert len(data["layers"]) == len(data["layer_seconds"]) > 10
assert any(layer["kernel"] for layer in data["layers"])
assert {"name": "eval-every", "value": "50", "section": "Results", "source": "command line"} in data["settings"]
assert any(item["source"] == "recipe" for item in data["settings"])
assert sum(item["bytes"] for item in data["memory"]) > 1e6
assert any("evaluated after step 50" in line for line in data["log"]["lines"])
END

# Events come as they happen.
[ "$(curl -sS -N -m 120 "${page}events" 2>/dev/null | head -n 1)" = "event: delta" ] || fail "no events"

# Metrics as Prometheus' own library reads them, at both places.
answers 404 "${metrics%metrics}data"
answers 200 "${page}metrics"
answers 200 "$metrics"
has head "text/plain; version=0.0.4"
/usr/bin/python3 - "$work/body" <<'END' || fail "the metrics are not as they should be"
import sys
from prometheus_client.parser import text_string_to_metric_families
text = open(sys.argv[1]).read()
families = {family.name: family for family in text_string_to_metric_families(text)}
value = lambda name: families[name].samples[0].value
assert families["lockstep_build_info"].samples[0].labels["version"]
steps = value("lockstep_train_steps")
assert families["lockstep_train_steps"].type == "counter" and steps >= 50, steps
assert value("lockstep_train_examples") == 64 * steps
assert value("lockstep_train_step") == steps and value("lockstep_train_target_step") == 1000000
assert value("lockstep_train_running") == 1
assert 0 < value("lockstep_train_loss") < 10 and 0 <= value("lockstep_train_accuracy_ratio") <= 1
assert value("process_resident_memory_bytes") > 1e6
assert 0 < value("lockstep_train_evaluation_accuracy_ratio") <= 1
histogram = families["lockstep_train_step_duration_seconds"]
assert histogram.type == "histogram"
buckets = [s for s in histogram.samples if s.name.endswith("_bucket")]
assert [b.value for b in buckets] == sorted(b.value for b in buckets)
assert buckets[-1].labels["le"] == "+Inf" and buckets[-1].value == steps
seconds = next(s.value for s in histogram.samples if s.name.endswith("_sum"))
parts = {s.labels["part"]: s.value for s in families["lockstep_train_step_part_seconds"].samples}
assert sorted(parts) == ["backward", "forward", "input", "reduce", "update"], parts
assert abs(sum(parts.values()) - seconds) < 0.01 * seconds, (parts, seconds)
for family in families.values():
    assert family.documentation, family.name
END

# A page is told of the end; the run stays as a file.
: >"$work/events"
curl -sS -N -m 200 "${page}events" >"$work/events" 2>/dev/null &
listener=$!
await grep -q '^event: delta$' "$work/events"
stop
wait $listener || fail "the stream was torn: $?"
grep -q '^event: end$' "$work/events" || fail "the end was not told: $(tail -c 300 "$work/events")"
grep -q '"state":"stopped"' "$work/events" || fail "the state at the end was not told"
[ "$(wc -c <"$work/run/dashboard.html")" -lt 600000 ] || fail "dashboard.html is too large"
grep -q '"state":"stopped"' "$work/run/dashboard.html" || fail "dashboard.html does not say how it ended"

# One port for both is one server.
free=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
begin --dashboard "$free" --metrics-port "127.0.0.1:$free"
answers 200 "http://127.0.0.1:$free/metrics"
answers 200 "http://127.0.0.1:$free/data"
[ "$metrics" = "http://127.0.0.1:$free/metrics" ] || fail "metrics are elsewhere: $metrics"
stop

# An address of its own wants a token.
begin --dashboard 0.0.0.0:0
port=$(echo "$page" | sed -n 's/.*:\([0-9]*\)\/?token=.*/\1/p') token=${page##*token=}
[ ${#token} -eq 32 ] || fail "no token in '$page'"
page=http://127.0.0.1:$port/
answers 401 "$page"
answers 401 "${page}data"
answers 401 "${page}?token=${token%?}0x"
answers 200 "${page}?token=$token" -c "$work/jar"
answers 200 "${page}data" -b "$work/jar"
answers 200 "${page}metrics" -H "Authorization: Bearer $token"
! grep -q "$token" "$work/body" || fail "the token is told"
stop

# A run whose loss is no number says so on its page.
run 1 train $small --steps 20 --lr 1e30 --output-dir "$work/broken" --quiet
grep -q '"state":"failed"' "$work/broken/dashboard.html" || fail "the page does not say that it failed"

run 2 train $small --steps 1 --dashboard nowhere
mentions err "--dashboard=nowhere: expected PORT or ADDRESS:PORT"
run 2 train $small --steps 1 --metrics-port 70000
mentions err "--metrics-port=70000"
run 0 train $small --steps 1 --quiet
says err ""
finish
