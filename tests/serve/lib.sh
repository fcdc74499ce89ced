# Sourced by the scripts beside it, after tests/cli/lib.sh: servers that end with the script.
servers=
trap 'for pid in $servers; do kill "$pid" 2>/dev/null && wait "$pid"; done; rm -rf "$work"' EXIT

# wait_for FILE TEXT: until the file has it, 60 seconds at most.
wait_for() {
    tries=0
    until grep -q -- "$2" "$1" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { fail "no '$2' in $1: $(head -c 500 "$1")"; return 1; }
        sleep 0.1
    done
}

# start_fake WORDS...: tests/serve/grpc_server.c, whose input does not end while this script runs;
# its address is in $server.
start_fake() {
    [ -p "$work/input" ] || { mkfifo "$work/input" && exec 9<>"$work/input"; }
    : >"$work/port"
    "${LOCKSTEP%/*}/tests/serve/grpc_server" "$@" <"$work/input" >"$work/port" \
        2>"$work/server.log" &
    servers="$servers $!"
    wait_for "$work/port" '[0-9]' || exit 1
    server=127.0.0.1:$(cat "$work/port")
}

# start_server WORDS...: lockstep serve on free ports; $grpc and $rest are its addresses, $pid its id.
start_server() {
    : >"$work/server.log"
    "$LOCKSTEP" serve --host 127.0.0.1 --port auto --rest-port auto "$@" >"$work/server.log" 2>&1 &
    pid=$!
    servers="$servers $pid"
    wait_for "$work/server.log" '^Ready' || exit 1
    grpc=$(sed -n 's/.*gRPC ModelServer at \([^ ]*\) .*/\1/p' "$work/server.log")
    rest=$(sed -n 's/.*REST API at:\([^ ]*\) .*/\1/p' "$work/server.log")
}

# rows FILE N: clicks whose label is what the fake Wide & Deep says in three of four rows.
rows() {
    awk -v n="$2" 'BEGIN {
        for (i = 0; i < n; i++) {
            p = (i * 37 % 100) / 100
            label = (p > 0.5) != (i % 4 == 0)
            line = label "," p
            for (k = 2; k <= 13; k++) line = line "," (k == 5 ? "" : k + i)
            for (k = 1; k <= 26; k++) line = line "," (k == 3 ? "" : sprintf("%08x", i * k))
            print line
        } }' >"$1"
}
