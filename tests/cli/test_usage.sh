#!/bin/sh
# Exit statuses and messages of wrong command lines.
. "$(dirname "$0")/lib.sh"

run 2
says out ""
mentions err "Usage: lockstep COMMAND"
run 2 trian
says err "lockstep: unknown command 'trian': did you mean train?"
run 2 qqqqqq
says err "lockstep: unknown command 'qqqqqq': \`lockstep help\` lists them"
run 2 version --jsno x
says err "lockstep version: unknown option --jsno: did you mean --json?"
run 2 version --json
says err "lockstep version: --json needs a value: --json FILE|-"
run 2 version extra
says err "lockstep version: unexpected argument 'extra': see --help"
run 2 data
says out ""
mentions err "Usage: lockstep data COMMAND"
run 2 data konvert
says err "lockstep data: unknown command 'konvert': did you mean convert?"
run 2 data convert --packing rar a b
mentions err "lockstep data convert: --packing=rar: is none of none, gzip, zlib"
run 2 help data nothing_like_it
says err "lockstep help: there is no command 'data nothing_like_it'"
run 2 help nothing_like_it
mentions err "lockstep help: COMMAND=nothing_like_it: is none of "

for words in --help -h help; do
    run 0 $words
    says err ""
    mentions out "Usage: lockstep COMMAND"
done
run 0 version --json=nowhere/x --help
mentions out "lockstep version:"
run 1 version --json "$work/no/such/directory/x"
mentions err "lockstep: $work/no/such/directory/x"

# A full disk must not look like success.
if [ -c /dev/full ]; then
    "$LOCKSTEP" help >/dev/full 2>"$work/err"
    status=$?
    [ "$status" -eq 1 ] || fail "writing to a full disk: exit status $status, expected 1"
    mentions err "lockstep: standard output: No space left on device"
fi

# Only a file of an earlier run is taken away, never a pipe or a device.
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/piped" &
reader=$!
run 0 models --json "$work/pipe"
wait $reader
[ -p "$work/pipe" ] || fail "--json took a pipe away"
grep -q resnet50 "$work/piped" || fail "nothing came through the pipe"

# A pipe that nobody writes to is not waited for.
for name in pipe.so pipe.onnx pipe.safetensors; do
    mkfifo "$work/$name"
done
run 2 train "$work/pipe.so" --data digits
mentions err "pipe.so is not a regular file"
run 1 train "$work/pipe.onnx" --data digits
mentions err "pipe.onnx: is not a regular file"
run 1 eval mnist_custom --data digits --weights "$work/pipe.safetensors"
mentions err "pipe.safetensors: is not a regular file"
run 1 plan "$work/pipe"
mentions err "$work/pipe"
finish
