#!/bin/sh
# Random faults, one after the other, in one training of two members on hosts of their own. Then they
# are told to stop: what they save has the bits of a run that nothing happened to. CHAOS_FAULTS (10),
# CHAOS_SEED (1), CHAOS_LOG (a file that gets a line for each fault).
. "$(dirname "$0")/agents.sh"
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
faults=${CHAOS_FAULTS:-10} seed=${CHAOS_SEED:-1} log=${CHAOS_LOG:-$work/log}
name=c$$
kinds="kill stop member still both again cut"
command -v nft >/dev/null && kinds="$kinds hole loss"
trap 'kill -KILL $pids 2>/dev/null; "$hosts" remove $name; rm -rf "$work"' EXIT
# The wire whose delay can be changed; where there is none, the kernel's.
if "$hosts" make $name 2 0 0.1 >"$work/made" 2>&1; then
    kinds="$kinds late"
else
    "$hosts" make $name 2 >"$work/made" 2>&1 || skip "no network namespaces: $(tail -n 1 "$work/made")"
fi
members_on_hosts $name
# What a step does must not depend on how many there are to be.
job="$small --schedule constant --checkpoint-every 50 --peer-timeout 3"

member() {
    start_on_host "$1" $job --steps 1000000 --checkpoint-dir "$work/chaos"
}
# draw N: 0 to N-1, the same for the same seed.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}
step() { status_field 0 step | head -n 1; }
generation() { status_field 0 generation; }
tenths() { echo $(($(date +%s%N) / 100000000)); }
seconds() { echo "$(($1 / 10)).$(($1 % 10)) s"; }
drop() { # drop HOST RULE: of what it sends and gets
    ip netns exec $name-"$1" nft -f - <<END
table inet chaos {
    chain in { type filter hook input priority 0; iif "eth0" $2; }
    chain out { type filter hook output priority 0; oif "eth0" $2; }
}
END
}

# strike KIND MEMBER PAUSE: and, where it is one that passes, until it has.
strike() {
    long=$(($3 + 4)) # beyond --peer-timeout
    case $1 in
    kill) kill -KILL "$(rank "$2")" ;;
    stop) kill -STOP "$(rank "$2")" ;;
    member)
        kill -KILL "$(pid "$2")"
        sleep "$3"
        member "$2"
        ;;
    still)
        kill -STOP "$(rank "$2")" "$(pid "$2")"
        sleep $long
        kill -CONT "$(pid "$2")"
        ;;
    both)
        kill -KILL "$(pid 0)" "$(pid 1)"
        member "$2"
        sleep "$3"
        member $((1 - $2))
        ;;
    again) # while the group is formed anew
        kill -KILL "$(rank "$2")"
        sleep 0.$(($3 * 2 + 1))
        kill -KILL "$(pid $((1 - $2)))"
        member $((1 - $2))
        ;;
    cut)
        ip -n $name-"$2" link set eth0 down
        sleep $long
        ip -n $name-"$2" link set eth0 up
        ;;
    hole)
        drop "$2" drop
        sleep $long
        ip netns exec $name-"$2" nft delete table inet chaos
        ;;
    loss)
        drop "$2" 'numgen random mod 100 < 30 drop'
        sleep $long
        ip netns exec $name-"$2" nft delete table inet chaos
        ;;
    late)
        "$hosts" delay $name 2000
        sleep $long
        "$hosts" delay $name 0.1
        sleep 2 # what is on its way
        ;;
    esac
}
# went_on KIND: beyond where it was, under a generation of its own; but what only slows it down need
# not end one, and where nobody is left they are counted anew.
went_on() {
    [ "$(step)" -gt "${before:-0}" ] 2>/dev/null &&
        case $1 in loss | late | both) true ;; *) [ "$(generation)" != "$old" ] ;; esac
}

member 0
member 1
await 60 at_step 20 && await 20 has_rank 0 && await 20 has_rank 1
began=$(tenths)
number=0
while [ $number -lt "$faults" ]; do
    number=$((number + 1))
    draw "$(echo "$kinds" | wc -w)"
    kind=$(echo "$kinds" | cut -d' ' -f$((drawn + 1)))
    draw 2
    whom=$drawn
    draw 4
    pause=$drawn
    before=$(step) old=$(generation)
    since=$(tenths) at=$(date -u +%T)
    strike "$kind" $whom $pause
    over=$(tenths)
    await 90 went_on "$kind" || { fail "fault $number ($kind of member $whom at step $before): it does not go on"; break; }
    now=$(tenths)
    echo "fault $number ($at): $kind, member $whom, at step $before, for $(seconds $((over - since)));" \
        "the next step $(seconds $((now - over))) later, generation $(generation)" >>"$log"
    draw 20
    await 60 at_step $(($(step) + drawn + 2)) && await 20 has_rank 0 && await 20 has_rank 1 || break
done
kill -TERM "$(pid 0)"
ends 0 143 20
ends 1 143 20
reached=$(newest "$work/chaos")
[ $failures -eq 0 ] && {
    run 0 $job --steps "$reached" --checkpoint-dir "$work/calm" -q
    alike "$work/calm" "$work/chaos"
}
result="the bits of a run that nothing happened to"
[ $failures -eq 0 ] || result=FAILED
echo "$number faults in $(seconds $(($(tenths) - began))), seed ${CHAOS_SEED:-1}, $reached steps: $result" >>"$log"
cat "$log"
finish
