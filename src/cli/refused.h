/* Options that users bring from TensorFlow, Horovod and Model Zoo command lines and that a command
 * of ours cannot honour, or has another word for. They stand in the tables of the training
 * commands, so that each is answered with its reason instead of "unknown option". None is
 * accepted and ignored: a value passes only where it asks for what is done anyway. */
#ifndef CLI_REFUSED_H
#define CLI_REFUSED_H

#include "cli/options.h"

/* Where -n has no meaning of the command's own. */
#define REFUSED_NUM_CORES(...)                                                                     \
    OPTION_REFUSED("num-cores", .value = "N",                                                      \
                   __VA_ARGS__.help =                                                              \
                       "write --threads; choose processors with taskset or numactl")

/* For commands that exchange no gradients. */
#define REFUSED_FP16                                                                               \
    OPTION_REFUSED("use-fp16", .accepts = "false 0", .aliases = "fp16",                            \
                   .help = "this program computes in float32 only")

/* Rows for the end of a table, before OPTION_END. For train, eval and bench: */
#define REFUSED_EVERYWHERE                                                                         \
    OPTION_REFUSED("precision", .value = "NAME", .accepts = "fp32 float32",                        \
                   .aliases = "dtype data-type", .help = "this program computes in float32 only"), \
        OPTION_REFUSED("use-bfloat16", .accepts = "false 0",                                       \
                       .help = "this program computes in float32 only"),                           \
        OPTION_REFUSED("loss-scale", .value = "X", .accepts = "1", .aliases = "fp16-loss-scale",   \
                       .help = "float32 gradients need no scaling"),                               \
        OPTION_REFUSED("device", .value = "NAME", .accepts = "cpu",                                \
                       .aliases = "horovod-device local-parameter-device",                         \
                       .help = "this program computes on CPUs only"),                              \
        OPTION_REFUSED("num-gpus", .value = "N", .accepts = "0", .aliases = "gpu",                 \
                       .help = "this program computes on CPUs only"),                              \
        OPTION_REFUSED("data-format", .value = "ORDER",                                            \
                       .help = "each kernel chooses its own memory layout"),                       \
        OPTION_REFUSED("mkl", .accepts = "true 1",                                                 \
                       .help = "kernels always come from oneDNN, the successor of MKL-DNN"),       \
        OPTION_REFUSED("framework", .value = "NAME",                                               \
                       .help = "this program is its own framework; leave this out"),               \
        OPTION_REFUSED("variable-update", .value = "HOW", .accepts = "horovod independent",        \
                       .help = "there is no parameter server"),                                    \
        OPTION_REFUSED("num-inter-threads", .value = "N", .accepts = "0 1", .letter = 'e',         \
                       .aliases = "inter-op-parallelism-threads",                                  \
                       .help = "operations run one after the other, each on all threads; write "   \
                               "--threads"),                                                       \
        OPTION_REFUSED("kmp-blocktime", .value = "TIME", .aliases = "kmp-affinity kmp-settings",   \
                       .help = "this tunes another OpenMP library than the one used here; write "  \
                               "--threads, and choose processors with taskset"),                   \
        OPTION_REFUSED("socket-id", .value = "N", .letter = 'i',                                   \
                       .aliases = "numa-cores-per-instance",                                       \
                       .help = "choose processors with taskset or numactl; threads follow"),       \
        OPTION_REFUSED("mpi-num-processes", .value = "N", .accepts = "1",                          \
                       .aliases = "mpi-num-processes-per-socket mpi-hostnames",                    \
                       .help = "a process does not start others: write mpirun -np N lockstep "     \
                               "train"),                                                           \
        OPTION_REFUSED("data-name", .value = "NAME",                                               \
                       .help = "the kind of data stands in --data KIND:DIR"),                      \
        OPTION_REFUSED("use-synthetic-data", .accepts = "false 0", .aliases = "synthetic",         \
                       .help = "write --data synthetic"),                                          \
        OPTION_REFUSED("distortions", .accepts = "false 0",                                        \
                       .help = "the kind of data decides how pictures are changed"),               \
        OPTION_REFUSED("resnet-size", .value = "N", .accepts = "50",                               \
                       .help = "the model's name says it: resnet50"),                              \
        OPTION_REFUSED("resnet-version", .value = "N", .accepts = "1 v1",                          \
                       .help = "the model's name says it: resnet50 is v1.5"),                      \
        OPTION_REFUSED("version", .value = "N", .accepts = "1",                                    \
                       .help =                                                                     \
                           "the model's name says it: resnet50 is v1.5; for that of the program, " \
                           "write lockstep version"),                                              \
        OPTION_REFUSED("hooks", .value = "NAMES",                                                  \
                       .help = "hooks are parts of TensorFlow; --json has the numbers"),           \
        OPTION_REFUSED("run-tensorboard", .accepts = "false 0",                                    \
                       .help = "write lockstep train --tensorboard DIR, and look at it with "      \
                               "tensorboard --logdir DIR"),                                        \
        OPTION_REFUSED("dry-run",                                                                  \
                       .help = "`lockstep models MODEL` shows a network without running it"),      \
        OPTION_REFUSED("noinstall", .accepts = "true 1",                                           \
                       .help = "this program never installs anything")

#define REFUSED_IN_TRAIN                                                                           \
    REFUSED_NUM_CORES(.letter = 'n', ),                                                            \
        OPTION_REFUSED("mode", .value = "NAME", .accepts = "training train",                       \
                       .help = "lockstep eval and lockstep bench are commands of their own"),      \
        OPTION_REFUSED("eval", .accepts = "false 0", .aliases = "accuracy-only",                   \
                       .help = "write lockstep eval"),                                             \
        OPTION_REFUSED("forward-only", .accepts = "false 0", .aliases = "benchmark-only",          \
                       .help = "write lockstep bench"),                                            \
        OPTION_REFUSED("enable-lars", .accepts = "false 0", .aliases = "use-larc",                 \
                       .help = "write --optimizer lars"),                                          \
        OPTION_REFUSED(                                                                            \
            "lr-decay-mode", .value = "NAME",                                                      \
            .help = "write --schedule polynomial:2 or --schedule piecewise:30=0.1,60=0.01"),       \
        OPTION_REFUSED("fine-tune", .accepts = "false 0",                                          \
                       .help = "training starts from new weights, and changes all of them"),       \
        OPTION_REFUSED("print-training-accuracy", .accepts = "true 1",                             \
                       .help = "the accuracy on training data is always shown")

#define REFUSED_IN_EVAL                                                                            \
    OPTION_REFUSED("trace-file", .value = "FILE",                                                  \
                   .help = "write lockstep bench --forward-only --trace FILE"),                    \
        REFUSED_NUM_CORES(.letter = 'n', )

#define REFUSED_IN_BENCH                                                                           \
    REFUSED_NUM_CORES(),                                                                           \
        OPTION_REFUSED("mode", .value = "NAME", .accepts = "training train",                       \
                       .help = "inference is measured with --forward-only"),                       \
        OPTION_REFUSED("benchmark-only", .accepts = "true 1",                                      \
                       .help = "this command only measures"),                                      \
        OPTION_REFUSED("eval", .accepts = "false 0", .aliases = "accuracy-only",                   \
                       .help = "write lockstep eval"),                                             \
        OPTION_REFUSED("epochs", .value = "N",                                                     \
                       .aliases = "num-epochs train-epochs num-train-epoch",                       \
                       .help = "a measurement counts steps; write --num-batches"),                 \
        OPTION_REFUSED("output-dir", .value = "DIR",                                               \
                       .aliases = "train-dir model-dir log-dir checkpoint checkpoint-dir",         \
                       .help = "a measurement keeps no weights; write lockstep train"),            \
        OPTION_REFUSED("save-model-secs", .value = "N", .accepts = "0",                            \
                       .aliases = "checkpoint-every save-checkpoints-steps keep-checkpoint-max",   \
                       .help = "a measurement keeps no weights; write lockstep train"),            \
        OPTION_REFUSED("fresh", .aliases = "clear-log",                                            \
                       .help = "a measurement always starts from new weights"),                    \
        OPTION_REFUSED("fine-tune", .accepts = "false 0",                                          \
                       .help = "a measurement always starts from new weights"),                    \
        OPTION_REFUSED("export-dir", .value = "DIR", .help = "a measurement exports no models"),   \
        OPTION_REFUSED("eval-every", .value = "N",                                                 \
                       .aliases = "eval-every-epochs epochs-between-evals eval-interval",          \
                       .help = "a measurement evaluates nothing; write lockstep train"),           \
        OPTION_REFUSED("target-accuracy", .value = "X",                                            \
                       .aliases = "stop-at-accuracy stop-at-top-1-accuracy stop-threshold",        \
                       .help = "a measurement trains for its time only; write lockstep train"),    \
        OPTION_REFUSED("schedule", .value = "NAME", .accepts = "constant",                         \
                       .aliases = "lr-decay-mode",                                                 \
                       .help = "the rate stays as it is in a measurement; write lockstep train"),  \
        OPTION_REFUSED("warmup-epochs", .value = "N", .accepts = "0",                              \
                       .help = "the rate stays as it is in a measurement; write lockstep train"),  \
        OPTION_REFUSED("enable-lars", .accepts = "false 0", .aliases = "use-larc",                 \
                       .help = "write --optimizer lars"),                                          \
        OPTION_REFUSED("verbose", .letter = 'v', .accepts = "false 0",                             \
                       .help = "write --display-every 1"),                                         \
        OPTION_REFUSED("print-training-accuracy", .accepts = "false 0",                            \
                       .help = "a measurement shows the loss only; write lockstep train")

#endif
