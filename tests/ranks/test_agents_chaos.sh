#!/bin/sh
# Random faults, one after the other, in one training of two members on hosts of their own; in the end
# it has the bits of a run that nothing happened to. CHAOS_FAULTS (10), CHAOS_SEED (1), CHAOS_LOG (a
# file that gets a line for each fault: number, fault, member, step, seconds until the next step).
. "$(dirname "$0")/agents.sh"
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
faults=${CHAOS_FAULTS:-10} seed=${CHAOS_SEED:-1} log=${CHAOS_LOG:-$work/log}
hosts=$here/hosts
name=c$$
"$hosts" make $name 2 >"$work/made" 2>&1 || skip "no network namespaces: $(tail -n 1 "$work/made")"
trap 'kill -KILL $pids 2>/dev/null; "$hosts" remove $name; rm -rf "$work"' EXIT
echo "a secret that both of us know" >"$work/secret"
export LOCKSTEP_SECRET_FILE=$work/secret
peers=10.98.0.1:5000,10.98.0.2:5000
job="$small --checkpoint-every 50 --peer-timeout 3 --steps $((faults * 60 + 60))"

member() {
    index=$1
    TF_CONFIG=$(config "$index") "$hosts" exec $name "$index" "$LOCKSTEP" $job \
        --checkpoint-dir "$work/chaos" >>"$work/out.$index" 2>>"$work/err.$index" </dev/null &
    echo $! >"$work/pid.$index"
    pids="$pids $!"
}
status_field() {
    "$hosts" exec $name "$1" "$LOCKSTEP" status "10.98.0.$(($1 + 1)):5000" --json - 2>/dev/null |
        sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p"
}
# draw N: 0 to N-1, the same for the same seed.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}
step() { status_field 0 step | head -n 1; }
generation() { status_field 0 generation; }
filter() { # filter HOST RULE
    ip netns exec $name-"$1" nft -f - <<END
table inet chaos {
    chain in { type filter hook input priority 0; iif "eth0" $2; }
    chain out { type filter hook output priority 0; oif "eth0" $2; }
}
END
}
unfilter() { ip netns exec $name-"$1" nft delete table inet chaos; }
kinds="kill stop member cut"
command -v nft >/dev/null && kinds="$kinds hole loss"

run 0 $job --checkpoint-dir "$work/calm" -q
member 0
member 1
await 60 at_step 20
began=$(date +%s)
for number in $(seq 1 "$faults"); do
    draw "$(echo "$kinds" | wc -w)"
    kind=$(echo "$kinds" | cut -d' ' -f$((drawn + 1)))
    draw 2
    whom=$drawn
    draw 4
    pause=$drawn
    before=$(step) old=$(generation)
    since=$(date +%s)
    case $kind in
    kill) kill -KILL "$(rank $whom)" ;;
    stop) kill -STOP "$(rank $whom)" ;;
    member)
        kill -KILL "$(pid $whom)"
        sleep $pause
        member $whom
        ;;
    cut)
        ip -n $name-$whom link set eth0 down
        sleep $((pause + 4))
        ip -n $name-$whom link set eth0 up
        ;;
    hole)
        filter $whom drop
        sleep $((pause + 4))
        unfilter $whom
        ;;
    loss)
        filter $whom 'numgen random mod 100 < 30 drop'
        sleep $((pause + 4))
        unfilter $whom
        ;;
    esac
    # Goes on, beyond where it was, under a generation of its own; loss alone need not end one.
    tries=600
    until [ "$(step)" -gt "${before:-0}" ] 2>/dev/null &&
        { [ "$(generation)" != "$old" ] || [ $kind = loss ]; }; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { fail "fault $number ($kind of $whom): it does not go on: $(tail -n 5 "$work"/err.*)"; break 2; }
        lives "$(pid 0)" || break 2
        sleep 0.1
    done
    echo "$number $kind member $whom step $before $(($(date +%s) - since)) s" >>"$log"
    draw 20
    goal=$(($(step) + drawn)) tries=600
    until at_step $goal || ! lives "$(pid 0)" || [ $tries -eq 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    lives "$(pid 0)" || break # a fast machine is done before all have happened
done
ends 0 0 200
ends 1 0 20
alike "$work/calm" "$work/chaos"
echo "$number faults in $(($(date +%s) - began)) s, seed ${CHAOS_SEED:-1}" >>"$log"
cat "$log"
finish
