#!/bin/sh
# mnist_custom reaches 98.8 % on the real test images after 2 epochs.
. "$(dirname "$0")/mnist.sh"
reaches 0.988 2
finish
