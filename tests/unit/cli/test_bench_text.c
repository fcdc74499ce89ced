/* The lines that scripts around tf_cnn_benchmarks read, byte for byte. */
#include "cli/bench_text.h"

#include "base/strbuf.h"
#include "cli/report.h"
#include "support/test.h"

static const char expected[] = "Model:       vgg16\n"
                               "Dataset:     synthetic\n"
                               "Mode:        training\n"
                               "SingleSess:  False\n"
                               "Batch size:  64 global\n"
                               "             64 per device\n"
                               "Num batches: 100\n"
                               "Num epochs:  0.64\n"
                               "Devices:     ['/cpu:0']\n"
                               "Data format: chosen by each kernel\n"
                               "Optimizer:   momentum\n"
                               "Variables:   independent\n"
                               "==========\n"
                               "Generating training model\n"
                               "Done warm up\n"
                               "Step\tImg/sec\ttotal_loss\n"
                               "1\timages/sec: 200.0 +/- 0.0 (jitter = 0.0)\t9.125\n"
                               "10\timages/sec: 215.8 +/- 3.1 (jitter = 2.6)\t8.493\n"
                               "----------------------------------------------------------------\n"
                               "total images/sec: 215.76\n"
                               "----------------------------------------------------------------\n";

TEST(bench_text, is_what_tf_cnn_benchmarks_prints)
{
    struct strbuf out;
    strbuf_init(&out);
    struct bench_header header = {.model = "vgg16",
                                  .data = "synthetic",
                                  .optimizer = "momentum",
                                  .batch = 64,
                                  .ranks = 1,
                                  .batches = 100,
                                  .epochs = 0.64};
    struct report_speed first = {.steps = 1, .mean_step_seconds = 64 / 200.0};
    struct report_speed tenth = {
        .steps = 10, .mean_step_seconds = 64 / 215.76, .uncertainty = 3.1, .jitter = 2.6};
    bench_text_header(&header, &out);
    bench_text_columns(&out);
    bench_text_step(1, 64, &first, 9.125, &out);
    bench_text_step(10, 64, &tenth, 8.4931, &out);
    bench_text_total(215.76, &out);
    ASSERT_TEXT(out.text, expected);
    strbuf_release(&out);
}

TEST(bench_text, names_the_ranks_and_the_mode)
{
    struct strbuf out;
    strbuf_init(&out);
    struct bench_header header = {.model = "vgg16",
                                  .data = "synthetic",
                                  .optimizer = "sgd",
                                  .batch = 64,
                                  .ranks = 4,
                                  .batches = 1,
                                  .forward_only = true};
    bench_text_header(&header, &out);
    ASSERT_CONTAINS(out.text, "Mode:        forward-only\n");
    ASSERT_CONTAINS(out.text, "Batch size:  256 global\n             64 per device\n");
    ASSERT_CONTAINS(out.text, "Variables:   horovod\nHorovod on:  cpu\n==========\n");
    strbuf_release(&out);
}
