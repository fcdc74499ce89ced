#!/bin/sh
# pipeline from outside: attempts until the target is met, what is left behind, going on after a
# signal.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS RETRY_LIMIT

# field FILE NAME: the value of a number, word or null in JSON written one field per line.
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }

# is FILE NAME VALUE
is() {
    value=$(field "$1" "$2")
    [ "$value" = "$3" ] || fail "$2 in the JSON is '$value', expected '$3'"
}

# attempts FILE COUNT: so many in the JSON.
attempts() {
    count=$(grep -c '^      "attempt": ' "$1")
    [ "$count" -eq "$2" ] || fail "$count attempts in the JSON, expected $2"
}

small="mnist_custom --examples 32 --batch-size 16 --threads 1"

# Met at the first attempt.
run 0 pipeline $small --steps 2 --target-accuracy 0.001 --output-dir "$work/first" --json "$work/j"
mentions out "Attempt 1 of at most 11: steps 1 to 2"
mentions out "Target Accuracy: 0.001"
mentions out " met the target accuracy of 0.001"
mentions out "Nothing was exported; --export-dir=DIR names a place for it"
grep -q '^      1         2         2    0\.[0-9]*  *[0-9.]*  met$' "$work/out" ||
    fail "no line of the first attempt: $(cat "$work/out")"
[ -f "$work/first/weights.safetensors" ] || fail "no weights where the gate was passed"
[ -d "$work/first/checkpoints/step-000000000002" ] || fail "no checkpoint below --output-dir"
is "$work/j" verdict met
is "$work/j" target_met true
is "$work/j" steps 2
attempts "$work/j" 1

# Three attempts are one run to those who watch: one page, one file of events.
run 1 pipeline $small --steps 2 --target-accuracy 0.999 --retry-limit 2 --dashboard 0 \
    --tensorboard "$work/events" --output-dir "$work/watched"
mentions out "Attempt 3 of at most 3"
[ "$(grep -c "dashboard: " "$work/err")" -eq 1 ] || fail "not one dashboard: $(cat "$work/err")"
[ "$(find "$work/events" -name '*tfevents*' | wc -l)" -eq 1 ] ||
    fail "not one file of events: $(ls -R "$work/events")"

# Run again, a network that has passed is evaluated, not trained; with a higher target it is.
run 0 pipeline $small --steps 2 --target-accuracy 0.001 --output-dir "$work/first" --json -
[ "$(head -c 1 "$work/out")" = "{" ] || fail "the output does not begin with {"
mentions err "Attempt 1 of at most 11: all 2 steps are done"
is "$work/out" steps 0
is "$work/out" last_step 2
is "$work/out" earlier_attempts 0
attempts "$work/out" 1
run 1 pipeline $small --steps 2 --target-accuracy 1 --output-dir "$work/first" --retry-limit 1 \
    --json -
is "$work/out" steps 2
is "$work/out" verdict missed
attempts "$work/out" 2

# A target that needs a retry: the accuracy of four steps is one that two do not reach.
run 0 train $small --steps 2 --quiet --json -
two=$(field "$work/out" accuracy)
wanted=$(echo "$two" | awk '{ print $1 + 0.01 }')
run 0 pipeline $small --steps 2 --target-accuracy "$wanted" --quiet --retry-limit 60 \
    --checkpoint-dir "$work/retried" --json "$work/j"
is "$work/j" verdict met
tries=$(grep -c '^      "attempt": ' "$work/j")
[ "$tries" -ge 2 ] || fail "$tries attempts were enough"
is "$work/j" steps $((tries * 2))
[ "$(grep -c "did not meet the target" "$work/out")" -eq $((tries - 1)) ] ||
    fail "not every attempt but the last says that it missed"

# Attempts are what train gives that goes on from its checkpoint, bit by bit.
for i in 1 2; do
    run 0 train $small --steps 3 --checkpoint-dir "$work/by-hand" --quiet
done
run 1 pipeline $small --steps 3 --target-accuracy 1 --retry-limit 1 --checkpoint-dir "$work/two" \
    --quiet
run 0 checkpoint diff "$work/by-hand" "$work/two"

# Never met: fails after the retries; nothing leaves the checkpoints.
RETRY_LIMIT=2 TARGET_ACCURACY=1 STEPS=1 OUTPUT_DIR="$work/never" run 1 pipeline $small \
    --json "$work/j"
mentions out "Attempt 3 of at most 3: steps 3 to 3"
mentions out "The target was not met; checkpoints are in $work/never/checkpoints"
is "$work/j" verdict missed
is "$work/j" target_met false
is "$work/j" weights ""
attempts "$work/j" 3
[ ! -e "$work/never/weights.safetensors" ] || fail "weights that missed the target were written"
# Asked again, it gets as many attempts again, beyond those steps.
run 1 pipeline $small --steps 1 --target-accuracy 1 --retry-limit 2 --output-dir "$work/never" \
    --json - --quiet
grep -q "^Attempt" "$work/err" && fail "--quiet with --json - tells of attempts"
is "$work/out" first_step 3
is "$work/out" last_step 6
attempts "$work/out" 3
# A higher limit goes on counting.
run 1 pipeline $small --steps 1 --target-accuracy 1 --retry-limit 3 --output-dir "$work/never" \
    --json - --quiet
is "$work/out" steps 1
is "$work/out" earlier_attempts 3
attempts "$work/out" 4

# Killed when all but the verdict was written: it is judged, not trained again.
run 1 pipeline $small --steps 2 --target-accuracy 1 --retry-limit 1 --checkpoint-dir "$work/killed" \
    --quiet
line=$(grep -n '"missed"' "$work/killed/pipeline.json" | tail -n 1 | cut -d: -f1)
sed "${line}s/missed/running/" "$work/killed/pipeline.json" >"$work/edited"
cp "$work/edited" "$work/killed/pipeline.json"
run 1 pipeline $small --steps 2 --target-accuracy 1 --retry-limit 1 --checkpoint-dir "$work/killed" \
    --json - --quiet
is "$work/out" steps 0
is "$work/out" earlier_attempts 1
attempts "$work/out" 2
# A journal that is damaged is said so, and the training goes on.
echo nonsense >"$work/killed/pipeline.json"
run 1 pipeline $small --steps 1 --target-accuracy 1 --retry-limit 0 --checkpoint-dir "$work/killed"
mentions err "attempts are counted anew"
mentions out "Attempt 1 of at most 1: steps 5 to 5"

# No target, no gate: one attempt.
TARGET_ACCURACY= run 0 pipeline $small --steps 1 --checkpoint-dir "$work/ungated" --json "$work/j"
mentions out "Attempt 1 of at most 1: "
is "$work/j" verdict done
is "$work/j" target_accuracy null
attempts "$work/j" 1
# --fresh starts over.
run 0 pipeline $small --steps 1 --checkpoint-dir "$work/ungated" --fresh --json -
is "$work/out" first_step 0
is "$work/out" steps 1

# A signal saves and says how to go on; the same command finishes that attempt first, and the
# result is that of a run that was never stopped.
cut="$small --steps 200 --target-accuracy 1 --retry-limit 0"
run 1 pipeline $cut --checkpoint-dir "$work/whole" --quiet
for signal in INT:130 TERM:143; do
    : >"$work/err"
    directory=$work/${signal%:*}
    "$LOCKSTEP" pipeline $cut --verbose --checkpoint-dir "$directory" >"$work/out" \
        2>"$work/err" &
    process=$!
    tries=0
    until grep -q "step 2/" "$work/err" || [ $tries -ge 1200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -"${signal%:*}" $process
    wait $process
    status=$?
    [ "$status" -eq "${signal#*:}" ] || fail "SIG${signal%:*}: exit status $status"
    mentions out "Cut short; the same command goes on from $directory"
    grep -q "  cut short$" "$work/out" || fail "no verdict: $(tail -n 3 "$work/out")"
    run 1 pipeline $cut --checkpoint-dir "$directory" --json - --quiet
    is "$work/out" last_step 200
    [ "$(field "$work/out" first_step)" -gt 0 ] || fail "SIG${signal%:*}: it began anew"
    attempts "$work/out" 1
    grep -q '"steps": 200,' "$work/out" || fail "the attempt does not have all its steps"
    run 0 checkpoint diff "$work/whole" "$directory"
done

# Wrong words.
run 2 pipeline $small --steps 1
mentions err "give --checkpoint-dir=DIR, or --output-dir=DIR"
run 2 pipeline $small --steps 1 --retry-limit 1000 --checkpoint-dir "$work/x"
run 2 pipeline $small --data synthetic --target-accuracy 0.5 --checkpoint-dir "$work/x"
mentions err "--target-accuracy needs an evaluation"
run 1 pipeline $small --steps 9 --lr 1e20 --schedule constant --warmup-epochs 0 --quiet \
    --output-dir "$work/nan"
mentions err "attempt 1: step 2: "
finish
