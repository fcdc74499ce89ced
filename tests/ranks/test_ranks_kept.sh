#!/bin/sh
# Ranks under an agent that are killed and go on from memory; see kept.py.
. "$(dirname "$0")/lib.sh"
[ -f "$(dirname "$LOCKSTEP")/tests/crash/tiny.so" ] || fail "tiny.so is missing: make check builds it"
LOCKSTEP=$LOCKSTEP "$here/kept.py" || fail "see above"
finish
