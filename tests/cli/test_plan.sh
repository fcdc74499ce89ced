#!/bin/sh
# From a measured run to a prediction; exact words for what cannot be predicted from.
. "$(dirname "$0")/lib.sh"

run 2 train mnist_custom --data synthetic --steps 4 --timeline
says err "lockstep train: --timeline is a part of the results: give --json=FILE"

run 0 train mnist_custom --data synthetic --steps 12 --timeline --json "$work/run.json"
grep -q '"gradients"' "$work/run.json" || fail "no gradients in the timeline"
run 0 train mnist_custom --data synthetic --steps 2 --json "$work/plain.json"
grep -q '"timeline"' "$work/plain.json" && fail "a timeline that nobody asked for"

run 0 plan "$work/run.json" --ranks 1,2,8..64 --ranks-per-host 4 --bandwidth 1Gbit
mentions out "mnist_custom"
mentions out "efficiency"
mentions out "Extrapolation: 1 rank was measured"
[ "$(grep -c ' %  ' "$work/out")" -eq 6 ] || fail "not six rows: $(cat "$work/out")"
grep -qE '^ +1 +1 .* 100.0 %' "$work/out" || fail "one rank is not efficient: $(cat "$work/out")"

run 0 plan "$work/run.json" --ranks 2,16 --price 2 --epochs 3 --examples 60000 --wire float16 --json -
mentions out '"predictions"'
mentions out '"extrapolation": true'
mentions out '"cost": '
cp "$work/out" "$work/first"
run 0 plan "$work/run.json" --ranks 2,16 --price 2 --epochs 3 --examples 60000 --wire float16 --json -
cmp -s "$work/first" "$work/out" || fail "two predictions of the same differ"

run 2 plan
mentions err "RUN"
run 2 plan "$work/run.json" --ranks 0
mentions err "--ranks=0: expected numbers from 1 to 65536"
run 2 plan "$work/run.json" --ranks 1,,2
mentions err "--ranks=1,,2"
run 2 plan "$work/run.json" --bandwidth 10
says err "lockstep plan: --bandwidth=10: is not a rate: write 200Mbit, 10Gbit or 100Gbit"
run 2 plan "$work/run.json" --bandwidth fast
run 2 plan "$work/run.json" --talk-limit fast
says err "lockstep plan: --talk-limit=fast: is not a rate: write 200Mbit, 10Gbit or 100Gbit"
run 0 plan "$work/run.json" --ranks 2 --talk-limit 700Mbit
run 2 plan "$work/run.json" --bucket some
run 1 plan "$work/plain.json"
mentions err "has no timeline: measure with \`lockstep train MODEL --timeline --json FILE\`"
run 1 plan "$work/none.json"
mentions err "none.json"
echo '{"timeline": {"format": 1, "ranks": 1, "batch": 0}}' >"$work/bad.json"
run 1 plan "$work/bad.json"
mentions err '"batch" of the timeline is not a number of at least 1'
finish
