#!/bin/sh
# The tools that judge everything else: do they see a failure?
. "$(dirname "$0")/lib.sh"
tools=$here/../../tools

# program NAME LINES...: a shell script in $work/bin
program() {
    mkdir -p "$work/bin"
    name=$1
    shift
    { echo '#!/bin/sh' && printf '%s\n' "$@"; } >"$work/bin/$name"
    chmod +x "$work/bin/$name"
}

# verdict STATUS LAST-LINE PROGRAMS...
verdict() {
    expected=$1 line=$2
    shift 2
    (cd "$work/bin" && TEST_TIMEOUT=1 "$tools/run-tests" "$@") >"$work/out" 2>&1
    status=$?
    [ "$status" -eq "$expected" ] || fail "run-tests $*: exit status $status, expected $expected"
    [ "$(tail -n 1 "$work/out")" = "$line" ] ||
        fail "run-tests $*: '$(tail -n 1 "$work/out")', expected '$line'"
}

program good 'echo "[  PASSED  ] 3 test(s)."'
program mixed 'echo "[  PASSED  ] 2 test(s)."; echo "[  SKIPPED ] 1 test(s), listed below:"' \
    'echo "[  FAILED  ] 4 test(s), listed below:"; exit 1'
program leaks 'echo "[  PASSED  ] 5 test(s)."; exit 23'
program plain 'exit 0'
program skips 'exit 77'
program hangs 'exec sleep 60'
program crashes 'kill -SEGV $$'
verdict 0 '3 passed, 0 failed, 0 skipped' ./good
verdict 1 '2 passed, 4 failed, 1 skipped' ./mixed
verdict 1 '8 passed, 1 failed, 0 skipped' ./leaks ./good
verdict 0 '1 passed, 0 failed, 1 skipped' ./plain ./skips
verdict 1 '3 passed, 1 failed, 0 skipped' ./hangs ./good
verdict 1 '3 passed, 2 failed, 0 skipped' ./crashes ./missing ./good
verdict 0 '0 passed, 0 failed, 0 skipped'
# Beside each other: both count, both can fail, and neither waits for the other.
verdict 0 '4 passed, 0 failed, 1 skipped' ./good -- ./plain ./skips
verdict 1 '3 passed, 1 failed, 0 skipped' ./good -- ./crashes
verdict 1 '4 passed, 1 failed, 0 skipped' ./crashes ./good -- ./plain
verdict 0 '3 passed, 0 failed, 0 skipped' -- ./good
program waits 'while [ ! -e there ]; do sleep 0.05; done'
program comes 'touch there'
verdict 0 '2 passed, 0 failed, 0 skipped' ./waits -- ./comes
rm "$work/bin/there"
verdict 0 '2 passed, 0 failed, 0 skipped' ./comes -- ./waits

# layers STATUS FILE LINE: what check-layers says to one line in one file
layers() {
    rm -rf "$work/src"
    mkdir -p "$work/src/$(dirname "$2")"
    echo "$3" >"$work/src/$2"
    "$tools/check-layers" "$work/src" >"$work/out" 2>&1
    status=$?
    [ "$status" -eq "$1" ] || fail "check-layers, '$3' in $2: exit status $status, expected $1"
}

layers 0 train/a.c '#include "data/loader.h"'
layers 0 train/a.c '#include "train/b.h"'
layers 0 train/a.c '#include <stdio.h>'
layers 1 train/a.c '#include "watch/progress.h"'
layers 1 train/optimizers/a.c '  #  include "cli/options.h"'
layers 1 tensor/a.h '#include "exec/plan.h"'
layers 1 models/a.c '#include "base/error.h"'
layers 0 models/a.c '#include <lockstep/model.h>'
layers 0 models/registry.c '#include "base/error.h"'
layers 1 models/registry.c '#include "exec/plan.h"'
layers 0 exec/dnn.h '#include <dnnl.h>'
layers 1 ops/a.c '#include <dnnl.h>'
layers 1 cli/a.c '#include <jansson.h>'
layers 0 base/json.c '#include <jansson.h>'
layers 1 newfolder/a.c '#include "base/error.h"'
finish
