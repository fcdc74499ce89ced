#!/bin/sh
# A rank that dies, hangs, reads damaged data or is asked to stop: the job ends soon, says who and
# why, and what was saved leads to the bits of a run that nothing happened to.
. "$(dirname "$0")/lib.sh"
train="train mnist_custom --examples 480 --global-batch-size 48 --shards 6 --threads 1 --steps 150 \
    --eval-data none --checkpoint-every 5 --keep 2"
flags= # of mpirun
pids=
trap 'for pid in $pids; do kill -KILL $pid 2>/dev/null; done; rm -rf "$work"' EXIT

# The program, after it has told its process number.
cat >"$work/rank" <<'END'
#!/bin/sh
echo $$ >"$PID_FILES.$OMPI_COMM_WORLD_RANK.new"
mv "$PID_FILES.$OMPI_COMM_WORLD_RANK.new" "$PID_FILES.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
chmod +x "$work/rank"

# await SECONDS COMMAND...: until it succeeds.
await() {
    tries=$(($1 * 10))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { fail "never: $*: $(tail -n 3 "$work/err")"; return 1; }
        sleep 0.1
    done
}
has_step() { [ "$(newest "$1" 2>/dev/null || echo 0)" -ge "$2" ] 2>/dev/null; }
says_soon() { grep -qF -- "$1" "$work/err"; }

# start N WORDS...: in the background; mpirun is $job, rank R's process is `pid R`.
start() {
    count=$1
    shift
    rm -f "$work"/pid.*
    PID_FILES=$work/pid mpirun --oversubscribe -np "$count" --tag-output $flags \
        "$work/rank" "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    pids=$job
    for rank in $(seq 0 $((count - 1))); do
        await 20 test -f "$work/pid.$rank" && pids="$pids $(pid $rank)"
    done
}
pid() { cat "$work/pid.$1"; }

# ends SECONDS: the job, by itself or by what was done to it; $status is its exit status.
ends() {
    since=$(date +%s)
    (sleep "$1" && kill -KILL $pids) 2>/dev/null &
    guard=$!
    wait $job
    status=$?
    kill $guard 2>/dev/null && wait $guard 2>/dev/null
    took=$(($(date +%s) - since))
    [ $took -le "$1" ] || fail "it ended after $took s: $(tail -n 5 "$work/err")"
    pids=
}
fails() { [ $status -ne 0 ] || fail "$1: exit status 0"; }

run 0 $train --checkpoint-dir "$work/calm" -q

# ---- killed ----
start 3 $train --checkpoint-dir "$work/killed"
await 30 has_step "$work/killed" 10
kill -KILL "$(pid 2)"
ends 10
fails "a rank was killed"
grep -q "process rank 2 .* exited on signal 9" "$work/err" || fail "who was killed? $(tail -n 8 "$work/err")"
has_step "$work/killed" 150 && fail "the job had ended before the rank was killed"
run 0 checkpoint verify "$work/killed"
ranks 0 2 $train --checkpoint-dir "$work/killed" -q
alike "$work/calm" "$work/killed"

# ---- hanging ----
start 3 $train --steps 100000 --checkpoint-dir "$work/hung" --stall-warning 1 --stall-timeout 4
await 30 has_step "$work/hung" 5
sleep 1.5 # ranks tell rank 0 twice a second what they do
kill -STOP "$(pid 1)"
ends 10
fails "a rank hung"
host=$(uname -n)
grep -qE "warning: step [0-9]+, [a-z]+( [0-9]+)?: waiting [1-3] s for rank 1 on $host; \
[1-3] s ago it was at step [0-9]+, [a-z ]+ for [0-9]+ s" "$work/err" ||
    fail "no warning names rank 1: $(grep -F 'lockstep:' "$work/err")"
mentions err "nothing moved for 4 s (--stall-timeout); the job is ended"
grep -E "waiting .* for rank [02]" "$work/err" && fail "a rank was named that does not hang"
run 0 checkpoint verify "$work/hung"

# ---- asked to stop ----
# all_stopped N: ranks say after which step, and it is the same.
all_stopped() {
    lines=$(sed -n 's/^\[1,[0-9]*\]<stderr>:.*Z stopped after \([0-9]*\) steps.*/\1/p' "$work/err")
    [ "$(echo "$lines" | wc -w)" -eq "$1" ] && [ "$(echo "$lines" | uniq | wc -l)" -eq 1 ] ||
        fail "the ranks stopped after: $lines; $(tail -n 5 "$work/err")"
    stopped=${lines%%[!0-9]*}
}
# mpirun sends SIGCONT, SIGTERM after so many seconds, and kills after as many more: by default 1. Ranks
# end at the first.
for whom in 1 job; do
    [ $whom = job ] && flags="-mca odls_base_sigkill_timeout 6"
    start 3 $train --steps 100000 --checkpoint-dir "$work/stopped-$whom" -v
    await 30 says_soon "Z step 7/"
    asked=$(date +%s)
    [ $whom = job ] && kill -TERM $job || kill -TERM "$(pid $whom)"
    ends 20
    fails "SIGTERM to $whom"
    heard=$(sed -n 's/^\[1,0\]<stderr>:\(.*Z\) stopped after .*/\1/p' "$work/err")
    [ $(($(date -d "$heard" +%s) - asked)) -lt 6 ] || fail "SIGTERM to $whom: the ranks stopped at $heard"
    # mpirun has a status of its own when it is the one that was asked.
    [ $whom = job ] || [ $status -eq 143 ] || fail "SIGTERM to rank $whom: exit status $status"
    all_stopped 3
    run 0 checkpoint verify "$work/stopped-$whom"
    [ "$(newest "$work/stopped-$whom")" = "$stopped" ] ||
        fail "stopped after $stopped, saved after $(newest "$work/stopped-$whom")"
done
flags=

# In the middle of the first step, which would take minutes: the rank that is told gives its part up,
# and the other, too.
start 2 train wide_deep --data synthetic --examples 1200000 --embedding-rows 60 --batch-size 64 \
    --accumulate 4000 --steps 2 --threads 1 --eval-data none
await 30 says_soon "training from step 0"
kill -TERM "$(pid 1)"
ends 10
[ $status -eq 143 ] || fail "SIGTERM in a long step: exit status $status: $(tail -n 5 "$work/err")"
mentions err "stopped after 0 steps"

# In the middle of the last evaluation, whose end no rank waits for; the step before it is saved.
judged="train mnist_custom --data synthetic --examples 3000000 --steps 1 --batch-size 16 \
    --threads 1 --checkpoint-dir $work/judged"
start 2 $judged --eval-data synthetic
await 30 says_soon "Z step 1/1"
sleep 0.2
kill -TERM "$(pid 1)"
ends 10
[ $status -eq 143 ] || fail "SIGTERM in an evaluation: exit status $status: $(tail -n 5 "$work/err")"
# Made again from fewer examples, which changes neither the training nor the step it stands at.
ranks 0 2 $judged --examples 300 --eval-data synthetic
mentions err "training from step 1 to 1"
mentions err "evaluated after step 1"

# ---- damaged data ----
run 0 data make imagenet "$work/good" -n 24 --eval-examples 2 --image-size 64
cp -r "$work/good" "$work/bad"
shard=$work/bad/train-00000-of-00001
printf damaged | dd of="$shard" bs=1 seek=$(($(wc -c <"$shard") * 3 / 4)) conv=notrunc 2>/dev/null
pictures="train resnet50 --image-size 32 --classes 10 --batch-size 2 --threads 1 --data-threads 1 \
    --eval-data none --steps 24 --checkpoint-dir $work/damaged"
mixed 1 "$pictures --data imagenet:$work/good" "$pictures --data imagenet:$work/bad"
step=$(sed -n "s/^lockstep: step \([0-9]*\): rank 1: example [0-9]*: .*is damaged.*/\1/p" "$work/err")
[ -n "$step" ] || fail "who had damaged data? $(cat "$work/err")"
[ "$(newest "$work/damaged")" = $((step - 1)) ] ||
    fail "step $step failed, but step '$(newest "$work/damaged")' is what was saved"
run 0 checkpoint verify "$work/damaged"
# What fails on rank 0 alone, between two trainings, does not leave the others waiting.
mkdir -p "$work/jam/pipeline.json"
ranks 1 2 pipeline mnist_custom --examples 96 --batch-size 16 --threads 1 --steps 2 \
    --checkpoint-dir "$work/jam" -q
mentions err "pipeline.json"
finish
