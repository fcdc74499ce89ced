#!/bin/sh
# vgg16 on small pictures: the same bits whoever computed them.
. "$(dirname "$0")/bits.sh"
set -- vgg16 --data synthetic --image-size 32 --classes 10 --lr 0.01 --global-batch-size 12 --shards 12
identical 2 "2 3 4" vgg16 "$@"
resized "4 3" vgg16 "$@"
finish
