#!/bin/sh
# Members on hosts of their own, whose network gets slow, loses packets, or knows no IPv4.
. "$(dirname "$0")/agents.sh"
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
name=n$$
trap 'kill -KILL $pids 2>/dev/null; "$hosts" remove $name; rm -rf "$work"' EXIT
"$hosts" make $name 2 0 0.1 >"$work/made" 2>&1 || skip "no network namespaces: $(tail -n 1 "$work/made")"
members_on_hosts $name
job="$small --steps 200 --checkpoint-every 50 --peer-timeout 5"
run 0 $job --checkpoint-dir "$work/calm" -q

begin() {
    way=$1
    shift
    forget
    words="$job --checkpoint-dir $work/$way $*"
    start_on_host 0 $words
    start_on_host 1 $words
}
# done_alike GENERATIONS: a pattern of how many it took.
done_alike() {
    ends 0 0 120
    ends 1 0 20
    formed=$(grep -c "members train" "$work/err.0")
    case $formed in $1) ;; *) fail "$way: $formed generations" ;; esac
    alike "$work/calm" "$work/$way"
}

# ---- two seconds of delay come and go: nobody is lost ----
begin slower
await 40 at_step 20
"$hosts" delay $name 2000
sleep 8
"$hosts" delay $name 0.1
done_alike 1

# ---- a rank is killed meanwhile: the group is formed over such a network ----
begin late
await 40 at_step 20 && await 20 has_rank 1
second=$(rank 1)
"$hosts" delay $name 2000
kill -KILL "$second"
await 20 told 0 "is lost after step"
sleep 8
"$hosts" delay $name 0.1
done_alike "[2-9]"

# ---- three of ten packets are lost, each way, for a while ----
if command -v nft >/dev/null; then
    begin loss
    await 40 at_step 20
    ip netns exec $name-1 nft -f - <<'END'
table inet loss {
    chain in { type filter hook input priority 0; iif "eth0" numgen random mod 100 < 30 drop; }
    chain out { type filter hook output priority 0; oif "eth0" numgen random mod 100 < 30 drop; }
}
END
    sleep 8
    ip netns exec $name-1 nft delete table inet loss
    done_alike "[1-9]"
fi

# ---- IPv6 alone ----
for i in 0 1; do
    ip -n $name-$i address flush dev eth0 scope global
    ip -n $name-$i address add "fd98::$((i + 1))/64" dev eth0 nodad || skip "no IPv6 here"
done
peers="[fd98::1]:5000,[fd98::2]:5000"
status_of() { "$hosts" exec $name "$1" "$LOCKSTEP" status "[fd98::$(($1 + 1))]:5000" --json -; }
begin six
await 40 at_step 20 && await 20 has_rank 1
kill -KILL "$(rank 1)"
done_alike 2
tells 0 "worker 1 ([fd98::2]:5000) is lost after step"
finish
