#include "cli/bench_text.h"

#include <inttypes.h>

#include "base/strbuf.h"
#include "cli/report.h"

void bench_text_header(const struct bench_header *header, struct strbuf *out)
{
    strbuf_addf(out, "Model:       %s\n", header->model);
    strbuf_addf(out, "Dataset:     %s\n", header->data);
    strbuf_addf(out, "Mode:        %s\n", header->forward_only ? "forward-only" : "training");
    strbuf_addf(out, "SingleSess:  False\n");
    strbuf_addf(out, "Batch size:  %d global\n", header->batch * header->ranks);
    strbuf_addf(out, "             %d per device\n", header->batch);
    strbuf_addf(out, "Num batches: %" PRId64 "\n", header->batches);
    strbuf_addf(out, "Num epochs:  %.2f\n", header->epochs);
    strbuf_addf(out, "Devices:     ['/cpu:0']\n");
    strbuf_addf(out, "Data format: chosen by each kernel\n");
    strbuf_addf(out, "Optimizer:   %s\n", header->optimizer);
    strbuf_addf(out, "Variables:   %s\n", header->ranks > 1 ? "horovod" : "independent");
    if (header->ranks > 1)
        strbuf_addf(out, "Horovod on:  cpu\n");
    strbuf_add(out, "==========\n");
    strbuf_addf(out, "Generating %s model\n", header->forward_only ? "forward-only" : "training");
}

void bench_text_columns(struct strbuf *out)
{
    strbuf_add(out, "Done warm up\nStep\tImg/sec\ttotal_loss\n");
}

void bench_text_step(int64_t step, int batch, const struct report_speed *speed, double loss,
                     struct strbuf *out)
{
    double mean = speed->mean_step_seconds > 0 ? batch / speed->mean_step_seconds : 0;
    strbuf_addf(out, "%" PRId64 "\timages/sec: %.1f +/- %.1f (jitter = %.1f)\t%.3f\n", step, mean,
                speed->uncertainty, speed->jitter, loss);
}

void bench_text_total(double images_per_second, struct strbuf *out)
{
    static const char dashes[] = "----------------------------------------------------------------";
    strbuf_addf(out, "%s\ntotal images/sec: %.2f\n%s\n", dashes, images_per_second, dashes);
}
