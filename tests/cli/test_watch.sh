#!/bin/sh
# What watches a training in files: TensorBoard's events, a workflow's progress, a trace. That others
# can read the events is shown in tests/interop.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS ARGO_PROGRESS_FILE
small="mnist_custom --examples 640 --threads 1 --quiet"

# Event files: one per run, also of two in one second.
run 0 train $small --steps 2 --eval-data none --tensorboard "$work/events/of/runs"
says err ""
run 0 train $small --steps 2 --eval-data none --tensorboard "$work/events/of/runs"
count=$(find "$work/events/of/runs" -name 'events.out.tfevents.[0-9]*.*' -size +1k | wc -l)
[ "$count" -eq 2 ] || fail "$count event files, expected 2"
grep -q "brain.Event:2" "$work"/events/of/runs/* || fail "the event files have no version"
grep -q "train/loss" "$work"/events/of/runs/* || fail "the event files have no loss"
run 2 train $small --steps 2 --tensorboard-histograms 1
mentions err "--tensorboard-histograms needs --tensorboard=DIR"
run 2 train $small --steps 2 --tensorboard s3://bucket/events
mentions err "write to a directory"
: >"$work/file"
run 1 train $small --steps 2 --tensorboard "$work/file"
mentions err "--tensorboard: $work/file: is not a directory"
run 2 train $small --run_tensorboard
mentions err "--tensorboard DIR"

# A disk that is full costs records and a warning, never the training.
run 0 train $small --steps 5 --eval-data none --progress-file /dev/full
mentions err "/dev/full: No space left on device"
mentions err "records were left out"

# The progress of a workflow.
ARGO_PROGRESS_FILE=$work/progress
export ARGO_PROGRESS_FILE
run 0 train $small --steps 7 --eval-data none
says err ""
[ "$(cat "$work/progress")" = 7/7 ] || fail "the progress is '$(cat "$work/progress")'"
ARGO_PROGRESS_FILE=$work/missing/progress
run 0 train $small --steps 7 --eval-data none
mentions err "warning: $work/missing/progress: No such file or directory"
[ "$(grep -c 'No such file' "$work/err")" -eq 1 ] || fail "the warning came more than once"
unset ARGO_PROGRESS_FILE

# check_trace WARMUP: the last run's trace.
check_trace() {
    python3 "$here/check_trace.py" "$work/trace.json" "$work/run.json" "$1" >"$work/checked" 2>&1 ||
        fail "the trace: $(tail -n 3 "$work/checked" | cut -c 1-600)"
}

# A trace: whole JSON, spans that nest, times that agree; with threads that read, and without.
run 0 train $small --steps 12 --eval-every 5 --trace "$work/trace.json" --trace-steps 1:12 \
    --json "$work/run.json"
says err ""
check_trace 5
grep -q '"loader 1"' "$work/trace.json" || fail "the trace names no loader thread"
run 0 train $small --steps 4 --trace "$work/trace.json" --trace-steps 1:100 --data-threads 0 \
    --json "$work/run.json" --tensorboard "$work/more" --explain
check_trace 2
run 0 bench mnist_custom --threads 1 --num-batches 6 --num-warmup-batches 2 \
    --trace_file "$work/trace.json" --trace-steps 1:8 --json "$work/run.json"
check_trace 2
run 0 bench mnist_custom --threads 1 --num-batches 6 --num-warmup-batches 2 --forward-only \
    --trace "$work/trace.json"
mentions out "total images/sec"
[ "$(grep -c '"name":"step"' "$work/trace.json")" -eq 5 ] || fail "not 5 steps are traced"
grep -q '"step":3,' "$work/trace.json" || fail "the trace does not start after the warm-up"

# A run that is stopped leaves a whole trace, too.
rm "$work/progress"
"$LOCKSTEP" train $small --steps 100000 --eval-data none --trace "$work/trace.json" \
    --trace-steps 2:3 --progress-file "$work/progress" >"$work/out" 2>"$work/err" &
child=$!
for i in $(seq 300); do
    case $(cat "$work/progress" 2>/dev/null) in [1-9]*) break ;; esac
    sleep 0.1
done
kill -TERM "$child"
wait "$child"
status=$?
[ "$status" -eq 143 ] || fail "SIGTERM: exit status $status"
python3 -m json.tool "$work/trace.json" >/dev/null || fail "a stopped run left a broken trace"

# What cannot work is said before the training.
run 1 train $small --trace "$work/nowhere/trace.json"
mentions err "--trace: $work/nowhere/trace.json"
run 2 train $small --steps 5 --trace "$work/t.json" --trace-steps 6:1
mentions err "--trace-steps=6:1 begins behind the last of 5 steps"
for steps in 5 :5 5: 0:5 5:0 5:1001 a:b 5:5x; do
    run 2 train $small --trace "$work/t.json" --trace-steps "$steps"
    mentions err "--trace-steps=$steps: expected FIRST:COUNT"
done
run 2 train $small --trace-steps 1:1
mentions err "--trace-steps needs --trace=FILE"

finish
