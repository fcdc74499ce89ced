#include "data/row_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/strbuf.h"
#include "data/fingerprint.h"
#include "data/storage.h"

enum { CACHE_LINE = 64 };

/* At the start of the file; then minima, maxima, sums and sums of squares, then from `rows_offset` on the rows: categories,
 * numbers, label. */
struct header {
    char magic[8];
    uint64_t meaning;    /* fingerprint of what the columns mean, and of our format */
    uint64_t text_bytes; /* of the text, as it was */
    int64_t text_modified;
    int64_t rows, positive_rows;
    uint64_t row_bytes, rows_offset;
};

static const char MAGIC[8] = {'L', 'S', 'R', 'O', 'W', 'S', '0', '2'};

struct row_cache {
    const uint8_t *bytes;
    size_t byte_count;
    const uint8_t *rows;
    size_t row_bytes;
    int numeric_count, categorical_count;
};

static int cache_path(const struct row_text *text, char path[PATH_MAX], struct error *err)
{
    if (!storage_is_local(text->storage))
        return error_set(err, ERROR_USAGE,
                         "%s: parsed rows are kept beside the text, which must be on this machine; "
                         "leave out the data cache",
                         text->name);
    const char *slash = strrchr(text->name, '/');
    int directory = slash ? (int)(slash + 1 - text->name) : 0;
    if (snprintf(path, PATH_MAX, "%.*s.%s.rows", directory, text->name, text->name + directory) >=
        PATH_MAX)
        return error_set(err, ERROR_USAGE, "the path of the data is longer than %d bytes",
                         PATH_MAX);
    return 0;
}

/* Everything that decides what a row's numbers are. */
static int meaning_of(const struct row_parser *parser, enum dataset_split split, uint64_t *out,
                      struct error *err)
{
    const struct table_description *description = parser->description;
    struct strbuf text;
    strbuf_init(&text);
    strbuf_addf(&text, "%d %d %s|", description->skip_lines[split], description->trim,
                description->empty_text);
    for (int i = 0; i < description->column_count; i++)
        strbuf_addf(&text, "%d%d", (int)description->columns[i].kind,
                    description->columns[i].logarithm);
    for (int i = 0; i < description->label_value_count; i++)
        strbuf_addf(&text, "|%zu:%s", strlen(description->label_values[i]),
                    description->label_values[i]);
    bool failed = text.failed;
    *out = failed ? 0 : fingerprint64(text.text, text.length);
    strbuf_release(&text);
    return failed ? error_set(err, ERROR_MEMORY, "no memory for the row cache") : 0;
}

/* Two floats and two doubles for each column of numbers; the doubles first, so that they lie
 * aligned. */
static size_t statistics_bytes(const struct table_description *description)
{
    return (size_t)description->numeric_count * 2 * (sizeof(float) + sizeof(double));
}

/* Either way between the file and `statistics`. */
static void copy_statistics(uint8_t *file, int numeric_count,
                            const struct row_statistics *statistics, bool to_file)
{
    size_t wide = sizeof(double) * (size_t)numeric_count;
    size_t narrow = sizeof(float) * (size_t)numeric_count;
    struct {
        void *memory;
        size_t bytes;
    } parts[] = {{statistics->sum, wide},
                 {statistics->square_sum, wide},
                 {statistics->minimum, narrow},
                 {statistics->maximum, narrow}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (to_file)
            memcpy(file, parts[i].memory, parts[i].bytes);
        else
            memcpy(parts[i].memory, file, parts[i].bytes);
        file += parts[i].bytes;
    }
}

static int expected_header(const struct row_parser *parser, enum dataset_split split,
                           const struct row_text *text, struct header *out, struct error *err)
{
    const struct table_description *description = parser->description;
    size_t numbers = (size_t)description->numeric_count;
    *out = (struct header){.text_bytes = text->file_bytes, .text_modified = text->file_modified};
    memcpy(out->magic, MAGIC, sizeof MAGIC);
    /* Rounded up so that the categories of every row are aligned. */
    size_t row_bytes = (size_t)description->categorical_count * 8 + (numbers + 1) * 4;
    out->row_bytes = (row_bytes + 7) / 8 * 8;
    out->rows_offset =
        (sizeof *out + statistics_bytes(description) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return meaning_of(parser, split, &out->meaning, err);
}

static bool header_fits(const struct header *header, const struct header *expected,
                        uint64_t file_bytes)
{
    return memcmp(header->magic, expected->magic, sizeof header->magic) == 0 &&
           header->meaning == expected->meaning && header->text_bytes == expected->text_bytes &&
           header->text_modified == expected->text_modified &&
           header->row_bytes == expected->row_bytes &&
           header->rows_offset == expected->rows_offset && header->rows > 0 &&
           file_bytes >= header->rows_offset &&
           (file_bytes - header->rows_offset) / header->row_bytes == (uint64_t)header->rows &&
           (file_bytes - header->rows_offset) % header->row_bytes == 0;
}

static int map_cache(int descriptor, const char *path, size_t bytes, struct row_cache **out,
                     struct error *err)
{
    struct row_cache *cache = memory_allocate(sizeof *cache);
    if (!cache)
        return error_set(err, ERROR_MEMORY, "no memory for the row cache");
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) {
        memory_free(cache);
        return error_set(err, ERROR_IO, "%s: cannot map it: %s", path, strerror(errno));
    }
    cache->bytes = mapped;
    cache->byte_count = bytes;
    *out = cache;
    return 0;
}

static void take_header(struct row_cache *cache, const struct header *header,
                        const struct table_description *description,
                        struct row_statistics *statistics)
{
    cache->rows = cache->bytes + header->rows_offset;
    cache->row_bytes = header->row_bytes;
    cache->numeric_count = description->numeric_count;
    cache->categorical_count = description->categorical_count;
    statistics->rows = header->rows;
    statistics->positive_rows = header->positive_rows;
    copy_statistics((uint8_t *)cache->bytes + sizeof *header, description->numeric_count,
                    statistics, false);
}

int row_cache_open(const struct row_parser *parser, enum dataset_split split,
                   const struct row_text *text, struct row_statistics *statistics,
                   struct row_cache **out, struct error *err)
{
    char path[PATH_MAX];
    struct header expected, header;
    struct stat status;
    *out = NULL;
    if (cache_path(text, path, err) < 0 || expected_header(parser, split, text, &expected, err) < 0)
        return -1;
    int descriptor = file_open(path, NULL);
    if (descriptor < 0)
        return 0;
    int result = 0;
    if (fstat(descriptor, &status) == 0 &&
        pread(descriptor, &header, sizeof header, 0) == (ssize_t)sizeof header &&
        header_fits(&header, &expected, (uint64_t)status.st_size)) {
        result = map_cache(descriptor, path, (size_t)status.st_size, out, err);
        if (result == 0)
            take_header(*out, &header, parser->description, statistics);
    }
    close(descriptor);
    return result;
}

void row_cache_close(struct row_cache *cache)
{
    if (!cache)
        return;
    munmap((void *)cache->bytes, cache->byte_count);
    memory_free(cache);
}

/* Parses the rows of one piece of the text into their places. */
static int write_piece(const struct row_parser *parser, const struct row_text *text,
                       const struct row_index *index, int piece, const struct header *header,
                       uint8_t *rows, struct error *err)
{
    int64_t first, count;
    const char *at;
    row_index_piece(index, piece, &first, &count, &at);
    for (int64_t i = 0; i < count; i++) {
        uint8_t *row = rows + (size_t)(first + i) * header->row_bytes;
        int64_t *category = (int64_t *)(void *)row;
        float *numeric = (float *)(void *)(category + parser->description->categorical_count);
        at = csv_row_start(at, text->end);
        if (row_parse(parser, text, at, numeric, category,
                      numeric + parser->description->numeric_count, &at, err) < 0)
            return -1;
    }
    return 0;
}

static int write_rows(const struct row_parser *parser, const struct row_text *text,
                      const struct row_index *index, const struct header *header, uint8_t *rows,
                      struct error *err)
{
    int status = 0;
    int pieces = row_index_pieces(index);
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < pieces; i++) {
        struct error failure = {0};
        if (stop_check(text->stop, &failure) < 0 ||
            write_piece(parser, text, index, i, header, rows, &failure) < 0) {
#pragma omp critical
            {
                status = -1;
                if (err)
                    *err = failure;
            }
        }
    }
    return status;
}

static int fill_file(int descriptor, const struct row_parser *parser, const struct row_text *text,
                     const struct row_index *index, const struct header *header,
                     const struct row_statistics *statistics, struct error *err)
{
    size_t bytes = (size_t)header->rows_offset + (size_t)header->rows * (size_t)header->row_bytes;
    /* Space first: a mapped page that the disk has no room for would end the process. */
    int code = posix_fallocate(descriptor, 0, (off_t)bytes);
    if (code != 0)
        return error_set(err, ERROR_IO, "%zu bytes for it: %s", bytes, strerror(code));
    uint8_t *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED)
        return error_set(err, ERROR_IO, "cannot map it: %s", strerror(errno));
    memcpy(mapped, header, sizeof *header);
    copy_statistics(mapped + sizeof *header, parser->description->numeric_count, statistics, true);
    int status = write_rows(parser, text, index, header, mapped + header->rows_offset, err);
    if (munmap(mapped, bytes) < 0 || fsync(descriptor) < 0)
        return error_set(err, ERROR_IO, "%s", strerror(errno));
    return status;
}

int row_cache_write(const struct row_parser *parser, enum dataset_split split,
                    const struct row_text *text, const struct row_index *index,
                    const struct row_statistics *statistics, struct error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX + 32];
    struct header header;
    if (cache_path(text, path, err) < 0 || expected_header(parser, split, text, &header, err) < 0)
        return -1;
    header.rows = statistics->rows;
    header.positive_rows = statistics->positive_rows;
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    int descriptor = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return error_set(err, ERROR_IO, "%s: %s; leave out the data cache", temporary,
                         strerror(errno));
    int status = fill_file(descriptor, parser, text, index, &header, statistics, err);
    close(descriptor);
    if (status == 0 && rename(temporary, path) < 0)
        status = error_set(err, ERROR_IO, "cannot rename: %s", strerror(errno));
    if (status < 0) {
        unlink(temporary);
        return error_wrap(err, "row cache %s", path);
    }
    return 0;
}

void row_cache_read(const struct row_cache *cache, int64_t row, float *numeric, int64_t *category,
                    float *label)
{
    const uint8_t *at = cache->rows + (size_t)row * cache->row_bytes;
    size_t category_bytes = sizeof(int64_t) * (size_t)cache->categorical_count;
    size_t numeric_bytes = sizeof(float) * (size_t)cache->numeric_count;
    if (category)
        memcpy(category, at, category_bytes);
    if (numeric)
        memcpy(numeric, at + category_bytes, numeric_bytes);
    memcpy(label, at + category_bytes + numeric_bytes, sizeof *label);
}

void row_cache_expect(const struct row_cache *cache, int64_t row)
{
    const uint8_t *at = cache->rows + (size_t)row * cache->row_bytes;
    for (const uint8_t *end = at + cache->row_bytes; at < end; at += CACHE_LINE)
        __builtin_prefetch(at);
}
