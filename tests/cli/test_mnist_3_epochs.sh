#!/bin/sh
# mnist_custom reaches 99 % on the real test images after 3 epochs (5 are allowed).
. "$(dirname "$0")/mnist.sh"
reaches 0.99 3
finish
