/* norms [ROUNDS [FIRST]]: batch norm's passes at ResNet-50's sizes, batch 32, from the FIRST of them on (0), in
 * blocks of 16 channels: the kernels by turns, storing as usual and past the caches. Before each pass the
 * caches hold something else, then x, as behind a convolution; after it the result is read, as the next
 * convolution does. Medians, in milliseconds: the pass + that reading. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/norm.h"

enum {
    BATCH = 32,
    LANES = 16,
    MOST_ROUNDS = 99,
    MOST_CHANNELS = 2048,
    VARIANTS = 4,
    ELSEWHERE = 2
};

static const size_t large = (size_t)BATCH * 64 * 112 * 112; /* floats of the largest */

static const struct size {
    int channels, side;
} sizes[] = {{64, 112}, {256, 56}, {512, 28}, {64, 56}, {1024, 14}, {128, 28},
             {2048, 7}, {256, 14}, {512, 7},  {64, 14}, {64, 7}};

/* The arrays of one pass; all of one size. */
static struct {
    float *x, *residual, *y, *g[2], *elsewhere;
    uint8_t *mask;
    float factors[5][MOST_CHANNELS];
    double sums[2][BATCH * MOST_CHANNELS];
} all;

struct run {
    const struct norm_kernels *kernels;
    struct norm_segment segment;
    int64_t segments, blocks;
};

struct at {
    size_t element, mask, channel, partial;
};

static struct at place(const struct run *run, int64_t i)
{
    size_t elements = run->segment.spatial * LANES;
    return (struct at){(size_t)i * elements, (size_t)i * elements / 8,
                       (size_t)(i % run->blocks) * LANES, (size_t)i * LANES};
}

static void sum_of(const struct run *run, const float *x)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < run->segments; i++) {
        struct at at = place(run, i);
        run->kernels->sum(&run->segment, x + at.element, all.factors[0] + at.channel,
                          all.sums[0] + at.partial, all.sums[1] + at.partial);
    }
}

static void apply(const struct run *run, bool relu, const float *residual)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < run->segments; i++) {
        struct at at = place(run, i);
        run->kernels->apply(&run->segment, all.x + at.element,
                            residual ? residual + at.element : NULL, all.factors[0] + at.channel,
                            all.factors[1] + at.channel, all.factors[2] + at.channel, relu,
                            all.y + at.element, relu ? all.mask + at.mask : NULL);
    }
}

static void reduce(const struct run *run, int count, float *out)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < run->segments; i++) {
        struct at at = place(run, i);
        float *g[] = {all.g[0] + at.element, all.g[1] + at.element};
        run->kernels->reduce(&run->segment, g, count, all.mask + at.mask, all.x + at.element,
                             all.factors[0] + at.channel, out ? out + at.element : NULL,
                             all.sums[0] + at.partial, all.sums[1] + at.partial);
    }
}

static void propagate(const struct run *run, const uint8_t *mask, float *dx)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < run->segments; i++) {
        struct at at = place(run, i);
        float *g[] = {all.g[0] + at.element};
        run->kernels->propagate(&run->segment, g, 1, mask ? mask + at.mask : NULL,
                                all.x + at.element, all.factors[0] + at.channel,
                                all.factors[1] + at.channel, all.factors[2] + at.channel,
                                all.factors[3] + at.channel, dx + at.element);
    }
}

/* Each returns what it wrote, or NULL. */
static const float *sums(const struct run *run)
{
    sum_of(run, all.x);
    return NULL;
}

static const float *apply_plain(const struct run *run)
{
    apply(run, false, NULL);
    return all.y;
}

static const float *apply_relu(const struct run *run)
{
    apply(run, true, NULL);
    return all.y;
}

static const float *apply_add(const struct run *run)
{
    apply(run, true, all.residual);
    return all.y;
}

static const float *reduce_one(const struct run *run)
{
    reduce(run, 1, NULL);
    return NULL;
}

static const float *reduce_two(const struct run *run)
{
    reduce(run, 2, all.y);
    return all.y;
}

static const float *reduce_in_place(const struct run *run)
{
    reduce(run, 2, all.g[0]);
    return all.g[0];
}

static const float *propagate_away(const struct run *run)
{
    propagate(run, NULL, all.y);
    return all.y;
}

static const float *propagate_in_place(const struct run *run)
{
    propagate(run, all.mask, all.g[0]);
    return all.g[0];
}

static const struct pass {
    const char *name;
    const float *(*run)(const struct run *run);
} passes[] = {{"sum", sums},
              {"apply", apply_plain},
              {"apply, ReLU", apply_relu},
              {"apply, add, ReLU", apply_add},
              {"reduce 1", reduce_one},
              {"reduce 2, write", reduce_two},
              {"reduce 2, in place", reduce_in_place},
              {"propagate", propagate_away},
              {"propagate, in place", propagate_in_place}};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void measure(const struct pass *pass, const struct size *size, int rounds)
{
    static double took[VARIANTS][MOST_ROUNDS], reading[VARIANTS][MOST_ROUNDS];
    const struct norm_kernels *kernels[VARIANTS] = {&norm_kernels_avx2, &norm_kernels_avx2,
                                                    &norm_kernels_avx512, &norm_kernels_avx512};
    struct run elsewhere = {
        &norm_kernels_avx2, {.spatial = 112 * 112, .lanes = LANES}, BATCH * 4 * ELSEWHERE, 4};
    for (int round = -1; round < rounds; round++)
        for (int v = 0; v < VARIANTS; v++) {
            if (!kernels[v]->fits(LANES))
                continue;
            struct run run = {.kernels = kernels[v],
                              .segment = {.spatial = (size_t)(size->side * size->side),
                                          .lanes = LANES,
                                          .stream = v % 2},
                              .segments = (int64_t)BATCH * size->channels / LANES,
                              .blocks = size->channels / LANES};
            struct run plain = run;
            plain.segment.stream = false;
            sum_of(&elsewhere, all.elsewhere);
            sum_of(&plain, all.x);
            double start = clock_seconds();
            const float *result = pass->run(&run);
            double middle = clock_seconds();
            if (result)
                sum_of(&plain, result);
            if (round >= 0) {
                took[v][round] = middle - start;
                reading[v][round] = clock_seconds() - middle;
            }
        }
    printf("%5d x %3d  %-20s", size->channels, size->side, pass->name);
    for (int v = 0; v < VARIANTS; v++)
        if (kernels[v]->fits(LANES))
            printf("  %7.2f + %5.2f", 1e3 * median(took[v], rounds),
                   1e3 * median(reading[v], rounds));
    putchar('\n');
}

static float *drawn(size_t count, struct error *err)
{
    struct slab slab;
    if (slab_create(count * sizeof(float), "an array", &slab, err) < 0)
        return NULL;
    slab_touch(&slab);
    float *values = slab.data;
    for (size_t k = 0; k < count; k++)
        values[k] = (float)(k * 7 % 13) - 6;
    return values;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return 2;
    float **arrays[] = {&all.x, &all.residual, &all.y, &all.g[0], &all.g[1], &all.elsewhere};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = drawn(ELSEWHERE * large, &err)))
            return fprintf(stderr, "norms: %s\n", err.message), 1;
    all.mask = (uint8_t *)all.residual + large * sizeof(float); /* behind it: bits as good as any */
    for (int f = 0; f < 5; f++)
        for (int c = 0; c < MOST_CHANNELS; c++)
            all.factors[f][c] = f == 1 ? 0.5f : 0.25f;
    printf("channels, pixels, pass            avx2             avx2, past     avx512           "
           "avx512, past\n");
    for (size_t s = argc > 2 ? strtoul(argv[2], NULL, 10) : 0; s < sizeof sizes / sizeof *sizes;
         s++)
        for (size_t p = 0; p < sizeof passes / sizeof *passes; p++)
            measure(&passes[p], &sizes[s], rounds);
    return 0;
}
