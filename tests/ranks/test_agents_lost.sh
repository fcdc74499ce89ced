#!/bin/sh
# Ranks, members and the leader are killed or stopped in the middle: the job is done all the same, and
# gives the bits of a run that nothing happened to.
. "$(dirname "$0")/agents.sh"
job="$slow --steps 80 --checkpoint-every 10 --peer-timeout 3"
run 0 $job --checkpoint-dir "$work/calm" -q

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

finish
