#!/usr/bin/env bash
# Other people's image in our deployments: Open MPI's own programs, with workers that the launcher reaches by ssh, as the
# MPI Operator's images are made; as a plain user in a restricted namespace.
. "$(dirname "$0")/lib.sh"
params=(-p IMAGE=localhost/mpi:1 -p EXEC="mpirun -np 2 hostname" -p MODEL_NAME=hello -p CPU=250m -p MEMORY=256Mi)
must 'a claim is bound' claim workdisk 1Gi
before
must 'an MPIJob of another image is accepted' k8s apply multi-node -p DATASET_CLAIM=workdisk "${params[@]}"
check 'it succeeds' says 'succeeded' k8s wait multi-node "${params[@]}" --timeout 180
for i in 0 1; do
    check "worker $i answered" says "^hello-worker-$i\$" k8s logs multi-node "${params[@]}"
done
show 2 k8s logs multi-node "${params[@]}"
check 'lockstep k8s delete removes it' k8s delete multi-node -p DATASET_CLAIM=workdisk "${params[@]}"
check 'nothing is left behind' nothing_left
finish
