#!/bin/sh
# Models from a configuration file: the one that docs/serving.md prints, and a model that moves.
. "$(dirname "$0")/../cli/lib.sh"
. "$here/lib.sh"
unset MODEL_NAME MODEL_BASE_PATH OUTPUT_DIR DATASET_DIR
export no_proxy='*'
page=$here/../../docs/serving.md

# predict PATH: the answer is in $work/out, its status in $code.
predict() {
    code=$(curl -s -o "$work/out" -w '%{http_code}' -d @"$work/body" "http://$rest/v1/models/$1:predict")
}
answers() {
    [ "$code" = "$1" ] || fail "HTTP status $code, not $1: $(head -c 300 "$work/out")"
}

python3 - >"$work/body" <<'EOP'
import json
print(json.dumps({"instances": [[[[(r * c % 7) / 7] for c in range(28)] for r in range(28)]]}))
EOP
for steps in 3 4; do
    run 0 train mnist_custom --data digits --examples 640 --steps $steps --batch-size 64 \
        --output-dir "$work/run$steps" --quiet
    run 0 export "$work/run$steps" --export-dir "$work/exported$steps"
done
mkdir "$work/digits" "$work/moved"
mv "$work/exported3/1" "$work/digits/3"
cp -r "$work/exported4/1" "$work/digits/4"
cp -r "$work/exported4/1" "$work/moved/3"

# --- as the page prints it, but for where the models are
sed -n '/^model_config_list {/,/^}/p' "$page" | sed "s,/models/digits,$work/digits," >"$work/models.config"
command=$(sed -n 's/^lockstep serve \(--model-config-file.*\)/\1/p' "$page" | head -1 |
    sed "s,models.config,$work/models.config,; s/seconds 10/seconds 0.2/")
[ -n "$command" ] || fail "docs/serving.md prints no command with --model-config-file"
# shellcheck disable=SC2086
start_server $command
for label in stable canary; do
    # Ready is who has one version; the newest comes first.
    until predict digits/labels/$label && [ "$code" != 404 ]; do sleep 0.05; done
    answers 200
    cp "$work/out" "$work/$label"
done
! cmp -s "$work/stable" "$work/canary" || fail "both labels have the same answer"
predict digits/labels/none
answers 404
run 1 serve --model-config-file "$work/models.config" --rest-port auto --port 0
mentions err '--allow-version-labels-for-unavailable-models allows that'

# --- a path that is not there is refused; another with the same number is loaded anew
cp "$work/models.config" "$work/good.config"
sed "s,$work/digits,$work/nowhere," "$work/good.config" >"$work/next" && mv "$work/next" "$work/models.config"
wait_for "$work/server.log" 'nowhere: No such file or directory; the models stay as they are'
predict digits/labels/stable
cmp "$work/out" "$work/stable" || fail "another answer after a configuration that was refused"
sed "s,$work/digits,$work/moved," "$work/good.config" >"$work/next" && mv "$work/next" "$work/models.config"
tries=0
until predict digits/labels/stable && cmp -s "$work/out" "$work/canary"; do
    answers 200
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { fail "still the weights of the path before"; break; }
    sleep 0.1
done
finish
