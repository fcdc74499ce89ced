#include "store/state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/manifest.h"
#include "wire/crc32c.h"

enum {
    VERSION = 1,
    MOST_AREAS = 24,
    NAME_BYTES = 24,
    PAGE_BYTES = 4096,
    HUGE_PAGE_BYTES = 2 << 20,
    MOST_TEXT_BYTES = 1 << 20,
};

static const char magic[8] = "lkstate";
static const char facts_name[] = "facts", manifest_name[] = "manifest";
static const char *const statistics_names[2] = {"statistics 0", "statistics 1"};

struct area {
    char name[NAME_BYTES];
    uint64_t first, bytes;
};

/* What changes with every commit, but for weights and slots. */
struct record {
    uint64_t sequence; /* of the commit */
    int64_t step, goal, origin, bucket_bytes;
    double loss, accuracy;
    float rate; /* of a step that is being applied */
    uint8_t finished, evaluated, statistics /* in which of the two places */, unused;
    uint32_t crc; /* of all before it */
    uint32_t unused_too;
};

/* The first page. */
struct header {
    char magic[sizeof magic];
    uint32_t version, area_count;
    struct area areas[MOST_AREAS];
    uint32_t crc; /* of all before it */
    uint32_t unused;
    /* 0: nothing is held. Else twice the sequence whose record counts, and 1 more while its step
     * is being applied. */
    _Atomic uint64_t word;
    struct record records[2]; /* by sequence */
};
static_assert(sizeof(struct header) <= PAGE_BYTES, "the header is one page");

struct state {
    int descriptor;
    struct header *header;
    size_t file_bytes;
    void *mapped[MOST_AREAS];
    int slots_taken;
    struct slab running; /* statistics of the params */
    bool holds;
    char trouble[256];
    state_hook *hook;
    void *hook_context;
};

/* --- the header ------------------------------------------------------------------------------ */

static uint32_t header_crc(const struct header *header)
{
    return crc32c(0, header, offsetof(struct header, crc));
}

static uint32_t record_crc(const struct record *record)
{
    return crc32c(0, record, offsetof(struct record, crc));
}

static uint64_t load_word(const struct state *state)
{
    return atomic_load(&state->header->word);
}

static struct record *current(const struct state *state)
{
    return &state->header->records[(load_word(state) >> 1) & 1];
}

static struct area *find_area(const struct state *state, const char *name)
{
    for (uint32_t i = 0; i < state->header->area_count; i++)
        if (!strcmp(state->header->areas[i].name, name))
            return &state->header->areas[i];
    return NULL;
}

static int area_index(const struct state *state, const struct area *area)
{
    return (int)(area - state->header->areas);
}

static size_t align_up(size_t bytes, size_t align)
{
    return (bytes + align - 1) & ~(align - 1);
}

static size_t alignment(size_t bytes)
{
    return bytes < HUGE_PAGE_BYTES ? PAGE_BYTES : HUGE_PAGE_BYTES;
}

static int grow_file(struct state *state, size_t bytes, struct error *err)
{
    if (ftruncate(state->descriptor, (off_t)bytes) < 0)
        return error_set(err, ERROR_MEMORY, "the memory that keeps the training: %s",
                         strerror(errno));
    state->file_bytes = bytes;
    return 0;
}

static int map_header(struct state *state, struct error *err)
{
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, state->descriptor, 0);
    if (page == MAP_FAILED)
        return error_set(err, ERROR_MEMORY, "the memory that keeps the training: %s",
                         strerror(errno));
    state->header = page;
    return 0;
}

/* --- what lies there: nothing is trusted ------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static bool unusable(struct state *state, const char *format,
                                                           ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(state->trouble, sizeof state->trouble, format, arguments);
    va_end(arguments);
    return false;
}

static bool areas_fit(struct state *state)
{
    const struct header *header = state->header;
    uint64_t end = PAGE_BYTES;
    for (uint32_t i = 0; i < header->area_count; i++) {
        const struct area *area = &header->areas[i];
        if (!memchr(area->name, '\0', NAME_BYTES) || area->first % PAGE_BYTES ||
            area->first < end || area->bytes > state->file_bytes ||
            area->first > state->file_bytes - area->bytes)
            return unusable(state, "its area %" PRIu32 " lies outside of it", i);
        end = area->first + area->bytes;
    }
    return true;
}

static bool is_count(int64_t number)
{
    return number >= 0 && number <= INT64_C(1) << 60;
}

static bool record_is_right(struct state *state)
{
    const struct record *record = current(state);
    if (record->crc != record_crc(record) || record->sequence != load_word(state) >> 1)
        return unusable(state, "the record of its last step is damaged");
    if (!is_count(record->step) || !is_count(record->goal) || !is_count(record->origin) ||
        !is_count(record->bucket_bytes) || record->statistics > 1)
        return unusable(state, "the record of its last step makes no sense");
    return true;
}

static const char *text_area(struct state *state, const char *name)
{
    struct area *area = find_area(state, name);
    if (!area || !area->bytes || area->bytes > MOST_TEXT_BYTES)
        return NULL;
    const char *text = state_area(state, name, area->bytes, NULL);
    return text && memchr(text, '\0', area->bytes) ? text : NULL;
}

static bool is_whole(struct state *state)
{
    const struct header *header = state->header;
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return unusable(state, "it is no state of a training");
    if (header->version != VERSION)
        return unusable(state, "another version of lockstep wrote it");
    if (header->area_count > MOST_AREAS || header->crc != header_crc(header))
        return unusable(state, "its header is damaged");
    if (!load_word(state))
        return false; /* its writer did not come so far */
    if (!areas_fit(state) || !record_is_right(state))
        return false;
    if (!text_area(state, facts_name) || !text_area(state, manifest_name))
        return unusable(state, "it does not say which run it is of");
    return true;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int format(struct state *state, struct error *err)
{
    struct header *header;
    if (grow_file(state, PAGE_BYTES, err) < 0 || (!state->header && map_header(state, err) < 0))
        return -1;
    header = state->header;
    *header = (struct header){.version = VERSION};
    memcpy(header->magic, magic, sizeof magic);
    header->crc = header_crc(header);
    return 0;
}

static int look(struct state *state, struct error *err)
{
    struct stat info;
    if (fstat(state->descriptor, &info) < 0)
        return error_set(err, ERROR_IO, "the memory that keeps the training: %s", strerror(errno));
    state->file_bytes = (size_t)info.st_size;
    if (state->file_bytes < PAGE_BYTES)
        return format(state, err);
    if (map_header(state, err) < 0)
        return -1;
    state->holds = is_whole(state);
    return state->holds ? 0 : state_clear(state, err);
}

int state_open(int descriptor, struct state **out, struct error *err)
{
    struct state *state = memory_allocate(sizeof *state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory to keep the training's state");
    state->descriptor = descriptor;
    if (look(state, err) < 0) {
        state_close(state);
        return -1;
    }
    *out = state;
    return 0;
}

static void unmap_areas(struct state *state)
{
    for (int i = 0; state->header && i < MOST_AREAS; i++) {
        if (state->mapped[i])
            munmap(state->mapped[i], align_up(state->header->areas[i].bytes, PAGE_BYTES));
        state->mapped[i] = NULL;
    }
}

void state_close(struct state *state)
{
    if (!state)
        return;
    unmap_areas(state);
    if (state->header)
        munmap(state->header, PAGE_BYTES);
    memory_free(state);
}

int state_clear(struct state *state, struct error *err)
{
    unmap_areas(state);
    state->holds = false;
    state->slots_taken = 0;
    atomic_store(&state->header->word, 0);
    /* What is cut off comes back as zeros. */
    if (grow_file(state, PAGE_BYTES, err) < 0)
        return -1;
    return format(state, err);
}

/* --- areas ------------------------------------------------------------------------------------ */

/* A huge page must begin at the same place in the file and in memory. */
static void *map_area(const struct state *state, const struct area *area)
{
    size_t align = alignment(area->bytes), bytes = align_up(area->bytes, PAGE_BYTES);
    char *room = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t before = (align - (uintptr_t)room % align) % align;
    char *place = room + before;
    void *mapped = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        state->descriptor, (off_t)area->first);
    if (before)
        munmap(room, before);
    munmap(place + bytes, align - before);
    if (mapped == MAP_FAILED) {
        munmap(place, bytes);
        return NULL;
    }
    if (align == HUGE_PAGE_BYTES)
        madvise(mapped, bytes, MADV_HUGEPAGE); /* an advice: small pages work too */
    return mapped;
}

static struct area *add_area(struct state *state, const char *name, size_t bytes, struct error *err)
{
    struct header *header = state->header;
    size_t first = align_up(state->file_bytes, alignment(bytes));
    if (header->area_count == MOST_AREAS || strlen(name) >= NAME_BYTES) {
        error_set(err, ERROR_MEMORY, "no place for %s in the memory that keeps the training", name);
        return NULL;
    }
    if (grow_file(state, first + align_up(bytes, PAGE_BYTES), err) < 0)
        return NULL;
    struct area *area = &header->areas[header->area_count];
    *area = (struct area){.first = first, .bytes = bytes};
    memcpy(area->name, name, strlen(name));
    header->area_count++;
    header->crc = header_crc(header);
    return area;
}

void *state_area(struct state *state, const char *name, size_t bytes, struct error *err)
{
    struct area *area = find_area(state, name);
    if (!area && load_word(state)) {
        error_set(err, ERROR_FORMAT, "the memory that keeps the training has no %s", name);
        return NULL;
    }
    if (!area)
        area = add_area(state, name, bytes, err);
    if (!area)
        return NULL;
    if (area->bytes != bytes) {
        error_set(err, ERROR_FORMAT,
                  "the memory that keeps the training has %" PRIu64 " bytes of %s, this run %zu",
                  area->bytes, name, bytes);
        return NULL;
    }
    void **mapped = &state->mapped[area_index(state, area)];
    if (!*mapped && bytes)
        *mapped = map_area(state, area);
    if (!*mapped)
        error_set(err, ERROR_MEMORY, "no memory for %zu bytes of %s: %s", bytes, name,
                  strerror(errno));
    return *mapped;
}

#ifndef MADV_POPULATE_WRITE
enum { MADV_POPULATE_WRITE = 23 }; /* of Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
enum { MADV_COLLAPSE = 25 }; /* of Linux 6.1 */
#endif

static bool is_slab(const char *name)
{
    return !strcmp(name, "weights") || !strcmp(name, "gradients") || !strncmp(name, "slot ", 5);
}

void state_settle(struct state *state)
{
    for (uint32_t i = 0; i < state->header->area_count; i++) {
        const struct area *area = &state->header->areas[i];
        if (!state->mapped[i] || area->bytes < HUGE_PAGE_BYTES || !is_slab(area->name))
            continue;
        madvise(state->mapped[i], area->bytes,
                MADV_POPULATE_WRITE); /* what is not there stays small */
        madvise(state->mapped[i], area->bytes, MADV_COLLAPSE);
    }
}

size_t state_bytes(const struct state *state)
{
    return state->file_bytes;
}

/* --- for params ------------------------------------------------------------------------------- */

static void *take_statistics(struct state *state, size_t bytes, struct error *err)
{
    for (int i = 0; i < 2; i++)
        if (!state_area(state, statistics_names[i], bytes, err))
            return NULL;
    return slab_create(bytes, "statistics", &state->running, err) < 0 ? NULL : state->running.data;
}

/* The file is as large as asked for whatever there is; what is missing would end the process later. */
static int check_room(const char *what, size_t bytes, struct error *err)
{
    size_t available = memory_available_bytes();
    if (bytes <= available)
        return 0;
    return error_set(err, ERROR_MEMORY, "no memory for the %s: %zu MiB needed, %zu MiB left", what,
                     bytes >> 20, available >> 20);
}

static void *take(void *context, const char *what, size_t bytes, struct error *err)
{
    struct state *state = context;
    char name[NAME_BYTES];
    if (!strcmp(what, "statistics"))
        return take_statistics(state, bytes, err);
    bool slot = !strcmp(what, "optimizer state");
    if (slot)
        snprintf(name, sizeof name, "slot %d", state->slots_taken);
    else
        snprintf(name, sizeof name, "%s", what);
    if (!state->holds && check_room(what, bytes, err) < 0)
        return NULL;
    state->slots_taken += slot;
    return state_area(state, name, bytes, err);
}

static void give_back(void *context, void *memory, size_t bytes)
{
    struct state *state = context;
    (void)bytes;
    if (memory == state->running.data)
        slab_release(&state->running);
}

struct params_memory state_memory(struct state *state)
{
    state->slots_taken = 0;
    return (struct params_memory){take, give_back, state};
}

/* --- what is held ----------------------------------------------------------------------------- */

bool state_holds(const struct state *state)
{
    return state->holds;
}

const char *state_trouble(const struct state *state)
{
    return state->trouble;
}

int64_t state_step(const struct state *state)
{
    return state->holds ? current(state)->step : -1;
}

const char *state_facts(const struct state *state)
{
    return state->mapped[area_index(state, find_area(state, facts_name))];
}

int state_manifest(const struct state *state, struct arena *arena, struct manifest *out,
                   struct error *err)
{
    const char *text = state->mapped[area_index(state, find_area(state, manifest_name))];
    const struct record *record = current(state);
    if (manifest_parse("the state in memory", text, strlen(text), arena, out, err) < 0)
        return -1;
    out->step = record->step;
    out->goal = record->goal;
    out->origin = record->origin;
    out->finished = record->finished;
    out->bucket_bytes = record->bucket_bytes;
    out->epoch = out->steps_per_epoch ? out->step / out->steps_per_epoch : 0;
    out->epoch_step = out->steps_per_epoch ? out->step % out->steps_per_epoch : 0;
    out->evaluated = record->evaluated;
    out->loss = record->loss;
    out->accuracy = record->accuracy;
    return 0;
}

static int put_text(struct state *state, const char *name, const char *text, struct error *err)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > MOST_TEXT_BYTES)
        return error_set(err, ERROR_USAGE, "%zu bytes of %s are too many to keep", bytes, name);
    char *place = state_area(state, name, bytes, err);
    if (!place)
        return -1;
    memcpy(place, text, bytes);
    return 0;
}

int state_describe(struct state *state, const char *facts, const struct manifest *manifest,
                   struct error *err)
{
    char *text;
    if (manifest_compose(manifest, &text, err) < 0)
        return -1;
    int status = put_text(state, facts_name, facts, err);
    if (status == 0)
        status = put_text(state, manifest_name, text, err);
    memory_free(text);
    return status;
}

const float *state_statistics(const struct state *state)
{
    const struct area *area = find_area(state, statistics_names[current(state)->statistics]);
    return area ? state->mapped[area_index(state, area)] : NULL;
}

/* --- commits ---------------------------------------------------------------------------------- */

void state_set_hook(struct state *state, state_hook *hook, void *context)
{
    state->hook = hook;
    state->hook_context = context;
}

void state_pass(const struct state *state, enum state_point point)
{
    if (state->hook)
        state->hook(state->hook_context, point);
}

/* Into the place that does not count. */
static uint8_t put_statistics(struct state *state, const float *statistics)
{
    uint8_t now = state->holds ? current(state)->statistics : 0;
    if (!statistics)
        return now;
    const struct area *area = find_area(state, statistics_names[!now]);
    void *place = area ? state->mapped[area_index(state, area)] : NULL;
    if (place)
        memcpy(place, statistics, area->bytes);
    return !now;
}

static uint64_t put_record(struct state *state, const struct saver_moment *moment, float rate,
                           const float *statistics)
{
    uint64_t sequence = (load_word(state) >> 1) + 1; /* so the record that counts is left alone */
    struct record record = {.sequence = sequence,
                            .step = moment->step,
                            .goal = moment->goal,
                            .origin = moment->origin,
                            .bucket_bytes = moment->bucket_bytes,
                            .loss = moment->loss,
                            .accuracy = moment->accuracy,
                            .rate = rate,
                            .finished = moment->finished,
                            .evaluated = moment->evaluated,
                            .statistics = put_statistics(state, statistics)};
    record.crc = record_crc(&record);
    state->header->records[sequence & 1] = record;
    return sequence;
}

/* Nothing that the program does before it can come after it, nor the other way round. */
static void set_word(struct state *state, uint64_t word)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&state->header->word, word, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    state->holds = true;
}

void state_commit(struct state *state, const struct saver_moment *moment, const float *statistics)
{
    uint64_t sequence = put_record(state, moment, 0, statistics);
    set_word(state, sequence << 1);
}

uint64_t state_begin(struct state *state, const struct saver_moment *moment, float rate,
                     const float *statistics)
{
    uint64_t sequence = put_record(state, moment, rate, statistics);
    state_pass(state, STATE_WRITTEN);
    set_word(state, sequence << 1 | 1);
    state_pass(state, STATE_BEGUN);
    return sequence;
}

void state_end(struct state *state)
{
    set_word(state, load_word(state) & ~UINT64_C(1));
    state_pass(state, STATE_FINISHED);
}

bool state_unfinished(const struct state *state, struct state_update *out)
{
    uint64_t word = load_word(state);
    if (!(word & 1))
        return false;
    const struct record *record = current(state);
    *out = (struct state_update){word >> 1, record->step, record->rate};
    return true;
}
