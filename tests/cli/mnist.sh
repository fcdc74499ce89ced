# Sourced by the scripts that train on the real images; each says how far it must get.
. "$(dirname "$0")/lib.sh"
unset DATASET_DIR OUTPUT_DIR TARGET_ACCURACY STEPS

# reaches ACCURACY EPOCHS
reaches() {
    data=${LOCKSTEP_DATA:-$here/../../../shared/data}/mnist
    if [ ! -d "$data" ]; then
        [ "${LOCKSTEP_REQUIRE_DATA:-0}" = 1 ] && fail "$data is not there" && exit 1
        echo "skipped: no MNIST in $data"
        exit 77
    fi
    run 0 train mnist_custom --data "mnist:$data" --epochs "$2" --target-accuracy "$1"
    mentions out " met the target accuracy of $1"
}
