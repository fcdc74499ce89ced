/* MNIST's four files, with digits from handwriting.c. */
#include "base/error.h"
#include "base/memory.h"
#include "data/destination.h"
#include "data/handwriting.h"
#include "data/make.h"
#include "data/work.h"
#include "tensor/random.h"
#include "wire/gzip.h"

enum {
    DEFAULT_TRAIN = 60000,
    DEFAULT_EVALUATE = 10000,
    CLASSES = 10,
    BLOCK = 512, /* digits of one job */
    IMAGES_HEADER_BYTES = 16,
    LABELS_HEADER_BYTES = 8,
    MAX_DIGITS = 1 << 20, /* idx_read takes at most a gigabyte */
};

/* One split: the two files in memory. */
struct digits {
    int64_t count;
    uint64_t key;
    uint8_t *images, *labels; /* with their headers */
};

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static int draw_block(void *context, int64_t job, struct work_counts *counts, struct error *err)
{
    (void)err;
    struct digits *digits = context;
    int64_t first = job * BLOCK,
            last = first + BLOCK < digits->count ? first + BLOCK : digits->count;
    for (int64_t i = first; i < last; i++) {
        struct random stream = {.key = random_key(digits->key, (uint64_t)i)};
        int digit = (int)random_below(&stream, CLASSES);
        handwriting_draw(digit, random_next(&stream),
                         digits->images + IMAGES_HEADER_BYTES + i * HANDWRITING_PIXELS);
        digits->labels[LABELS_HEADER_BYTES + i] = (uint8_t)digit;
    }
    work_count(counts, last - first, (uint64_t)(last - first) * HANDWRITING_PIXELS);
    return 0;
}

static int write_packed(struct destination *destination, const char *name, const uint8_t *bytes,
                        size_t count, struct make_report *report, struct error *err)
{
    char *packed;
    size_t packed_bytes;
    if (gzip_pack(bytes, count, &packed, &packed_bytes, err) < 0)
        return -1;
    int status = destination_write(destination, name, packed, packed_bytes, err);
    memory_free(packed);
    report->files++;
    report->bytes += packed_bytes;
    return status;
}

static int draw(struct digits *digits, const struct work *work, struct error *err)
{
    digits->images =
        memory_allocate(IMAGES_HEADER_BYTES + (size_t)digits->count * HANDWRITING_PIXELS);
    digits->labels = memory_allocate(LABELS_HEADER_BYTES + (size_t)digits->count);
    if (!digits->images || !digits->labels)
        return error_set(err, ERROR_MEMORY, "no memory for the digits");
    put_u32(digits->images, 0x803);
    put_u32(digits->images + 4, (uint32_t)digits->count);
    put_u32(digits->images + 8, HANDWRITING_SIDE);
    put_u32(digits->images + 12, HANDWRITING_SIDE);
    put_u32(digits->labels, 0x801);
    put_u32(digits->labels + 4, (uint32_t)digits->count);
    return work_run(work, (digits->count + BLOCK - 1) / BLOCK, digits->count, draw_block, digits,
                    err);
}

static int make_split(struct destination *destination, const char *name, int64_t count,
                      const struct make_settings *settings, const struct work *work,
                      struct make_report *report, struct error *err)
{
    struct digits digits = {.count = count, .key = random_key_text(settings->seed, name)};
    char images[64], labels[64];
    snprintf(images, sizeof images, "%s-images-idx3-ubyte.gz", name);
    snprintf(labels, sizeof labels, "%s-labels-idx1-ubyte.gz", name);
    int status = -1;
    if (make_check_absent(destination, images, settings, err) == 0 &&
        make_check_absent(destination, labels, settings, err) == 0 &&
        draw(&digits, work, err) == 0 &&
        write_packed(destination, images, digits.images,
                     IMAGES_HEADER_BYTES + (size_t)count * HANDWRITING_PIXELS, report, err) == 0)
        status = write_packed(destination, labels, digits.labels,
                              LABELS_HEADER_BYTES + (size_t)count, report, err);
    memory_free(digits.images);
    memory_free(digits.labels);
    return status;
}

static int make_mnist(const struct make_settings *settings, const struct work *work,
                      struct make_report *out, struct error *err)
{
    struct make_report report = {
        .examples = settings->examples ? settings->examples : DEFAULT_TRAIN,
        .eval_examples = settings->eval_examples ? settings->eval_examples : DEFAULT_EVALUATE,
        .classes = CLASSES,
    };
    if (settings->classes && settings->classes != CLASSES)
        return error_set(err, ERROR_USAGE, "there are %d digits: leave --classes out", CLASSES);
    if (settings->image_size && settings->image_size != HANDWRITING_SIDE)
        return error_set(err, ERROR_USAGE, "digits are %d pixels wide: leave --image-size out",
                         HANDWRITING_SIDE);
    if (report.examples > MAX_DIGITS || report.eval_examples > MAX_DIGITS)
        return error_set(err, ERROR_USAGE, "at most %d digits go into one file", MAX_DIGITS);
    if (settings->shards[0] || settings->shards[1])
        return error_set(err, ERROR_USAGE, "MNIST's files are four: leave --%s-shards out",
                         settings->shards[0] ? "train" : "validation");
    struct destination *destination;
    if (destination_open(settings->directory, work->stop, &destination, err) < 0)
        return -1;
    int status = make_split(destination, "train", report.examples, settings, work, &report, err);
    if (status == 0)
        status =
            make_split(destination, "t10k", report.eval_examples, settings, work, &report, err);
    destination_close(destination);
    *out = report;
    return status;
}

const struct maker maker_mnist = {
    .name = "mnist",
    .summary = "drawn digits in MNIST's four files",
    .make = make_mnist,
};
