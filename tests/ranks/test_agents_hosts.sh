#!/bin/sh
# Members on hosts of their own (network namespaces): the network is cut, or swallows everything; and
# an agent stands in for sshd under anyone's mpirun.
. "$(dirname "$0")/agents.sh"
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
name=a$$
trap 'kill -KILL $pids 2>/dev/null; "$hosts" remove $name; rm -rf "$work"' EXIT
"$hosts" make $name 3 >"$work/made" 2>&1 || skip "no network namespaces: $(tail -n 1 "$work/made")"
members_on_hosts $name
job="$slow --steps 80 --checkpoint-every 10 --peer-timeout 3"
run 0 $job --checkpoint-dir "$work/calm" -q

begin() {
    way=$1
    forget
    words="$job --checkpoint-dir $work/$way"
    start_on_host 0 $words
    start_on_host 1 $words
    await 40 at_step 20
}
done_alike() {
    ends 0 0 90
    ends 1 0 10
    grep -q "generation [2-9]: " "$work/err.0" || fail "$way: the group was not formed anew"
    alike "$work/calm" "$work/$way"
}

# ---- nothing happens; Open MPI stays inside its ports ----
begin calm-hosts
"$hosts" exec $name 1 sh -c 'ss -Hltn 2>/dev/null || true' >"$work/listening"
if [ -s "$work/listening" ]; then
    awk '{ sub(/.*:/, "", $4); if ($4 < 5000 || $4 > 5029) print $4 }' "$work/listening" >"$work/beyond"
    grep -v "^$" "$work/beyond" | while read -r beyond; do
        grep -q "127.0.0.1:$beyond " "$work/listening" || echo "$beyond"
    done >"$work/outside"
    [ -s "$work/outside" ] && fail "ports beyond 5000 to 5029 listen: $(cat "$work/outside")"
fi
ends 0 0 90
ends 1 0 10
alike "$work/calm" "$work/calm-hosts"

# ---- a second process with the leader's index, on another host, is refused ----
forget
for index in 0 1; do
    start_on_host $index $small --steps 100000 --peer-timeout 2 --checkpoint-dir "$work/twice"
done
await 40 at_step 3
TF_CONFIG=$(config 0) "$hosts" exec $name 2 "$LOCKSTEP" $small --steps 3 --peer-timeout 2 \
    --checkpoint-dir "$work/second" >"$work/out.2" 2>"$work/err.2" </dev/null &
echo $! >"$work/pid.2"
pids="$pids $!"
ends 2 1 30
tells 2 "worker 1 (10.98.0.2:5000) refuses: another process leads this group (generation 1) and lives"
tells 2 "is worker 0 (10.98.0.1:5000) running twice?"
# ---- one with another's is not even called ----
TF_CONFIG=$(config 1) "$hosts" exec $name 2 "$LOCKSTEP" $small --steps 3 --start-timeout 2 \
    >>"$work/out.2" 2>>"$work/err.2" </dev/null &
echo $! >"$work/pid.2"
pids="$pids $!"
ends 2 1 30
tells 2 "gave up: worker 0 (10.98.0.1:5000), who leads, did not come"
[ "$(status_field 1 generation)" = 1 ] || fail "the group was disturbed: $(status_field 1 generation)"
kill -TERM "$(pid 0)"
ends 0 143 20
ends 1 143 20

# ---- the link goes down for a while ----
begin cut
ip -n $name-1 link set eth0 down
await 20 told 0 "it said nothing for 3 s"
await 20 told 1 "is lost: it said nothing for 3 s"
ip -n $name-1 link set eth0 up
done_alike

# ---- packets vanish ----
if command -v nft >/dev/null; then
    begin blackhole
    ip netns exec $name-1 nft -f - <<'END'
table inet hole {
    chain in { type filter hook input priority 0; iif "eth0" drop; }
    chain out { type filter hook output priority 0; oif "eth0" drop; }
}
END
    await 20 told 0 "it said nothing for 3 s"
    ip netns exec $name-1 nft delete table inet hole
    done_alike
fi

# ---- anyone's mpirun, with the options that the MPI Operator adds for ssh ----
for index in 0 1; do
    "$hosts" exec $name $index "$LOCKSTEP" agent >"$work/out.a" 2>>"$work/err.a" &
    pids="$pids $!"
done
"$hosts" exec $name 0 env OMPI_MCA_plm_rsh_agent="$LOCKSTEP agent --exec" \
    OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" OMPI_MCA_orte_keep_fqdn_hostnames=true \
    timeout -k 5 60 mpirun -np 2 -host 10.98.0.1:1,10.98.0.2:1 -bind-to none -mca pml ob1 -mca btl tcp,self \
    -mca btl_tcp_if_include eth0 -mca oob_tcp_if_include eth0 \
    "$LOCKSTEP" $job --checkpoint-dir "$work/foreign" -q >"$work/out" 2>"$work/err" </dev/null ||
    fail "mpirun through agents: $?: $(tail -n 5 "$work/err")"
alike "$work/calm" "$work/foreign"
finish
