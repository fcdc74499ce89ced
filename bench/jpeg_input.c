/* jpeg_input [--threads N] [--seconds S] [--size PIXELS] [--evaluate] DIR: pictures a second from
 * the TFRecord shards of a directory (or its plain JPEG and PNG files) to augmented float batches,
 * as training takes them. Prints one line of JSON. */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "data/pictures.h"
#include "data/storage.h"
#include "tensor/random.h"
#include "wire/example.h"
#include "wire/tfrecord.h"

enum { BATCH = 128, BATCHES = 3 };

/* Where a picture is: the record, or the whole file, at `offset` of a file in memory. */
struct place {
    const uint8_t *file;
    size_t count;
    uint64_t offset;
    bool record;
};

struct bench {
    struct storage *storage;
    struct place *places;
    size_t place_count, place_room;
    struct pictures *pictures;
    float *batches;
    int size;
    bool evaluate;
    double end;
    atomic_llong next, bytes;
    atomic_bool failed;
};

static _Noreturn void die(const struct error *err)
{
    fprintf(stderr, "jpeg_input: %s\n", err->message);
    exit(1);
}

static void add_place(struct bench *bench, struct place place)
{
    if (bench->place_count == bench->place_room) {
        bench->place_room = bench->place_room * 2 + 1024;
        bench->places = memory_resize(bench->places, bench->place_room * sizeof *bench->places);
        if (!bench->places)
            die(&(struct error){.message = "no memory"});
    }
    bench->places[bench->place_count++] = place;
}

static void add_file(struct bench *bench, int index, const struct storage_file *file)
{
    const uint8_t *bytes;
    struct error err;
    struct picture_info info;
    if (file->bytes == 0)
        return;
    if (storage_map(bench->storage, index, &bytes, &err) < 0)
        die(&err);
    if (pictures_probe(bench->pictures, bytes, file->bytes, &info, NULL) == 0) {
        add_place(bench, (struct place){bytes, file->bytes, 0, false});
        return;
    }
    struct tfrecord record;
    uint64_t offset = 0;
    int more;
    while ((more = tfrecord_next(file->name, bytes, file->bytes, &offset, &record, &err)) > 0)
        add_place(bench, (struct place){bytes, file->bytes, record.offset, true});
    if (more < 0)
        die(&err);
}

/* The encoded picture; the checksum is looked at each time, as a loader would. */
static int find_picture(const struct place *place, const uint8_t **out, size_t *count,
                        struct error *err)
{
    static const char *const names[] = {"image/encoded"};
    struct tfrecord record;
    struct feature feature;
    uint64_t offset = place->offset;
    *out = place->file;
    *count = place->count;
    if (!place->record)
        return 0;
    if (tfrecord_next("shard", place->file, place->count, &offset, &record, err) < 0 ||
        example_find(record.data, record.bytes, names, 1, &feature, err) < 0)
        return -1;
    if (!feature_bytes(&feature, 0, out, count))
        return error_set(err, ERROR_FORMAT, "an example without image/encoded");
    return 0;
}

static int read_one(struct bench *bench, int64_t index, struct error *err)
{
    const uint8_t *bytes;
    size_t count;
    int64_t epoch = index / (int64_t)bench->place_count;
    int64_t at = random_permute(random_key(1, (uint64_t)epoch), (int64_t)bench->place_count,
                                index % (int64_t)bench->place_count);
    if (find_picture(&bench->places[at], &bytes, &count, err) < 0)
        return -1;
    size_t floats = (size_t)bench->size * (size_t)bench->size * 3;
    float *out = bench->batches + (size_t)(index % (BATCH * BATCHES)) * floats;
    atomic_fetch_add(&bench->bytes, (long long)count);
    if (bench->evaluate)
        return pictures_centre(bench->pictures, bytes, count, bench->size,
                               &picture_numbers_imagenet, out, err);
    return pictures_sample(bench->pictures, bytes, count, bench->size,
                           random_key(2, (uint64_t)index), &picture_numbers_imagenet, out, err);
}

static void *work(void *context)
{
    struct bench *bench = context;
    struct error err;
    while (clock_seconds() < bench->end)
        if (read_one(bench, atomic_fetch_add(&bench->next, 1), &err) < 0)
            die(&err);
    return NULL;
}

/* Of the whole process; unlike the time, hardly changed by what else the machine does. */
static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static double run(struct bench *bench, int threads, double seconds)
{
    pthread_t ids[256];
    double start = clock_seconds();
    bench->end = start + seconds;
    atomic_store(&bench->next, 0);
    atomic_store(&bench->bytes, 0);
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, bench);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return clock_seconds() - start;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"threads", 1, NULL, 't'},
                                            {"seconds", 1, NULL, 's'},
                                            {"size", 1, NULL, 'p'},
                                            {"evaluate", 0, NULL, 'e'},
                                            {0}};
    struct bench bench = {.size = 224};
    int threads = threads_available(), letter;
    double seconds = 5;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (letter) {
        case 't':
            threads = (int)strtol(optarg, NULL, 10);
            break;
        case 's':
            seconds = strtod(optarg, NULL);
            break;
        case 'p':
            bench.size = (int)strtol(optarg, NULL, 10);
            break;
        case 'e':
            bench.evaluate = true;
            break;
        default:
            return 2;
        }
    if (optind != argc - 1 || threads < 1 || threads > 256 || bench.size < 1)
        return 2;
    struct error err;
    const struct storage_file *files;
    if (storage_open(argv[optind], NULL, &bench.storage, &err) < 0 ||
        pictures_create(&bench.pictures, &err) < 0)
        die(&err);
    int count = storage_files(bench.storage, &files);
    for (int i = 0; i < count; i++)
        add_file(&bench, i, &files[i]);
    size_t floats = (size_t)bench.size * (size_t)bench.size * 3 * BATCH * BATCHES;
    bench.batches = memory_allocate(floats * sizeof(float));
    if (bench.place_count == 0 || !bench.batches)
        die(&(struct error){.message = "no pictures there"});
    run(&bench, threads, seconds / 5);
    uint64_t allocations = memory_allocation_count();
    double processor = processor_seconds();
    double took = run(&bench, threads, seconds);
    processor = processor_seconds() - processor;
    int64_t done = atomic_load(&bench.next);
    printf("{\"pictures_per_second\": %.1f, \"processor_ms_per_picture\": %.4f, "
           "\"mean_bytes\": %.0f, \"threads\": %d, "
           "\"pictures\": %" PRId64 ", \"allocations\": %" PRIu64 "}\n",
           (double)done / took, processor / (double)done * 1000,
           (double)atomic_load(&bench.bytes) / (double)done, threads, done,
           memory_allocation_count() - allocations);
    memory_free(bench.batches);
    memory_free(bench.places);
    pictures_destroy(bench.pictures);
    storage_close(bench.storage);
    return 0;
}
