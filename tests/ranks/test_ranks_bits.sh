#!/bin/sh
# Networks of digits and rows, with their evaluations: the same bits whoever computed them.
. "$(dirname "$0")/bits.sh"
digits="--examples 360 --eval-data digits"
rows="--data synthetic --eval-data synthetic --examples 960 --embedding-rows 60 --embedding-dim 4"

for model in mnist_custom mnist_keras; do
    identical 4 "2 3 4" $model $model $digits --global-batch-size 48 --shards 12
    resized "3 1 4 2" $model $model $digits --global-batch-size 48 --shards 12
done
identical 4 "2 3 4" wide_deep wide_deep $rows --hidden 16,8 --global-batch-size 96 --shards 12
resized "2 4 3 0" wide_deep wide_deep $rows --hidden 16,8 --global-batch-size 96 --shards 12

# Shards that no power of two divides, nor the ranks.
identical 4 "2 3 5" fifths mnist_custom $digits --global-batch-size 40 --shards 5
resized "2 0 3 1" fifths mnist_custom $digits --global-batch-size 40 --shards 5

# Buckets of any size, too.
go 3 1 "$work/buckets" mnist_custom $digits --global-batch-size 40 --shards 5 --steps 4 --bucket 64k
alike "$work/fifths" "$work/buckets"

# More sums in a step than are under way at once.
deep=$(dirname "$LOCKSTEP")/tests/ranks/deep.so
[ -f "$deep" ] || fail "$deep is missing: make check builds it"
go 0 1 "$work/deep" "$deep" --examples 160 --eval-data none --shards 4 --global-batch-size 32 --steps 2
go 2 1 "$work/deep-2" "$deep" --examples 160 --eval-data none --shards 4 --global-batch-size 32 \
    --steps 2 --bucket 0
alike "$work/deep" "$work/deep-2"

# And it is the seed that decides about them.
go 2 1 "$work/seed" mnist_custom $digits --global-batch-size 40 --shards 5 --steps 4 --seed 2
"$LOCKSTEP" checkpoint diff "$work/fifths" "$work/seed" >"$work/diff" 2>&1 &&
    fail "two seeds gave the same bits"
finish
