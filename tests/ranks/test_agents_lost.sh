#!/bin/sh
# Ranks, members and the leader are killed or stopped in the middle: the job is done all the same, and
# gives the bits of a run that nothing happened to.
. "$(dirname "$0")/agents.sh"
job="$small --steps 120 --checkpoint-every 10 --peer-timeout 3"
run 0 $job --checkpoint-dir "$work/calm" -q

# begin NAME [WORDS...]: two members, into their own directory, up to step 20.
begin() {
    name=$1
    shift
    forget
    group 2
    words="$job --checkpoint-dir $work/$name $*"
    member 0 $words
    member 1 $words
    await 40 has_rank 1 && await 40 at_step 20
    first=$(rank 0) second=$(rank 1)
}
# done_alike: both end well, after more than one generation, with the bits of the calm run.
done_alike() {
    ends 0 0 90
    ends 1 0 10
    grep -q "generation [2-9]: " "$work/err.0" || fail "$name: the group was not formed anew"
    alike "$work/calm" "$work/$name"
}

# ---- a rank is killed ----
begin rank
kill -KILL "$second"
done_alike
tells 0 "worker 1 (127.0.0.1:$(port 1)) is lost after step"

# ---- rank 0 is ----
begin zero
kill -KILL "$first"
done_alike

# ---- a rank is stopped ----
begin stopped
kill -STOP "$second"
done_alike
tells 0 "its rank said nothing for"
lives "$second" && fail "the stopped rank lives"

# ---- a member dies with all it has, and comes back ----
begin member
kill -KILL "$(pid 1)"
await 10 told 0 "worker 1 (127.0.0.1:$(port 1)) is lost"
sleep 0.5
lives "$second" && fail "a rank outlived its agent"
member 1 $words
done_alike

# ---- the leader does, and comes back ----
begin leader
kill -KILL "$(pid 0)"
await 10 told 1 "worker 0 (127.0.0.1:$(port 0)) is lost"
sleep 0.5
lives "$first" && fail "rank 0 outlived its agent"
lives "$second" && fail "rank 1 goes on without a leader"
member 0 $words
done_alike

# ---- an agent is stopped: nobody waits for it longer than --peer-timeout ----
begin frozen
kill -STOP "$(pid 1)"
await 20 told 0 "it said nothing for 3 s"
kill -CONT "$(pid 1)"
done_alike

# ---- fewer go on meanwhile, and take it back ----
begin fewer --steps 400 --min-ranks 1
kill -KILL "$(pid 1)"
await 20 told 0 "generation 2: 1 of 2 members train"
await 40 at_step 60
member 1 $words
await 20 told 0 "2 of 2 members are here: the group is formed anew"
await 40 told 0 "generation 3: 2 of 2 members train"
ends 0 0 90
ends 1 0 10
run 0 $job --steps 400 --checkpoint-dir "$work/calm-long" -q
alike "$work/calm-long" "$work/fewer"

# ---- the same step fails three times in a row: the job ends and says so ----
forget
group 2
for index in 0 1; do
    member $index $small --global-batch-size 24000 --examples 24000 --steps 100 \
        --checkpoint-dir "$work/same"
done
for time in 1 2 3; do
    await 40 has_rank 1
    second=$(rank 1)
    kill -KILL "$second"
    [ $time = 3 ] || await 20 sh -c "! kill -0 $second" 2>/dev/null
done
ends 0 1 20
ends 1 1 20
tells 0 "step 1 failed 3 times in a row, last on worker 1"
tells 1 "the leader ended the job: step 1 failed 3 times in a row"

# ---- a member is asked to leave: what was done is saved, and goes on when it is back ----
begin asked
kill -TERM "$(pid 1)"
ends 1 143 15
member 1 $words
done_alike
finish
