#!/bin/sh
# Members that TF_CONFIG or --peers join start each other's ranks, in whatever order they come.
. "$(dirname "$0")/agents.sh"
run 0 $small --steps 10 --checkpoint-dir "$work/calm" -q

# ---- TF_CONFIG ----
group 2
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
member 0 $small --steps 10 --checkpoint-dir "$work/two" --json "$work/two.json"
member 1 $small --steps 10 --checkpoint-dir "$work/two"
ends 0 0
ends 1 0
alike "$work/calm" "$work/two"
same loss "$work/two.json" "$work/two.json"
[ "$(field "$work/two.json" ranks)" = 2 ] || fail "$(field "$work/two.json" ranks) ranks"
grep -q . "$work/out.0" || fail "the first member prints no results"
grep -q . "$work/out.1" && fail "the second prints: $(cat "$work/out.1")"
tells 0 "worker 1 (127.0.0.1:$(port 1)) is here (2 of 2)"
tells 0 "generation 1: 2 of 2 members train"
[ -z "$(ls "$TMPDIR")" ] || fail "left behind: $(ls "$TMPDIR")"
unset TMPDIR

# ---- late, in both orders; a relative path belongs to the member's own directory ----
for first in 0 1; do
    forget
    group 2
    second=$((1 - first))
    mkdir -p "$work/own-$first"
    cd "$work/own-$first" || exit 1
    member $first $small --steps 3 --checkpoint-dir here
    sleep 1.5
    kill -0 "$(pid $first)" || fail "member $first did not wait: $(cat "$work/err.$first")"
    member $second $small --steps 3 --checkpoint-dir here
    ends 0 0
    ends 1 0
    [ "$(newest "$work/own-$first/here")" = 3 ] || fail "no checkpoint in its own directory"
    cd "$work" || exit 1
done

# ---- --peers, three of them, IPv4 and a name ----
forget
group 3
peers=$(echo "$peers" | sed 's/^127.0.0.1/localhost/')
for index in 0 1 2; do
    "$LOCKSTEP" $small --steps 10 --checkpoint-dir "$work/three" --peers "$peers" --index $index \
        >"$work/out.$index" 2>"$work/err.$index" </dev/null &
    echo $! >"$work/pid.$index"
    pids="$pids $!"
done
for index in 0 1 2; do
    ends $index 0
done
alike "$work/calm" "$work/three"

# ---- nobody comes ----
forget
group 2
member 0 $small --steps 3 --start-timeout 2
ends 0 1 20
tells 0 "gave up after 2 s (--start-timeout): 1 of 2 members are here; worker 1 (127.0.0.1:$(port 1)): Connection refused"
member 1 $small --steps 3 --start-timeout 2
ends 1 1 20
tells 1 "worker 0 (127.0.0.1:$(port 0)), who leads, did not come"
peers="$peers,no-such-host.invalid:5000"
forget
member 0 $small --steps 3 --start-timeout 2 --insecure
ends 0 1 30
tells 0 "worker"

# ---- what is wrong is told at once ----
TF_CONFIG='{"cluster": {"worker": ["a:1", "b:1"]}}' run 2 $small
mentions err "not which of them this is"
TF_CONFIG='{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}' run 2 $small
mentions err "members on other machines need a secret"
run 2 $small --peers a:1,b:1
mentions err "--peers needs --index"
run 2 $small --index 1
mentions err "--index needs --peers"
run 2 $small --peers 127.0.0.1:1,127.0.0.1:2 --index 0 --min-ranks 3
mentions err "--min-ranks=3: there are 2 members"
# One worker is no group.
TF_CONFIG='{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}' run 0 $small --steps 1 -q \
    --checkpoint-dir "$work/lonely"

# ---- an evaluator follows the checkpoints, and ends with the last ----
forget
group 2
TF_CONFIG=$(config 0 evaluator) "$LOCKSTEP" train mnist_custom --examples 480 --threads 1 \
    --checkpoint-dir "$work/judged" >"$work/out.2" 2>"$work/err.2" </dev/null &
echo $! >"$work/pid.2"
pids="$pids $!"
for index in 0 1; do
    member $index $small --steps 10 --checkpoint-dir "$work/judged"
done
ends 0 0
ends 1 0
ends 2 0
tells 2 "evaluating the checkpoint of step 10"
grep -q "ccuracy" "$work/out.2" || fail "the evaluator prints: $(cat "$work/out.2")"
TF_CONFIG=$(config 0 evaluator) run 2 train mnist_custom
mentions err "an evaluator follows the chief's checkpoints: give --checkpoint-dir"

# ---- a failure is everyone's, with its status ----
forget
group 2
for index in 0 1; do
    member $index $small --steps 3 --checkpoint-dir /dev/null/x
done
ends 0 1 30
ends 1 1 30

# ---- a second process with the leader's index is refused; a stranger's list, too ----
forget
group 2
for index in 0 1; do
    member $index $small --steps 100000 --peer-timeout 2 --checkpoint-dir "$work/held"
done
await 30 at_step 3
# Another port, as on another machine: the first of its list is itself, the second is ours.
taken=$ports
ports="$(free 1) $(port 1)"
"$LOCKSTEP" $small --steps 3 --peers "127.0.0.1:$(port 0),127.0.0.1:$(port 1)" --index 0 \
    --peer-timeout 2 --start-timeout 3 >"$work/out.2" 2>"$work/err.2" </dev/null &
echo $! >"$work/pid.2"
ends 2 1 20
tells 2 "its list of members is another"
ports=$taken
[ "$(status_field 1 generation)" = 1 ] || fail "the group was disturbed: $(status_field 1 generation)"
"$LOCKSTEP" status "127.0.0.1:$(port 1)" >"$work/out" || fail "status: $?"
mentions out "Generation 1: training"
mentions out "worker 1"
# Asked to stop: all end, the last finished step is saved.
kill -TERM "$(pid 0)"
ends 0 143 20
ends 1 143 20
finish
