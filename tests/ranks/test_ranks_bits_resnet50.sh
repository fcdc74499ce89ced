#!/bin/sh
# resnet50 on small pictures: the same bits whoever computed them.
. "$(dirname "$0")/bits.sh"
set -- resnet50 --data synthetic --image-size 32 --classes 10 --lr 0.01 --global-batch-size 12 --shards 12
identical 2 "2 3 4" resnet50 "$@"
resized "4 3" resnet50 "$@"
finish
