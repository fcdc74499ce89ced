#!/bin/sh
# Versions as they come to a server's directory: in pieces, by odd names. What is whole answers.
. "$(dirname "$0")/../cli/lib.sh"
. "$here/lib.sh"
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive no_proxy='*'

# state VERSION TEXT: until the status of the version says so, 30 seconds at most.
state() {
    tries=0
    until curl -s "http://$rest/v1/models/m/versions/$1" >status && grep -q -- "$2" status; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { fail "version $1 is not '$2': $(cat status)"; return 1; }
        sleep 0.1
    done
}

printf '%s\n' zero one two three four five six seven eight nine >labels
run 0 train mnist_custom --data digits --examples 640 --steps 2 --eval-every 0 --labels labels \
    --export-dir made
mkdir models
cp -r made/1 models/1
start_server --model m=models --poll 0.1
state 1 AVAILABLE

# --- a copy that stands still half way is not served, and is when the rest has come
mkdir models/2
cp -r made/1/assets.extra made/1/variables made/1/model.onnx made/1/saved_model.pb models/2
state 2 'assets/labels.txt of the export is missing'
state 1 AVAILABLE
cp -r made/1/assets models/2
state 2 AVAILABLE
state 1 END

# --- zeros in front belong to the name, not to the number
cp -r made/1 00000123
mv 00000123 models/
state 123 AVAILABLE
cp -r made/1 0123
mv 0123 models/
wait_for server.log 'several directories are version 123; 0123 is taken'
rm -r models/[12] models/0123
run 0 eval ./models --data digits --examples 64
mentions out "64 examples"

finish
