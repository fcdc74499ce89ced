#!/bin/sh
# Members that are not heard, leave or come back; and a step that cannot be done.
. "$(dirname "$0")/agents.sh"
job="$slow --steps 80 --checkpoint-every 10 --peer-timeout 3"
run 0 $job --checkpoint-dir "$work/calm" -q

# ---- a member stands still: nobody waits for it longer than --peer-timeout ----
begin frozen
kill -STOP "$second" "$(pid 1)"
await 20 told 0 "it said nothing for 3 s"
kill -CONT "$(pid 1)"
done_alike

# ---- fewer go on meanwhile, and take it back ----
begin fewer --steps 200 --min-ranks 1
kill -KILL "$(pid 1)"
await 20 told 0 "generation 2: 1 of 2 members train"
await 40 at_step 60
member 1 $words
await 20 told 0 "2 of 2 members are here: the group is formed anew"
await 40 told 0 "generation 3: 2 of 2 members train"
ends 0 0 90
ends 1 0 10
run 0 $job --steps 200 --checkpoint-dir "$work/calm-long" -q
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
tells 0 "step 1 failed 3 times in a row, last on worker 1 (127.0.0.1:$(port 1)): its rank was killed by signal 9"
tells 1 "the leader ended the job: step 1 failed 3 times in a row"

# ---- a member is asked to leave: what was done is saved, and goes on when it is back ----
begin asked
kill -TERM "$(pid 1)"
ends 1 143 15
member 1 $words
done_alike
finish
