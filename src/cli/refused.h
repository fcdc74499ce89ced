/* Options that users bring from TensorFlow, Horovod and Model Zoo command lines and that no
 * command of ours can honour. They stand in the tables of the training commands, so that each is
 * answered with its reason instead of "unknown option", and none is accepted and ignored: a value
 * that asks for what is done anyway passes. */
#ifndef CLI_REFUSED_H
#define CLI_REFUSED_H

#include "cli/options.h"

/* Rows for the end of a table, before OPTION_END. */
#define REFUSED_TRAINING_OPTIONS                                                              \
    OPTION_REFUSED("precision", .value = "NAME", .accepts = "fp32 float32",                   \
                   .aliases = "dtype data_type",                                              \
                   .help = "this program computes in float32"),                               \
    OPTION_REFUSED("use-fp16", .accepts = "false 0", .aliases = "fp16 use_bfloat16",          \
                   .help = "this program computes in float32"),                               \
    OPTION_REFUSED("loss-scale", .value = "X", .accepts = "1",                                \
                   .aliases = "fp16_loss_scale",                                              \
                   .help = "float32 gradients need no scaling"),                              \
    OPTION_REFUSED("device", .value = "NAME", .accepts = "cpu",                               \
                   .aliases = "horovod_device local_parameter_device",                        \
                   .help = "this program computes on CPUs only"),                             \
    OPTION_REFUSED("num-gpus", .value = "N", .accepts = "0 1",                                \
                   .help = "this program computes on CPUs only; it counts as one device"),    \
    OPTION_REFUSED("gpu-memory-fraction", .value = "X",                                       \
                   .aliases = "gpu_memory_frac_for_testing",                                  \
                   .help = "this program computes on CPUs only"),                             \
    OPTION_REFUSED("data-format", .value = "NAME",                                            \
                   .help = "each kernel picks the memory layout it is fastest with; leave "   \
                           "this out"),                                                       \
    OPTION_REFUSED("mkl", .accepts = "true 1",                                                \
                   .help = "kernels always come from oneDNN, the successor of MKL-DNN"),      \
    OPTION_REFUSED("framework", .value = "NAME",                                              \
                   .help = "this program is its own framework; leave this out"),              \
    OPTION_REFUSED("variable-update", .value = "NAME", .accepts = "horovod independent",      \
                   .help = "ranks sum their gradients; there is no parameter server"),        \
    OPTION_REFUSED("num-inter-threads", .value = "N", .accepts = "0 1", .letter = 'e',        \
                   .aliases = "inter_op_parallelism_threads",                                 \
                   .help = "operations run one after the other, each on all threads; use "    \
                           "--threads"),                                                      \
    OPTION_REFUSED("kmp-blocktime", .value = "TIME",                                          \
                   .aliases = "kmp_affinity kmp_settings",                                    \
                   .help = "these tune another OpenMP library than the one used here; "       \
                           "--threads and taskset do"),                                       \
    OPTION_REFUSED("socket-id", .value = "N", .letter = 'i',                                  \
                   .aliases = "numa_cores_per_instance",                                      \
                   .help = "choose processors with taskset or numactl; threads follow"),      \
    OPTION_REFUSED("mpi-num-processes", .value = "N", .accepts = "1",                         \
                   .aliases = "mpi_num_processes_per_socket mpi_hostnames",                   \
                   .help = "ranks are started by mpirun, not by an option of one of them"),   \
    OPTION_REFUSED("resnet-size", .value = "N", .accepts = "50",                              \
                   .help = "the model's name says it: resnet50"),                             \
    OPTION_REFUSED("resnet-version", .value = "N", .accepts = "1",                            \
                   .help = "the model's name says it: resnet50 is version 1.5"),              \
    OPTION_REFUSED("enable-lars", .accepts = "false 0", .aliases = "use_larc",                \
                   .help = "write --optimizer lars"),                                         \
    OPTION_REFUSED("fine-tune", .accepts = "false 0",                                         \
                   .help = "all layers are trained; none can be held fixed"),                 \
    OPTION_REFUSED("hooks", .value = "NAMES",                                                 \
                   .help = "hooks are pieces of TensorFlow; --json has the numbers"),         \
    OPTION_REFUSED("trace-file", .value = "FILE",                                             \
                   .help = "write --explain for the time of each operation"),                 \
    OPTION_REFUSED("print-training-accuracy", .accepts = "true 1",                            \
                   .help = "training accuracy is always shown"),                              \
    OPTION_REFUSED("noinstall", .accepts = "true 1",                                          \
                   .help = "this program never installs anything")

#endif
