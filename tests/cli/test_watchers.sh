#!/bin/sh
# Trainings that tell other services about themselves: Kubeflow Trainer over TLS, and servers that
# are not there or never answer, which must cost nothing but a line and a few seconds.
. "$(dirname "$0")/lib.sh"
command -v openssl >/dev/null || { echo "skipped: no openssl for a certificate"; exit 77; }
unset DATASET_DIR OUTPUT_DIR STEPS TARGET_ACCURACY http_proxy https_proxy MLFLOW_TRACKING_URI \
    MLFLOW_EXPERIMENT_NAME MLFLOW_EXPERIMENT_ID MLFLOW_RUN_ID MLFLOW_RUN_NAME MLFLOW_TRACKING_TOKEN \
    MLFLOW_TRACKING_AUTH MLFLOW_TRACKING_INSECURE_TLS MLFLOW_TRACKING_SERVER_CERT_PATH
export OMP_WAIT_POLICY=passive
train="train mnist_custom --data digits --threads 1 --batch-size 8 --examples 160 --quiet"

# serve NAME WORDS...: starts the status server; its files are in $work/NAME, its URL is $url.
mkfifo "$work/stop"
serve() {
    place=$work/$1
    shift
    mkdir "$place"
    printf 'right\n' >"$place/token"
    /usr/bin/python3 "$here/../support/status_server.py" "$place" "$@" 9>&- <"$work/stop" \
        >"$place/url" &
    tries=0
    until [ -s "$place/url" ] || [ $tries -ge 200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    url=$(cat "$place/url")
}
exec 9<>"$work/stop" # the servers end when this script does
# lines FILE N
lines() {
    [ "$(cat "$work/$1" 2>/dev/null | wc -l)" -eq "$2" ] ||
        fail "$1 has $(cat "$work/$1" | wc -l) lines, not $2: $(head -c 500 "$work/$1")"
}

serve good
export KUBEFLOW_TRAINER_SERVER_URL="$url" KUBEFLOW_TRAINER_SERVER_CA_CERT="$work/good/ca.crt" \
    KUBEFLOW_TRAINER_SERVER_TOKEN="$work/good/token"
run 0 $train --steps 20
says err ""
[ ! -e "$work/good/refusals" ] || fail "refused: $(cat "$work/good/refusals")"
tail -n 1 "$work/good/reports" >"$work/last"
mentions last '"progressPercentage":100,"estimatedRemainingSeconds":0'
mentions last '{"name":"eval_accuracy","value":"'

# A wrong token, and a certificate nobody vouches for: one line each, and the training is done.
printf 'wrong\n' >"$work/token"
KUBEFLOW_TRAINER_SERVER_TOKEN="$work/token" run 0 $train --steps 5
lines err 1
mentions err "refuses what it is told: status 403: Forbidden"
KUBEFLOW_TRAINER_SERVER_CA_CERT= run 0 $train --steps 5
lines err 1
mentions err "certificate"

# Nothing listens, and one that never answers: at once, and both are waited for together.
serve stalled stall
start=$(date +%s)
KUBEFLOW_TRAINER_SERVER_URL="$url" KUBEFLOW_TRAINER_SERVER_CA_CERT="$work/stalled/ca.crt" \
    MLFLOW_TRACKING_URI=http://127.0.0.1:1 run 0 $train --steps 20
seconds=$(($(date +%s) - start))
[ "$seconds" -le 15 ] || fail "a training of a second took $seconds s"
lines err 2
mentions err "MLflow (http://127.0.0.1:1) "
mentions err "Kubeflow Trainer (https://127.0.0.1:"
mentions out "Accuracy: "

# MLflow over TLS. This server has no such page, which shows that it was reached.
unset KUBEFLOW_TRAINER_SERVER_URL
url=$(sed 's|/apis.*||' "$work/good/url")
MLFLOW_TRACKING_URI=$url run 0 $train --steps 2
lines err 1
mentions err "certificate"
MLFLOW_TRACKING_URI=$url MLFLOW_TRACKING_INSECURE_TLS=true run 0 $train --steps 2
lines err 1
mentions err "refuses what it is told: runs/create: status 404: not found"
MLFLOW_TRACKING_URI=$url MLFLOW_TRACKING_SERVER_CERT_PATH="$work/good/ca.crt" \
    run 0 $train --steps 2
mentions err "status 404"
serve mutual mutual
url=${url%:*}:$(sed 's|.*:\([0-9]*\)/.*|\1|' "$work/mutual/url")
export MLFLOW_TRACKING_SERVER_CERT_PATH="$work/mutual/ca.crt"
MLFLOW_TRACKING_URI=$url run 0 $train --steps 2
lines err 1 # how a refused handshake shows depends on who writes first
grep -q "status 404" "$work/err" && fail "reached without a certificate"
cat "$work/mutual/ca.crt" "$work/mutual/key.pem" >"$work/client.pem"
MLFLOW_TRACKING_URI=$url MLFLOW_TRACKING_CLIENT_CERT_PATH="$work/client.pem" run 0 $train --steps 2
mentions err "status 404"

# What cannot be done is said with the reason.
MLFLOW_TRACKING_URI=sqlite:///mlflow.db run 0 $train --steps 2
lines err 1
mentions err "MLflow is not told about this run: MLFLOW_TRACKING_URI=sqlite:///mlflow.db: "
finish
