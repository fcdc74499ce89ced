#!/bin/sh
# Who has the secret may have an agent start ranks, and nobody else; an agent stands in for sshd.
. "$(dirname "$0")/agents.sh"
echo "a secret that both of us know" >"$work/secret"
echo "a secret that one of us knows" >"$work/other"

# agent WORDS...: alone, in the background; its port is $at.
agent() {
    : >"$work/err.a"
    "$LOCKSTEP" agent --port 0 "$@" 2>>"$work/err.a" </dev/null &
    echo $! >"$work/pid.a"
    pids="$pids $!"
    await 10 grep -q "agent on port" "$work/err.a"
    at=$(sed -n 's/.*agent on port \([0-9]*\).*/\1/p' "$work/err.a")
}
version=$("$LOCKSTEP" version | head -n 1)

# ---- as ssh is called ----
agent --secret-file "$work/secret"
export LOCKSTEP_SECRET_FILE=$work/secret
run 0 agent --exec -o ConnectionAttempts=10 -o StrictHostKeyChecking=no -qx -p "$at" 127.0.0.1 lockstep version
[ "$(head -n 1 "$work/out")" = "$version" ] || fail "it printed: $(cat "$work/out")"
run 2 agent --exec -p "$at" "$(id -un)@127.0.0.1" lockstep train no_such_model
mentions err no_such_model
run 1 agent --exec -p "$at" 127.0.0.1 sh -c "touch $work/touched"
mentions err "not sh"
run 1 agent --exec -p "$at" 127.0.0.1 "lockstep version ; touch $work/touched"
mentions err "more than one command"
[ -e "$work/touched" ] && fail "a shell ran"
run 2 agent --exec -p "$at" 127.0.0.1
mentions err "what is to be run"
run 0 status "127.0.0.1:$at"
mentions out "No group"

# ---- another secret, none, a stranger ----
sleep 1.1 # strangers are named once a second
LOCKSTEP_SECRET_FILE=$work/other run 1 agent --exec -p "$at" 127.0.0.1 lockstep version
mentions err "does not accept our secret"
await 5 told a "its secret is not ours"
unset LOCKSTEP_SECRET_FILE
run 1 status "127.0.0.1:$at" --insecure --timeout 8
run 1 status "127.0.0.1:$at" --timeout 3 # the user's own is another
sleep 1.1
python3 - "$at" <<'END' || fail "strangers"
import socket, sys, time
lines = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(300)]
for line in lines[:50]:
    line.sendall(b"GET / HTTP/1.1\r\n\r\n")
END
LOCKSTEP_SECRET_FILE=$work/secret run 0 agent --exec -p "$at" 127.0.0.1 lockstep version
kill -TERM "$(pid a)"
ends a 143 10

# ---- what is killed with who wanted it ----
agent --secret-file "$work/secret"
LOCKSTEP_SECRET_FILE=$work/secret "$LOCKSTEP" agent --exec -p "$at" 127.0.0.1 lockstep \
    train mnist_custom --steps 1000000 --threads 1 --checkpoint-dir "$work/far" --checkpoint-every 5 \
    >/dev/null 2>&1 &
asked=$!
pids="$pids $asked"
await 30 has_step "$work/far" 5
kill -KILL $asked
sleep 1
was=$(newest "$work/far")
sleep 1
[ "$(newest "$work/far")" = "$was" ] || fail "it goes on after who wanted it is gone"
kill -TERM "$(pid a)"
ends a 143 10

# ---- a member with another secret is waited for in vain, and both say why ----
group 2
member 0 $small --steps 3 --checkpoint-dir $work/few --secret-file "$work/secret" --start-timeout 3
member 1 $small --steps 3 --checkpoint-dir $work/few --secret-file "$work/other" --start-timeout 6
ends 0 1 20
tells 0 "it does not accept our secret"
ends 1 1 20
tells 1 "its secret is not ours"
forget
# ---- and with the same, all is well ----
group 2
for index in 0 1; do
    member $index $small --steps 3 --checkpoint-dir $work/few --secret-file "$work/secret"
done
ends 0 0
ends 1 0
forget
# ---- as it is with none at all, where that is wanted ----
group 2
for index in 0 1; do
    member $index $small --steps 3 --checkpoint-dir $work/few --insecure
done
ends 0 0
ends 1 0
tells 0 "without a secret"

# ---- whoever has a certificate, but not the secret, is no agent ----
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key" -out "$work/cert" -days 1 \
        -subj /CN=localhost 2>/dev/null
    at=$(free 1)
    openssl s_server -accept "$at" -key "$work/key" -cert "$work/cert" -tls1_3 >/dev/null 2>&1 &
    pids="$pids $!"
    sleep 0.5
    run 1 status "127.0.0.1:$at" --secret-file "$work/secret" --timeout 4
fi
finish
