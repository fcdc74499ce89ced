#!/bin/sh
# A pipeline ends in a model that was served and asked; with --serve it goes on. What missed its
# target, or answers otherwise, is deployed nowhere.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS RETRY_LIMIT MODEL_NAME
export no_proxy='*'
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

small="mnist_custom --examples 32 --batch-size 16 --threads 1 --steps 2 --quiet"

# --- checked, then over
run 0 pipeline $small --target-accuracy 0.001 --output-dir "$work/a" --export-dir "$work/digits" \
    --json "$work/j"
mentions out "Model exported to $work/digits/1"
mentions out "Served as digits, version 1: 16 evaluation examples over gRPC, alone and 4 together, gave the bits of eval --as-served; "
grep -q '"served_examples_checked": 16' "$work/j" || fail "the JSON says nothing of the check: $(cat "$work/j")"
grep -q '"served_name": "digits"' "$work/j" || fail "the JSON says nothing of the name: $(cat "$work/j")"
# The environment may name it; JSON on standard output stays alone there.
MODEL_NAME=figures run 0 pipeline $small --output-dir "$work/a2" --export-dir "$work/digits/" --json -
[ "$(head -c 1 "$work/out")" = "{" ] || fail "the output does not begin with {"
mentions err "Served as figures, version 2: "
run 0 pipeline $small --output-dir "$work/a3" --export-dir "$work/digits" --no-check-served
grep -q "Served" "$work/out" && fail "it was asked in spite of --no-check-served"
# A signature that takes encoded pictures is not what examples are: the other one is asked.
run 0 pipeline mnist_custom --data synthetic --batch-size 4 --threads 1 --steps 1 --quiet \
    --output-dir "$work/a4" --export-dir "$work/bytes" --image-bytes-as-serving-input
mentions out "Served as bytes, version 1: 16 "

# --- rows of a click log go as texts
run 0 data make criteo "$work/clicks" --examples 300
run 0 pipeline wide_deep --data "criteo:$work/clicks" --embedding-rows 50 --embedding-dim 4 \
    --hidden 16,8 --batch-size 64 --threads 1 --steps 3 --quiet --output-dir "$work/w" \
    --export-dir "$work/clicker"
mentions out "Served as clicker, version 1: 16 evaluation examples over gRPC"
run 0 pipeline wide_deep --data synthetic --embedding-rows 50 --embedding-dim 4 --hidden 16,8 \
    --batch-size 64 --threads 1 --steps 1 --quiet --output-dir "$work/w2" \
    --export-dir "$work/clicker"
mentions out "Served as clicker, version 2: 16 drawn examples over gRPC"

# --- a missed gate deploys nothing
run 1 pipeline $small --target-accuracy 1 --retry-limit 0 --output-dir "$work/b" \
    --export-dir "$work/missed" --serve --serve-host 127.0.0.1 --serve-port auto \
    --serve-rest-port auto
[ -z "$(ls "$work/missed")" ] || fail "exported in spite of the gate: $(ls "$work/missed")"
grep -q "Served\|gRPC" "$work/out" && fail "served in spite of the gate: $(cat "$work/out")"

# --- a model that no server takes is withdrawn
unready=$(dirname "$LOCKSTEP")/tests/cli/unready.so
[ -f "$unready" ] || fail "unready.so is missing: make check builds it"
run 1 pipeline "$unready" --steps 2 --threads 1 --quiet --output-dir "$work/c" \
    --export-dir "$work/unready"
mentions err "the served model failed its check and is now $work/unready/withdrawn-1-"
mentions err "for an input of zeros it answers with"
[ ! -e "$work/unready/1" ] || fail "version 1 is still there"

# --- and goes on serving, until it is told to end
"$LOCKSTEP" pipeline $small --output-dir "$work/d" --export-dir "$work/served" --serve \
    --serve-host 127.0.0.1 --serve-port auto --serve-rest-port auto --serve-name numbers \
    >"$work/log" 2>&1 </dev/null &
server=$!
tries=0
until grep -q '^Ready' "$work/log" || [ $tries -ge 1200 ]; do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.05
    tries=$((tries + 1))
done
grep -q "Served as numbers, version 1: 16" "$work/log" || fail "not checked: $(cat "$work/log")"
grpc=$(sed -n 's/.*gRPC ModelServer at \([^ ]*\) .*/\1/p' "$work/log")
rest=$(sed -n 's/.*REST API at:\([^ ]*\) .*/\1/p' "$work/log")
run 0 client --server "$grpc" --model numbers --data digits --num-iteration 3 --warm-up-iteration 1
code=$(curl -s -o "$work/out" -w '%{http_code}' "http://$rest/v1/models/numbers")
[ "$code" = 200 ] || fail "REST answers $code: $(cat "$work/out")"
mentions out AVAILABLE
kill -TERM "$server"
wait "$server"
status=$?
server=
[ $status -eq 0 ] || fail "it ended with $status: $(tail -3 "$work/log")"
grep -q draining "$work/log" || fail "it did not drain: $(tail -3 "$work/log")"

# --- wrong words
run 2 pipeline $small --output-dir "$work/x" --serve
mentions err "--serve needs an export: give --export-dir=DIR"
run 2 pipeline $small --output-dir "$work/x" --export-dir "$work/y" --serve-port 1234
mentions err "--serve-port would change nothing without --serve"
run 2 pipeline $small --output-dir "$work/x" --export-dir "$work/y" --serve --serve-port 0
mentions err "--no-check-served"
[ ! -e "$work/y" ] || fail "something was done in spite of wrong words"
finish
