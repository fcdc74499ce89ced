/* What tf_cnn_benchmarks prints, byte for byte where scripts read it. Pure: the same numbers give
 * the same text. */
#ifndef CLI_BENCH_TEXT_H
#define CLI_BENCH_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct strbuf;
struct report_speed;

struct bench_header {
    const char *model, *data, *optimizer;
    bool forward_only;
    int batch, ranks;
    int64_t batches;
    double epochs;
};

void bench_text_header(const struct bench_header *header, struct strbuf *out);
/* The line above the steps. */
void bench_text_columns(struct strbuf *out);
/* "10\timages/sec: 215.8 +/- 3.1 (jitter = 2.6)\t8.493" */
void bench_text_step(int64_t step, int batch, const struct report_speed *speed, double loss,
                     struct strbuf *out);
void bench_text_total(double images_per_second, struct strbuf *out);

#endif
