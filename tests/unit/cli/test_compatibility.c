/* Every option of the programs that users come from is known here: honoured, another name for one
 * of ours, or refused with a reason. */
#include "support/test.h"

#include "base/memory.h"
#include "cli/command.h"

struct origin {
    const char *program, *command, *options;
};

static const struct origin origins[] = {
    {"launch_benchmark", "train",
     "model-name precision mode framework batch-size checkpoint data-location noinstall steps "
     "train_epochs epochs_between_evals kmp-blocktime kmp-affinity kmp-settings seed "
     "num-intra-threads num-inter-threads num-cores socket-id numa-cores-per-instance "
     "mpi_num_processes mpi_num_processes_per_socket mpi_hostnames output-dir benchmark-only "
     "accuracy-only dry-run verbose"},
    {"imagenet_main", "train",
     "batch_size max_train_steps train_epochs epochs_between_evals inter_op_parallelism_threads "
     "intra_op_parallelism_threads version resnet_size resnet_version data_dir model_dir "
     "stop_threshold enable_lars label_smoothing weight_decay fine_tune dtype loss_scale "
     "use_synthetic_data export_dir use_bfloat16 hooks"},
    {"tf_cnn_benchmarks", "bench",
     "model batch_size num_batches num_epochs num_warmup_batches display_every data_name data_dir "
     "device data_format optimizer variable_update horovod_device use_fp16 distortions eval "
     "train_dir save_model_secs mkl kmp_affinity kmp_blocktime kmp_settings num_intra_threads "
     "num_inter_threads forward_only trace_file weight_decay momentum print_training_accuracy "
     "stop_at_top_1_accuracy num_gpus"},
    {"tf_cnn_benchmarks", "train",
     "model batch_size num_batches num_epochs num_warmup_batches display_every data_name data_dir "
     "device data_format optimizer variable_update horovod_device use_fp16 distortions eval "
     "train_dir save_model_secs mkl kmp_affinity kmp_blocktime kmp_settings num_intra_threads "
     "num_inter_threads forward_only trace_file weight_decay momentum print_training_accuracy "
     "stop_at_top_1_accuracy num_gpus"},
    {"train_imagenet_resnet_hvd", "train",
     "num_batches num_epochs lr_decay_mode warmup_epochs lr mom wdecay loss_scale fp16 use_larc "
     "log_dir clear_log eval eval_interval save_checkpoints_steps display_every synthetic "
     "intra_op_parallelism_threads inter_op_parallelism_threads num_parallel_calls"},
    {"distributed MNIST", "train", "data_dir model_dir batch_size num_train_epoch run_tensorboard"},
};

TEST(compatibility, every_option_of_the_other_programs_is_known)
{
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
        const struct command *command = command_find(origins[i].command);
        const char *list = origins[i].options, *word;
        for (size_t length; (length = option_next_word(&list, &word)) > 0;)
            if (!option_find(command->options, word, length))
                FAIL("%s --%.*s is not known to lockstep %s", origins[i].program, (int)length, word,
                     command->name);
    }
}

TEST(compatibility, what_is_refused_says_why_in_one_line)
{
    for (const struct command *const *command = command_list(); *command; command++)
        for (const struct option *row = (*command)->options; row->type != OPTION_IS_END; row++) {
            if (row->type != OPTION_IS_REFUSED)
                continue;
            struct error err = {0};
            ASSERT_INT(option_set(row, row->name, "no such value", NULL, &err), ==, -1);
            ASSERT_INT(err.code, ==, ERROR_USAGE);
            ASSERT_CONTAINS(err.message, row->help);
            ASSERT_TRUE(!strchr(row->help, '\n') && row->help[strlen(row->help) - 1] != '.');
        }
}

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

static void parses(const char *line)
{
    char text[512], *words[48], *at = text;
    int count = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word; (word = strsep(&at, " ")) && count < 48;)
        words[count++] = word;
    const struct command *command = command_find(words[0]);
    void *settings = memory_allocate(command->settings_size);
    struct options options;
    struct error err = {0};
    if (options_parse(command->options, count - 1, words + 1, no_environment, settings, &options,
                      &err) < 0)
        FAIL("%s: %s", line, err.message);
    memory_free(settings);
}

/* Lines as the other programs' instructions have them, less what is refused for good reasons. */
TEST(compatibility, lines_that_ask_for_what_is_done_work_unchanged)
{
    parses("bench --model=vgg16 --batch_size=64 --num_batches=100 --device=cpu --mkl=True "
           "--variable_update=horovod --horovod_device cpu --num_intra_threads=2 "
           "--num_inter_threads=1 --nodistortions --use_fp16=False");
    parses("train --model-name resnet50 --precision=fp32 --mode=training --batch-size 16 "
           "--noinstall --output-dir out -a 2 --steps 50");
    parses("train resnet50 --batch_size 128 --max_train_steps 5 --resnet_size 50 --version 1 "
           "--intra_op_parallelism_threads 22 --data_dir=mnist:data --model_dir out");
}
