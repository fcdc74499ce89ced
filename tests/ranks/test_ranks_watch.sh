#!/bin/sh
# What is seen of several ranks: lines, the page, metrics, event files, and a timeline of all.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS http_proxy HOROVOD_TIMELINE
export OMP_WAIT_POLICY=passive no_proxy='*'
small="train mnist_custom --examples 640 --batch-size 16 --threads 1 --data-threads 1 --eval-data none"
launched=
trap '[ -z "$launched" ] || kill -9 $launched 2>/dev/null; rm -rf "$work"' EXIT

# ranks STATUS WORDS...: two of them.
ranks() {
    expected=$1
    shift
    timeout -k 5 90 mpirun --oversubscribe -np 2 "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" -eq "$expected" ] ||
        fail "2 ranks of lockstep $*: exit status $status, expected $expected: $(head -c 600 "$work/err")"
}
# timeline FILE RANKS [HOST]: it has so many processes, who did the same steps at the same time.
timeline() {
    /usr/bin/python3 - "$@" <<'END' || fail "the timeline $1 is not as it should be"
import json, sys
from collections import defaultdict
events = json.load(open(sys.argv[1]))["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
ranks = int(sys.argv[2])
assert sorted(names) == list(range(1, ranks + 1)), names
for pid, name in names.items():
    assert name.startswith(f"rank {pid - 1} on "), names
assert len(sys.argv) < 4 or names[2] == "rank 1 on " + sys.argv[3], names
spans = [e for e in events if e["ph"] == "X"]
steps, sums = defaultdict(dict), defaultdict(dict)
for e in spans:
    assert e["ts"] >= 0 and e["dur"] >= 0, e
    if tracks[e["pid"], e["tid"]] == "reductions" and e["name"] != "broadcast":
        sums[e["args"]["job"]][e["pid"]] = e
    elif e["name"] == "step":
        steps[e["args"]["step"]][e["pid"]] = e
assert len(steps) >= 3 and len(sums) >= 3, (len(steps), len(sums))
for pid in names:
    assert any(e["pid"] == pid and "kernel" in e["args"] for e in spans), "no operations of " + names[pid]
    assert any(e["pid"] == pid and e["name"] == "bucket 0" and e["args"]["bytes"] > 0 for e in spans), names[pid]
# Microseconds: of rounding, or by which a busy machine compares two clocks wrongly.
slack = 1 if len(sys.argv) < 4 else 50000
for number, of in list(steps.items()) + list(sums.items()):
    assert len(of) == ranks, (number, of)
    # Nobody has the sum before everybody has given his part.
    assert max(e["ts"] for e in of.values()) <= min(e["ts"] + e["dur"] for e in of.values()) + slack, of
END
}

# Files and lines of a whole run.
ranks 0 $small --steps 12 --bucket 64K --tensorboard "$work/events" --output-dir "$work/run" \
    --trace "$work/trace.json" --trace-steps 4:5
mentions err " steps per epoch, 2 ranks"
mentions err " % waiting for ranks"
[ "$(grep -c "training from step" "$work/err")" -eq 1 ] || fail "not one rank alone tells: $(cat "$work/err")"
timeline "$work/trace.json" 2
grep -aq "ranks/slowest_excess_seconds" "$work"/events/events.out.* || fail "no scalars of ranks"
grep -aq "step_seconds/reduce_hidden" "$work"/events/events.out.* || fail "no hidden reductions"
[ "$(ls "$work/events" | wc -l)" -eq 1 ] || fail "event files: $(ls "$work/events")"
/usr/bin/python3 - "$work/run/dashboard.html" <<'END' || fail "the saved page is not as it should be"
import json, re, sys
data = json.loads(re.search(r'id="data">(.*?)</script>', open(sys.argv[1]).read(), re.S).group(1))
assert data["run"]["ranks"] == 2 and len(data["run"]["hosts"]) == 2, data["run"]
assert [row[0] for row in data["ranks"]] == [0, 1], data["ranks"]
assert sum(row[1] for row in data["ranks"]) == 12, data["ranks"]
assert all(row[3] > 0 and row[4] > 0 for row in data["ranks"]), data["ranks"]
assert data["status"]["bucket"] == 65536, data["status"]
assert len(data["points"]["hidden"]) == 12 and max(data["points"]["hidden"]) > 0, data["points"]["hidden"]
END

# Horovod's word for it; steps that would go on behind the last one end with it.
HOROVOD_TIMELINE=$work/horovod.json ranks 0 $small --steps 9 --quiet
timeline "$work/horovod.json" 2

# bucket BYTES WORDS...: what a run with these uses.
bucket() {
    wanted=$1
    shift
    ranks 0 $small --steps 2 --quiet --output-dir "$work/run" "$@"
    grep -q "\"bucket\":$wanted[.,]" "$work/run/dashboard.html" ||
        fail "$(grep -o '"bucket":[0-9.]*' "$work/run/dashboard.html"), expected $wanted"
}
# As in Horovod: a threshold that is given is not tuned. A flag beats both.
HOROVOD_FUSION_THRESHOLD=65536 HOROVOD_AUTOTUNE=1 bucket 65536
HOROVOD_FUSION_THRESHOLD=65536 HOROVOD_AUTOTUNE=1 bucket 131072 --bucket 128K
HOROVOD_FUSION_THRESHOLD=4096 bucket '[0-9]*' --autotune
grep -q '"bucket":4096[.,]' "$work/run/dashboard.html" && fail "--autotune does not beat the environment"

# A run that ends before its steps were recorded has the first rank's only, and waits for nobody.
ranks 0 $small --steps 50 --quiet --trace "$work/early.json" --trace-steps 3:40 --eval-data digits \
    --eval-every 10 --stop-at-accuracy 0.01
grep -q '"rank 0 on ' "$work/early.json" || fail "no timeline of a run that ended early"
timeout 60 mpirun --oversubscribe -np 2 "$LOCKSTEP" $small --steps 5 --quiet --trace "$work/no/trace.json" \
    >"$work/out" 2>"$work/err" </dev/null
[ $? -ne 124 ] || fail "ranks wait for one that cannot write its timeline"
mentions err "no/trace.json"

# Hosts whose clocks differ, where the kernel lets us have such.
if unshare --time --monotonic 5000 --uts --fork true 2>/dev/null; then
    words="$small --steps 12 --quiet --trace $work/clocks.json --trace-steps 4:5"
    timeout -k 5 90 mpirun --oversubscribe -np 1 "$LOCKSTEP" $words : \
        -np 1 unshare --time --monotonic 5000 --uts --fork \
        sh -c "hostname elsewhere; exec $LOCKSTEP $words" >"$work/out" 2>"$work/err" </dev/null ||
        fail "ranks on two hosts: $(head -c 600 "$work/err")"
    timeline "$work/clocks.json" 2 elsewhere
fi

# await TENTHS COMMAND...: until it succeeds, or so long.
await() {
    tries=$1
    shift
    until "$@" || [ $tries -le 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
}
# begin WORDS...: ranks that go on until `stop`; their processes are in $work/pid.RANK.
begin() {
    : >"$work/err"
    mpirun --oversubscribe -np 2 sh -c 'echo $$ >"$0/pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$work" \
        "$LOCKSTEP" $small --steps 1000000 "$@" >"$work/out" 2>"$work/err" </dev/null &
    launched=$!
    await 600 grep -q ' step 1/' "$work/err"
}
stop() {
    kill -TERM $launched
    wait $launched
    launched=
}

# Who waits for whom is said after the time that Horovod's variable has, unless another says no.
for off in 0 1; do
    HOROVOD_STALL_CHECK_TIME_SECONDS=1 HOROVOD_STALL_CHECK_DISABLE=$off begin
    other=$(cat "$work/pid.1")
    kill -STOP "$other"
    await $((off ? 40 : 300)) grep -q "for rank 1 on" "$work/err"
    kill -CONT "$other"
    stop
    [ "$(grep -c "for rank 1 on" "$work/err")" -eq 0 ] && warned=0 || warned=1
    [ $((warned + off)) -eq 1 ] || fail "HOROVOD_STALL_CHECK_DISABLE=$off: $(head -c 600 "$work/err")"
done

# Metrics while it runs.
begin --metrics-port 0 --bucket 64K
sleep 1.5
curl -sS -m 60 "$(sed -n 's/^lockstep: metrics: //p' "$work/err")" >"$work/metrics" || fail "no metrics"
stop
/usr/bin/python3 - "$work/metrics" <<'END' || fail "the metrics are not as they should be"
import sys
from prometheus_client.parser import text_string_to_metric_families
families = {family.name: family for family in text_string_to_metric_families(open(sys.argv[1]).read())}
assert families["lockstep_train_ranks"].samples[0].value == 2
parts = {(s.labels["rank"], s.labels["part"]): s.value for s in families["lockstep_rank_seconds"].samples}
assert families["lockstep_rank_seconds"].type == "counter"
assert sorted(parts) == sorted((r, p) for r in "01" for p in ("input", "forward", "backward", "reduce", "hidden")), parts
assert all(parts[r, p] > 0 for r in "01" for p in ("forward", "backward", "reduce")), parts
steps = sum(s.value for s in families["lockstep_rank_slowest_steps"].samples)
assert 0 < steps <= families["lockstep_train_steps"].samples[0].value, steps
assert [s.labels["rank"] for s in families["lockstep_rank_info"].samples] == ["0", "1"]
assert families["lockstep_train_reduce_hidden_seconds"].samples[0].value > 0
END
finish
