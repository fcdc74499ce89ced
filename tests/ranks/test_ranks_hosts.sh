#!/bin/sh
# Ranks on hosts of their own, which only a network joins: the bits of one process, what is said names
# the host, and a host that is cut off ends the job.
. "$(dirname "$0")/lib.sh"
command -v ip >/dev/null && command -v unshare >/dev/null || skip "needs iproute2 and util-linux"
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
ip netns add "lockstep-probe-$$" 2>"$work/err" || skip "no network namespaces: $(cat "$work/err")"
ip netns del "lockstep-probe-$$"

hosts="$here/hosts"
name=ls$$
trap '"$hosts" remove $name; rm -rf "$work"' EXIT
"$hosts" make $name 3 >"$work/out" 2>"$work/err" || skip "hosts cannot be made: $(cat "$work/err")"

# across STATUS WORDS...: one rank on each of three hosts.
across() {
    wanted=$1
    shift
    timeout -k 5 "$LIMIT" "$hosts" run $name "$LOCKSTEP" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    verdict "$wanted" "three hosts: lockstep $*"
}

digits="train mnist_custom --examples 360 --global-batch-size 48 --shards 12 --threads 1 --steps 4"
run 0 $digits --checkpoint-dir "$work/alone" -q
across 0 $digits --checkpoint-dir "$work/apart" --json "$work/apart.json" --trace "$work/trace.json"
alike "$work/alone" "$work/apart"
[ "$(field "$work/apart.json" ranks)" = 3 ] || fail "not three ranks"

rows="train wide_deep --data synthetic --examples 960 --embedding-rows 60 --embedding-dim 4 \
    --hidden 16,8 --global-batch-size 96 --shards 12 --threads 1 --steps 4"
run 0 $rows --checkpoint-dir "$work/rows" -q
across 0 $rows --checkpoint-dir "$work/rows-apart" -q
alike "$work/rows" "$work/rows-apart"

# A cable is pulled: nobody closes a connection, so only time tells. mpirun, too, has to find out
# that it cannot end what runs there; left to itself it takes minutes.
timeout -k 5 "$LIMIT" "$hosts" run $name -mca oob_tcp_keepalive_time 2 \
    -mca oob_tcp_keepalive_intvl 1 -mca oob_tcp_keepalive_probes 3 "$LOCKSTEP" $digits --steps 1000000 --stall-warning 1 \
    --stall-timeout 4 --checkpoint-dir "$work/cut" --checkpoint-every 5 \
    >"$work/out" 2>"$work/err" </dev/null &
job=$!
for try in $(seq 100); do
    grep -q "Z saved " "$work/err" && break
    sleep 0.1
done
sleep 1.5 # ranks tell rank 0 twice a second what they do
ip -n $name-net link set port2 down
since=$(date +%s)
wait $job
status=$?
took=$(($(date +%s) - since))
[ $status -ne 0 ] || fail "a host was cut off: exit status 0"
[ $took -le 20 ] || fail "a host was cut off: the job went on for $took s"
mentions err " for rank 2 on $name-2; "
mentions err "nothing moved for 4 s (--stall-timeout); the job is ended"
ip -n $name-net link set port2 up
run 0 checkpoint verify "$work/cut"
finish
