#!/bin/sh
# The image that a cluster runs: its bill of materials, read by SPDX's own tools, and tests/image/run. 77
# where there is no root to try it as.
cd "$(dirname "$0")/../.." || exit 1
program=${1:-build/release/lockstep}
make -s "$program" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
spdx=$(tools/venv spdx spdx-tools==0.8.5) || exit 1
failed=0
tools/image "$program" test "$work/image" || exit 1
"${spdx%/*}/pyspdxtools" -i "$work/image/lockstep.spdx.json" >"$work/log" 2>&1 ||
    { failed=1 && echo "FAILED: SPDX's tools refuse the bill of materials: $(head -c 600 "$work/log")"; }
LOCKSTEP=$program tests/image/run >"$work/run"
status=$?
sed '$d' "$work/run"
[ $status -ne 77 ] || exit 77
tail -n 1 "$work/run" | awk -v failed=$failed '{ print $1 + !failed " passed, " $3 + failed " failed" }'
[ $status -eq 0 ] && [ $failed -eq 0 ]
