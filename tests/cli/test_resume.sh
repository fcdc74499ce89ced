#!/bin/sh
# Checkpoints from outside: stopping and going on gives the bits of one run, whatever stopped it; the
# rules of goals, --fresh and --keep; and what is refused, with earlier checkpoints intact.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS
tiny=$(dirname "$LOCKSTEP")/tests/crash/tiny.so
[ -f "$tiny" ] || { echo "$tiny is missing: make crash builds it"; exit 1; }

# field FILE NAME: the value of a number, word or null in JSON written one field per line.
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1"; }
is() {
    value=$(field "$1" "$2")
    [ "$value" = "$3" ] || fail "$2 in the JSON is '$value', expected '$3'"
}
# newest DIR: the last step that has a checkpoint there.
newest() { ls "$1" | sed -n 's/^step-0*\([0-9][0-9]*\)$/\1/p' | sort -n | tail -n 1; }

# alike A B: two checkpoints, or the newest of two directories, to the last bit.
alike() {
    "$LOCKSTEP" checkpoint diff "$1" "$2" > "$work/diff" 2>&1 ||
        fail "$1 and $2 are not alike: $(head -n 5 "$work/diff")"
}

# exact NAME "STOPS" OPTIONS...: so many steps at a time, against all of them in one go.
exact() {
    name=$1 stops=$2 sum=0
    shift 2
    for steps in $stops; do
        run 0 train "$@" --steps "$steps" --checkpoint-dir "$work/$name-many" \
            --checkpoint-every 0 --keep 1 -q
        sum=$((sum + steps))
    done
    run 0 train "$@" --steps $sum --checkpoint-dir "$work/$name-one" --checkpoint-every 0 -q
    alike "$work/$name-one" "$work/$name-many"
    [ "$(newest "$work/$name-many")" = $sum ] || fail "$name: step $(newest "$work/$name-many")"
}

# ---- the same bits ----
# 160 examples in batches of 16: an epoch is 10 steps, each in another order.
small="--examples 160 --threads 1 --eval-data none"
for rule in sgd momentum adam adagrad rmsprop ftrl lars; do
    exact "tiny-$rule" "1 12 9" "$tiny" $small --optimizer $rule --lr 0.01
done
exact wide_deep "2 1 5" wide_deep --data synthetic --embedding-rows 50 --embedding-dim 4 \
    --hidden 16,8 --batch-size 64 --examples 256 --threads 1
exact mnist_custom "3 9" mnist_custom --examples 640 --threads 1 --eval-data none \
    --schedule constant --warmup-epochs 0

# ---- stopped by a signal ----
# started DIR OPTIONS...: in the background, until it has said that it trains; its process is $pid.
started() {
    directory=$1
    shift
    "$LOCKSTEP" train "$@" --checkpoint-dir "$directory" > "$work/out" 2> "$work/err" &
    pid=$!
    for try in 1 2 3 4 5 6 7 8 9 10; do
        for again in 1 2 3 4 5 6 7 8 9 10; do
            grep -q "Z step " "$work/err" && return
            kill -0 $pid 2> /dev/null || return
            sleep 0.05
        done
    done
}
# stopped SIGNAL STATUS...: ends it by a signal, and expects one of the statuses soon.
stopped() {
    signal=$1 since=$(date +%s)
    shift
    kill -"$signal" $pid 2> /dev/null
    wait $pid
    got=$?
    case " $* " in *" $got "*) ;; *) fail "SIG$signal: exit status $got, expected one of $*: \
$(tail -n 3 "$work/err")" ;; esac
    took=$(($(date +%s) - since))
    [ $took -le 10 ] || fail "SIG$signal: it ended after $took s"
}
milliseconds() { printf '0.%03d' $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }

# The goal decides about the rate, so it must be kept over all stops.
long="mnist_custom --examples 640 --threads 1 --steps 40 --schedule cosine --eval-data none"
run 0 train $long --checkpoint-dir "$work/calm" --checkpoint-every 0 -q
stops=0
for signal in TERM INT TERM INT TERM INT; do
    started "$work/signals" $long
    sleep "$(milliseconds 250)"
    case $signal in TERM) stopped TERM 143 0 ;; INT) stopped INT 130 0 ;; esac
    [ $got -eq 0 ] && break
    stops=$((stops + 1))
    run 0 checkpoint verify "$work/signals"
done
if [ $got -ne 0 ]; then
    run 0 train mnist_custom --examples 640 --threads 1 --steps 7 --schedule cosine \
        --eval-data none --checkpoint-dir "$work/signals"
    mentions err "the run that was cut short is finished first, to its goal of 40 steps"
fi
alike "$work/calm" "$work/signals"
[ $stops -gt 0 ] || fail "no signal came before the end"

# In the middle of a large batch; what was finished before is kept.
started "$work/large" mnist_custom --examples 2048 --batch-size 1024 --threads 1 --eval-data none \
    --steps 50
sleep "$(milliseconds 500)"
stopped TERM 143
grep -q "Z step " "$work/err" && run 0 checkpoint verify "$work/large"

# In the middle of an evaluation, which is then made again.
evaluated="mnist_custom --examples 2000 --threads 1 --steps 2 --eval-every 1 --schedule constant"
started "$work/during" $evaluated
stopped TERM 143 0
run 0 train $evaluated --checkpoint-dir "$work/during" -q
run 0 train $evaluated --checkpoint-dir "$work/undisturbed" -q
[ $got -eq 0 ] || alike "$work/during" "$work/undisturbed"

# ---- goals, --fresh, --keep, --stop-at-accuracy, --checkpoint-every ----
base="$tiny $small --optimizer sgd"
run 0 train $base --steps 4 --checkpoint-dir "$work/goal" --json "$work/a.json"
is "$work/a.json" first_step 0
is "$work/a.json" last_step 4
is "$work/a.json" checkpoint "$work/goal/step-000000000004"
run 0 train $base --steps 3 --checkpoint-dir "$work/goal" --json "$work/a.json"
is "$work/a.json" first_step 4
is "$work/a.json" last_step 7
is "$work/a.json" goal 7
# A command that is wrong moves nothing.
run 2 train $base --steps 2 --checkpoint-dir "$work/goal" --fresh --eval-data nosuch:x
[ "$(newest "$work/goal")" = 7 ] || fail "--fresh moved checkpoints though the command was wrong"
run 0 train $base --steps 2 --checkpoint-dir "$work/goal" --fresh --json "$work/a.json"
mentions err "earlier checkpoints are now in $work/goal/old-"
is "$work/a.json" first_step 0
is "$work/a.json" last_step 2
run 0 checkpoint verify "$work/goal"/old-*
[ "$(newest "$work/goal"/old-*)" = 7 ] || fail "--fresh lost the old checkpoints"

run 0 train "$tiny" --examples 160 --threads 1 --steps 30 --eval-every 2 --stop-at-accuracy 0.01 \
    --checkpoint-dir "$work/early" --json "$work/a.json"
is "$work/a.json" last_step 2
run 0 train "$tiny" --examples 160 --threads 1 --steps 3 --checkpoint-dir "$work/early" \
    --json "$work/a.json"
is "$work/a.json" first_step 2
is "$work/a.json" last_step 5

# Saved at each step or as soon as the last is written; two stay, and the best.
run 0 train "$tiny" --examples 160 --threads 1 --steps 60 --eval-every 5 --checkpoint-every 1 \
    --keep 2 --checkpoint-dir "$work/keep" -q
kept=$(ls -d "$work"/keep/step-* | wc -l)
[ "$kept" -ge 2 ] && [ "$kept" -le 3 ] || fail "--keep 2: there are $kept"
run 0 checkpoint list "$work/keep"
best=$(sed -n 's/^ *\([0-9]*\) .* best$/\1/p' "$work/out")
[ "$(readlink "$work/keep/best")" = "step-$(printf '%012d' "$best")" ] ||
    fail "best is $best, the link leads to $(readlink "$work/keep/best")"
[ "$(sed -n '1s/.*"\(.*\)".*/\1/p' "$work/keep/checkpoint")" = step-000000000060/model ] ||
    fail "'checkpoint' says $(head -n 1 "$work/keep/checkpoint")"

run 0 train $base --steps 1500 --checkpoint-every 0.05s --checkpoint-dir "$work/time"
[ "$(grep -c 'Z saved ' "$work/err")" -ge 2 ] || fail "--checkpoint-every 0.05s: $(cat "$work/err")"
run 2 train $base --checkpoint-every 5
mentions err "give --checkpoint-dir=DIR, too"
run 2 train $base --checkpoint-dir s3://bucket/prefix
mentions err "checkpoints need a file system"

# ---- numbers that are not finite ----
run 0 train $base --lr 0.01 --steps 3 --checkpoint-dir "$work/nan" -q
run 1 train $base --lr 1e38 --steps 20 --checkpoint-every 1 --checkpoint-dir "$work/nan"
mentions err "not finite"
run 0 checkpoint verify "$work/nan"
[ "$(newest "$work/nan")" -lt 23 ] || fail "a run that broke off reached its goal"
[ -d "$work/nan/step-000000000003" ] || fail "a run that broke off lost what was before it"

# ---- what is refused ----
run 2 train mnist_custom --examples 160 --steps 1 --checkpoint-dir "$work/goal"
mentions err "is a checkpoint of tiny, not of mnist_custom"
run 1 train $base --classes 11 --steps 1 --checkpoint-dir "$work/goal"
mentions err "has shape ["
for pair in sgd-adam adam-sgd momentum-lars; do
    run 2 train "$tiny" $small --optimizer ${pair#*-} --lr 0.01 --steps 1 \
        --checkpoint-dir "$work/tiny-${pair%-*}-one"
    mentions err "--optimizer is ${pair#*-}; $work/tiny-${pair%-*}-one/step-000000000022 was made \
with ${pair%-*}"
done
run 2 train wide_deep --data synthetic --embedding-rows 50 --embedding-dim 4 --hidden 16,8 \
    --batch-size 64 --examples 256 --threads 1 --group wide/=sgd --steps 1 \
    --checkpoint-dir "$work/wide_deep-one"
mentions err "--group is wide/=sgd; "
run 0 train $base --lr 0.5 --steps 1 --checkpoint-dir "$work/goal"
mentions err "--lr is 0.5; it was 0.0"
: > "$work/file"
run 1 train $base --steps 1 --checkpoint-dir "$work/file"
mentions err "is not a directory"
run 1 train $base --steps 1 --checkpoint-dir "$work/file/below"
run 0 checkpoint verify "$work/goal"

# Two runs at once.
started "$work/two" "$tiny" $small --steps 10000000
run 2 train "$tiny" $small --steps 1 --checkpoint-dir "$work/two"
mentions err "another run writes its checkpoints there: process $pid on "
stopped TERM 143
run 0 checkpoint verify "$work/two"

# A file that may not grow, as on a full disk; test_resume_disk.sh has real ones.
(ulimit -f 8 && exec "$LOCKSTEP" train $base --steps 1 --checkpoint-dir "$work/goal") \
    > "$work/out" 2> "$work/err"
status=$?
[ $status -eq 1 ] || fail "past ulimit -f: exit status $status"
mentions err "File too large"
run 0 checkpoint verify "$work/goal"

# What the directory holds is not what its names say.
mv "$work/two/step-$(printf '%012d' "$(newest "$work/two")")" "$work/two/step-000000000001"
run 1 checkpoint verify "$work/two"
mentions out "step-000000000001"
mkdir -p "$work/pipe/step-000000000001"
mkfifo "$work/pipe/step-000000000001/manifest.json"
run 1 checkpoint verify "$work/pipe"
mentions out "manifest.json"
finish
