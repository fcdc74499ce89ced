#!/bin/sh
# The version, in both forms, and how long it takes to print it.
. "$(dirname "$0")/lib.sh"

run 0 version
mentions out "lockstep "
mentions out "oneDNN "
run 0 --version
mentions out "oneDNN "
run 0 version --json -
mentions out '"onednn": "'
run 0 version --json "$work/version.json"
says out ""
grep -q '"version": "' "$work/version.json" || fail "no version in the JSON file"

# Starting must take at most 40 ms: best of 20 runs, so that a busy machine does not matter.
# Sanitizers make starting slow; they say so in doctor.
run 0 doctor --json -
if ! grep -q 'built for testing' "$work/out"; then
    best=1000000000
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        start=$(date +%s%N)
        "$LOCKSTEP" version >/dev/null
        took=$(($(date +%s%N) - start))
        [ "$took" -lt "$best" ] && best=$took
    done
    [ "$best" -le 40000000 ] || fail "lockstep version takes $((best / 1000)) us, 40000 allowed"
fi
finish
