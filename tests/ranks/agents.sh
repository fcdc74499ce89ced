# Sourced by the scripts beside it: members that TF_CONFIG joins, on this machine.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$work/cache # the secret of this user, for these members alone
unset TF_CONFIG LOCKSTEP_SECRET_FILE LOCKSTEP_INSECURE K_MPI_JOB_ROLE
small="train mnist_custom --examples 480 --global-batch-size 48 --shards 6 --threads 1 \
    --eval-data none --checkpoint-every 5 --keep 2"
# Steps long enough that a fast machine is not done before the fault has happened.
slow="$small --global-batch-size 240"
pids=
trap 'kill -KILL $pids 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 143' TERM # by way of the one above

# free N: so many ports that nobody listens on.
free() {
    python3 - "$1" <<'END'
import socket, sys
lines = [socket.socket() for _ in range(int(sys.argv[1]))]
for line in lines:
    line.bind(("127.0.0.1", 0))
print(*[line.getsockname()[1] for line in lines])
END
}

# group N: from now on there are so many members, on ports of their own.
group() {
    members=$1
    ports=$(free "$members")
    peers=$(for port in $ports; do printf '127.0.0.1:%s\n' "$port"; done | paste -sd, -)
}
port() { echo "$ports" | cut -d' ' -f$(($1 + 1)); }

# config I [TYPE]: TF_CONFIG of worker I, or of TYPE 0.
config() {
    quoted=$(echo "$peers" | sed 's/[^,]*/"&"/g')
    printf '{"cluster": {"worker": [%s]}, "task": {"type": "%s", "index": %s}}' \
        "$quoted" "${2:-worker}" "$1"
}

# member I WORDS...: in the background; its output in $work/out.I and $work/err.I.
member() {
    index=$1
    shift
    TF_CONFIG=$(config "$index") "$LOCKSTEP" "$@" >>"$work/out.$index" 2>>"$work/err.$index" \
        </dev/null &
    echo $! >"$work/pid.$index"
    pids="$pids $!"
}

# members_on_hosts NAME: from now on there are two members, on the hosts of that NAME (see hosts).
hosts=$here/hosts
export DELAY_RELAY=$(dirname "$LOCKSTEP")/bench/delay
members_on_hosts() {
    on=$1
    peers=10.98.0.1:5000,10.98.0.2:5000
    echo "a secret that both of us know" >"$work/secret"
    export LOCKSTEP_SECRET_FILE=$work/secret
    status_of() { "$hosts" exec "$on" "$1" "$LOCKSTEP" status "10.98.0.$(($1 + 1)):5000" --json -; }
}
# start_on_host I WORDS...: member I, on host I.
start_on_host() {
    index=$1
    shift
    TF_CONFIG=$(config "$index") "$hosts" exec "$on" "$index" "$LOCKSTEP" "$@" \
        >>"$work/out.$index" 2>>"$work/err.$index" </dev/null &
    echo $! >"$work/pid.$index"
    pids="$pids $!"
}
pid() { cat "$work/pid.$1"; }
forget() { rm -f "$work"/out.? "$work"/err.? "$work"/pid.?; }

# ends I STATUS [SECONDS]: member I, by itself, so soon.
ends() {
    tries=$((${3:-60} * 10))
    while kill -0 "$(pid "$1")" 2>/dev/null && [ $tries -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    [ $tries -gt 0 ] || { fail "member $1 goes on: $(tail -n 5 "$work"/err.*)"; kill -KILL "$(pid "$1")"; }
    wait "$(pid "$1")"
    status=$?
    [ $status -eq "$2" ] ||
        fail "member $1: exit status $status, expected $2: $(tail -n 8 "$work/err.$1")"
}

# await SECONDS COMMAND...: until it succeeds.
await() {
    latest=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -le $latest ] || { fail "never: $*: $(tail -n 4 "$work"/err.*)"; return 1; }
        sleep 0.1
    done
}
# lives PID: and is not just waiting to be counted.
lives() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }
told() { grep -qF -- "$2" "$work/err.$1"; }
tells() { told "$1" "$2" || fail "member $1 does not say '$2': $(tail -n 8 "$work/err.$1")"; }
has_step() { [ "$(newest "$1" 2>/dev/null || echo 0)" -ge "$2" ] 2>/dev/null; }

# status_field I NAME: of the group, as member I knows it; one line for each member that has it.
status_of() { "$LOCKSTEP" status "127.0.0.1:$(port "$1")" --json -; }
status_field() {
    status_of "$1" 2>/dev/null |
        sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p"
}
# rank I: the process of rank I.
rank() { status_field 0 process | sed -n "$(($1 + 1))p"; }
has_rank() { [ "$(rank "$1")" -gt 0 ] 2>/dev/null; }
at_step() { [ "$(status_field 0 step | head -n 1)" -ge "$1" ] 2>/dev/null; }

# begin NAME [WORDS...]: two members that do $job, into their own directory, up to step 20.
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
