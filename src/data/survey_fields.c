/* Any other kind of data: what its fields hold, through the same calls as a loader makes. */
#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/fingerprint.h"
#include "data/survey_internal.h"
#include "tensor/random.h"

enum { BLOCK = 256, /* examples of one job */ MAX_COLUMNS = 64 /* of a field, told apart */ };

struct fields_job {
    struct surveyor *surveyor;
    const struct dataset_kind *kind;
    struct dataset *dataset;
    enum dataset_split split;
    const struct dataset_field *fields;
    int field_count;
    int64_t count;
    int first_column[DATASET_MAX_FIELDS]; /* of each field, among the split's */
    uint64_t blank;                       /* the fingerprint of " ", as empty categories have it */
};

static bool is_label(const struct dataset_field *field)
{
    return strcmp(field->name, "label") == 0 && shape_count(&field->shape) == 1;
}

static bool is_picture(const struct dataset_field *field)
{
    return field->dtype == DTYPE_F32 && field->shape.ndim == 4 &&
           (field->shape.dim[3] == 1 || field->shape.dim[3] == 3);
}

/* A picture's pixels are one column; other fields have one for each number, up to a limit. */
static int columns_of(const struct dataset_field *field)
{
    int64_t count = shape_count(&field->shape);
    return is_picture(field) || count > MAX_COLUMNS ? 1 : (int)count;
}

static int make_columns(struct fields_job *job, struct error *err)
{
    struct survey_split *split = &job->surveyor->survey->splits[job->split];
    int count = 0;
    for (int i = 0; i < job->field_count; i++) {
        job->first_column[i] = count;
        count += columns_of(&job->fields[i]);
    }
    split->columns = memory_allocate((size_t)(count + 1) * sizeof *split->columns);
    if (!split->columns)
        return error_set(err, ERROR_MEMORY, "no memory for the columns");
    split->column_count = count;
    for (int i = 0; i < job->field_count; i++) {
        int columns = columns_of(&job->fields[i]);
        for (int c = 0; c < columns; c++) {
            char *name = split->columns[job->first_column[i] + c].name;
            if (columns == 1)
                snprintf(name, SURVEY_NAME_BYTES, "%s", job->fields[i].name);
            else
                snprintf(name, SURVEY_NAME_BYTES, "%s %d", job->fields[i].name, c + 1);
        }
    }
    return 0;
}

/* --- examples ------------------------------------------------------------------------------- */

static void add_float(struct survey_column *column, float value)
{
    if (isnan(value))
        column->missing++;
    else
        survey_range_add(&column->range, (double)value);
}

/* Numbers [count] of one example, into the columns of a job. */
static void add_numbers(const struct fields_job *job, const struct dataset_field *field,
                        const void *data, struct survey_column *columns)
{
    int64_t count = shape_count(&field->shape);
    bool together = columns_of(field) == 1;
    for (int64_t i = 0; i < count; i++) {
        struct survey_column *column = &columns[together ? 0 : i];
        if (field->dtype == DTYPE_F32) {
            add_float(column, ((const float *)data)[i]);
        } else if (field->dtype == DTYPE_I32) {
            survey_range_add(&column->range, ((const int32_t *)data)[i]);
        } else if (field->dtype == DTYPE_I64) {
            uint64_t value = (uint64_t)((const int64_t *)data)[i];
            bool missing = value == FINGERPRINT_MISSING || value == job->blank;
            column->missing += missing;
            if (!missing) /* a hash has no range worth telling */
                column->range.count++;
        }
    }
}

static const void *row_of(const struct tensor *tensor, const struct dataset_field *field, int row)
{
    return (const char *)tensor->data +
           (size_t)row * (size_t)shape_count(&field->shape) * dtype_bytes(field->dtype);
}

static int label_of(const struct fields_job *job, const struct tensor *batch, int row)
{
    for (int i = 0; i < job->field_count; i++) {
        if (!is_label(&job->fields[i]))
            continue;
        const void *data = row_of(&batch[i], &job->fields[i], row);
        return job->fields[i].dtype == DTYPE_F32   ? (int)*(const float *)data
               : job->fields[i].dtype == DTYPE_I32 ? *(const int32_t *)data
                                                   : -1;
    }
    return -1;
}

static uint8_t to_byte(float value, bool fractions)
{
    float byte = fractions ? 255 * value : value;
    return byte < 0 ? 0 : byte > 255 ? 255 : (uint8_t)byte;
}

static void add_sample(const struct fields_job *job, const struct dataset_field *field,
                       const float *pixels, uint64_t rank, int label)
{
    int height = (int)field->shape.dim[1], width = (int)field->shape.dim[2];
    int channels = (int)field->shape.dim[3];
    struct picture picture = {width, height, memory_allocate((size_t)width * (size_t)height * 3)};
    struct survey_sample sample = {.rank = rank, .label = label};
    struct error err;
    float largest = 0;
    for (int i = 0; i < width * height * channels; i++)
        largest = pixels[i] > largest ? pixels[i] : largest;
    for (int i = 0; picture.pixels && i < width * height * 3; i++)
        picture.pixels[i] = to_byte(channels == 3 ? pixels[i] : pixels[i / 3], largest <= 1);
    int longer = width > height ? width : height;
    if (picture.pixels &&
        picture_resize(&picture, width * SURVEY_THUMBNAIL / longer,
                       height * SURVEY_THUMBNAIL / longer, &sample.picture, &err) == 0)
        surveyor_add_sample(job->surveyor, &sample);
    memory_free(picture.pixels);
}

static void offer_sample(const struct fields_job *job, const struct tensor *batch, int row,
                         int64_t index)
{
    uint64_t rank =
        random_key(random_key(job->surveyor->options->seed, (uint64_t)job->split), (uint64_t)index);
    for (int i = 0; i < job->field_count; i++)
        if (is_picture(&job->fields[i]) && surveyor_wants(job->surveyor, rank)) {
            add_sample(job, &job->fields[i], row_of(&batch[i], &job->fields[i], row), rank,
                       label_of(job, batch, row));
            return;
        }
}

static void join_columns(struct survey_column *into, const struct survey_column *from)
{
    if (from->range.count > 0) {
        int64_t count = into->range.count;
        into->range.min =
            count == 0 || from->range.min < into->range.min ? from->range.min : into->range.min;
        into->range.max =
            count == 0 || from->range.max > into->range.max ? from->range.max : into->range.max;
        into->range.sum += from->range.sum;
        into->range.count += from->range.count;
    }
    into->missing += from->missing;
}

/* Fails only when it is told to stop. */
static int refuse_example(const struct fields_job *job, int64_t index, const struct error *failure,
                          struct error *err)
{
    if (failure->code == ERROR_CANCELLED)
        return error_set(err, failure->code, "%s", failure->message);
    if (job->kind->locate) {
        struct dataset_place place = job->kind->locate(job->dataset, index);
        surveyor_add_line(job->surveyor, &place, failure->message);
    } else {
        surveyor_add_problem(job->surveyor, job->surveyor->options->spec, -1, failure->message);
    }
    return 0;
}

static int visit_example(const struct fields_job *job, struct tensor *batch, int64_t index,
                         struct survey_column *columns, int64_t *read, struct error *err)
{
    struct error failure = {0};
    if (job->kind->read(job->dataset, index, 0, batch, 0, &failure) < 0)
        return refuse_example(job, index, &failure, err);
    for (int i = 0; i < job->field_count; i++)
        add_numbers(job, &job->fields[i], batch[i].data, columns + job->first_column[i]);
    int label = label_of(job, batch, 0);
    if (label >= 0)
        surveyor_add_label(job->surveyor, job->split, label, "");
    offer_sample(job, batch, 0, index);
    ++*read;
    return 0;
}

static int visit_block(void *context, int64_t block, struct work_counts *counts, struct error *err)
{
    const struct fields_job *job = context;
    struct survey_split *split = &job->surveyor->survey->splits[job->split];
    struct tensor batch[DATASET_MAX_FIELDS];
    struct arena *arena = arena_create();
    struct survey_column *columns =
        arena ? ARENA_ARRAY(arena, struct survey_column, split->column_count + 1) : NULL;
    int64_t read = 0, last = (block + 1) * BLOCK < job->count ? (block + 1) * BLOCK : job->count;
    int status = columns ? 0 : error_set(err, ERROR_MEMORY, "no memory for a batch");
    for (int i = 0; status == 0 && i < job->field_count; i++)
        status = tensor_create(arena, job->fields[i].dtype,
                               shape_with_batch(job->fields[i].shape, 1), &batch[i], err);
    for (int64_t i = block * BLOCK; status == 0 && i < last; i++)
        status = visit_example(job, batch, i, columns, &read, err);
    if (status == 0) {
        pthread_mutex_lock(&job->surveyor->lock);
        for (int i = 0; i < split->column_count; i++)
            join_columns(&split->columns[i], &columns[i]);
        split->examples += read;
        pthread_mutex_unlock(&job->surveyor->lock);
        work_count(counts, last - block * BLOCK, 0);
    }
    arena_destroy(arena);
    return status;
}

/* --- splits --------------------------------------------------------------------------------- */

static int visit_split(struct surveyor *surveyor, const struct dataset_kind *kind,
                       enum dataset_split split, struct error *err)
{
    struct dataset_request request = {.path = surveyor->path,
                                      .split = split,
                                      .examples = surveyor->options->examples,
                                      .seed = surveyor->options->seed,
                                      .keep_bad = true,
                                      .stop = surveyor->work->stop};
    struct fields_job job = {.surveyor = surveyor, .kind = kind, .split = split};
    job.blank = fingerprint64(" ", 1);
    if (kind->open(&request, &job.dataset, err) < 0)
        return -1;
    surveyor->survey->splits[split].there = true;
    job.field_count = kind->fields(job.dataset, &job.fields);
    job.count = kind->count(job.dataset);
    int status = make_columns(&job, err);
    if (status == 0 && job.field_count == 0)
        status = error_set(err, ERROR_USAGE, "%s has no fields of its own to look at", kind->name);
    if (status == 0)
        status = work_run(surveyor->work, (job.count + BLOCK - 1) / BLOCK, job.count, visit_block,
                          &job, err);
    kind->close(job.dataset);
    return status;
}

static bool is_unread(enum error_code code)
{
    return code == ERROR_IO || code == ERROR_ABSENT;
}

/* A kind that checks its files when it opens them has found what is damaged or cannot be read; a
 * split that is not there is no damage, unless neither is. */
int survey_fields(struct surveyor *surveyor, const struct dataset_kind *kind, struct error *err)
{
    struct error failures[2] = {{0}, {0}};
    for (int split = 0; split < 2; split++) {
        if (visit_split(surveyor, kind, split, &failures[split]) == 0)
            continue;
        if (failures[split].code == ERROR_FORMAT || failures[split].code == ERROR_IO)
            surveyor_add_problem(surveyor, surveyor->options->spec, -1, failures[split].message);
        else if (failures[split].code != ERROR_ABSENT) {
            if (err)
                *err = failures[split];
            return -1;
        }
    }
    if (is_unread(failures[0].code) && is_unread(failures[1].code)) {
        if (err)
            *err = failures[0];
        return -1;
    }
    return 0;
}
