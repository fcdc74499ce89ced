#include "data/survey.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/survey_internal.h"
#include "tensor/random.h"

void survey_range_add(struct survey_range *range, double value)
{
    range->min = range->count == 0 || value < range->min ? value : range->min;
    range->max = range->count == 0 || value > range->max ? value : range->max;
    range->sum += value;
    range->count++;
}

/* --- problems ------------------------------------------------------------------------------- */

/* A total order, so that which ones are named does not depend on which thread was first. */
static int compare_problems(const void *a, const void *b)
{
    const struct survey_problem *x = a, *y = b;
    int order = strcmp(x->file, y->file);
    if (!order)
        order = x->offset < y->offset ? -1 : x->offset > y->offset;
    return order ? order : strcmp(x->message, y->message);
}

/* Lets go of all but the first that are named. */
static void sort_problems(struct survey *survey)
{
    if (survey->problem_count)
        qsort(survey->problems, (size_t)survey->problem_count, sizeof *survey->problems,
              compare_problems);
    while (survey->problem_count > SURVEY_MAX_PROBLEMS) {
        struct survey_problem *last = &survey->problems[--survey->problem_count];
        memory_free(last->file);
        memory_free(last->message);
    }
}

static void add_problem(struct surveyor *surveyor, const struct survey_problem *found)
{
    struct survey *survey = surveyor->survey;
    struct survey_problem copy = *found;
    pthread_mutex_lock(&surveyor->lock);
    survey->damaged++;
    copy.file = memory_copy_text(found->file);
    copy.message = memory_copy_text(found->message);
    if (!survey->problems)
        survey->problems = memory_allocate(2 * SURVEY_MAX_PROBLEMS * sizeof *survey->problems);
    if (copy.file && copy.message && survey->problems) {
        survey->problems[survey->problem_count++] = copy;
        if (survey->problem_count == 2 * SURVEY_MAX_PROBLEMS)
            sort_problems(survey);
    } else {
        surveyor->no_memory = true;
        memory_free(copy.file);
        memory_free(copy.message);
    }
    pthread_mutex_unlock(&surveyor->lock);
}

void surveyor_add_problem(struct surveyor *surveyor, const char *file, int64_t offset,
                          const char *message)
{
    add_problem(surveyor, &(struct survey_problem){.file = (char *)file, /* both are copied */
                                                   .message = (char *)message,
                                                   .offset = offset});
}

void surveyor_add_line(struct surveyor *surveyor, const struct dataset_place *place,
                       const char *message)
{
    add_problem(surveyor, &(struct survey_problem){.file = (char *)place->file,
                                                   .message = (char *)message,
                                                   .offset = place->offset,
                                                   .line = place->line});
}

/* --- labels and samples --------------------------------------------------------------------- */

/* With the lock held. */
static void count_label(struct surveyor *surveyor, struct survey_split *split, int label,
                        const char *name)
{
    if (label >= split->label_count) {
        void *larger = memory_resize(split->labels, (size_t)(label + 1) * sizeof *split->labels);
        if (!larger) {
            surveyor->no_memory = true;
            return;
        }
        split->labels = larger;
        memset(split->labels + split->label_count, 0,
               (size_t)(label + 1 - split->label_count) * sizeof *split->labels);
        split->label_count = label + 1;
    }
    split->labels[label].count++;
    if (!split->labels[label].name[0])
        snprintf(split->labels[label].name, SURVEY_NAME_BYTES, "%s", name);
}

void surveyor_add_label(struct surveyor *surveyor, enum dataset_split split, int label,
                        const char *name)
{
    pthread_mutex_lock(&surveyor->lock);
    if (label >= 0 && label < SURVEY_MAX_LABELS)
        count_label(surveyor, &surveyor->survey->splits[split], label, name);
    pthread_mutex_unlock(&surveyor->lock);
}

/* The kept sample that goes first. */
static int worst_sample(const struct survey *survey)
{
    int worst = 0;
    for (int i = 1; i < survey->sample_count; i++)
        if (survey->samples[i].rank > survey->samples[worst].rank)
            worst = i;
    return worst;
}

bool surveyor_wants(const struct surveyor *surveyor, uint64_t rank)
{
    struct surveyor *shared = (struct surveyor *)surveyor; /* its lock changes, nothing else */
    const struct survey *survey = surveyor->survey;
    pthread_mutex_lock(&shared->lock);
    bool wants = survey->sample_count < surveyor->options->samples ||
                 (survey->sample_count > 0 && rank < survey->samples[worst_sample(survey)].rank);
    pthread_mutex_unlock(&shared->lock);
    return wants;
}

void surveyor_add_sample(struct surveyor *surveyor, const struct survey_sample *sample)
{
    struct survey *survey = surveyor->survey;
    pthread_mutex_lock(&surveyor->lock);
    int place = survey->sample_count < surveyor->options->samples ? survey->sample_count++
                                                                  : worst_sample(survey);
    struct survey_sample gone = survey->samples[place];
    /* Others may have come since surveyor_wants: what is kept must not depend on who was first. */
    bool worse = gone.picture.pixels && gone.rank <= sample->rank;
    if (!worse)
        survey->samples[place] = *sample;
    pthread_mutex_unlock(&surveyor->lock);
    memory_free(worse ? sample->picture.pixels : gone.picture.pixels);
}

static int compare_samples(const void *a, const void *b)
{
    const struct survey_sample *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* --- pictures ------------------------------------------------------------------------------- */

static int thumbnail(const struct picture *picture, struct picture *out, struct error *err)
{
    int longer = picture->width > picture->height ? picture->width : picture->height;
    int width = picture->width * SURVEY_THUMBNAIL / longer;
    int height = picture->height * SURVEY_THUMBNAIL / longer;
    return picture_resize(picture, width > 0 ? width : 1, height > 0 ? height : 1, out, err);
}

/* Decodes the picture if it is to be checked or shown. */
static int look_closer(struct surveyor *surveyor, const struct survey_picture *picture,
                       struct error *err)
{
    uint64_t rank =
        random_key(random_key_text(surveyor->options->seed, picture->file), picture->offset);
    bool wanted = surveyor_wants(surveyor, rank);
    struct picture decoded = {0};
    if (!wanted && !surveyor->options->decode)
        return 0;
    if (pictures_decode(surveyor->pictures, picture->encoded, picture->bytes, &decoded, err) < 0)
        return -1;
    struct survey_sample sample = {.rank = rank, .label = picture->label};
    int status = wanted ? thumbnail(&decoded, &sample.picture, err) : 0;
    memory_free(decoded.pixels);
    if (wanted && status == 0) {
        snprintf(sample.name, sizeof sample.name, "%s", picture->name);
        surveyor_add_sample(surveyor, &sample);
    }
    return status;
}

void surveyor_add_picture(struct surveyor *surveyor, const struct survey_picture *picture)
{
    struct picture_info info;
    struct error err = {0};
    if (pictures_probe(surveyor->pictures, picture->encoded, picture->bytes, &info, &err) < 0 ||
        look_closer(surveyor, picture, &err) < 0) {
        surveyor_add_problem(surveyor, picture->file, (int64_t)picture->offset, err.message);
        return;
    }
    if (picture->label < 0 || picture->label >= SURVEY_MAX_LABELS) {
        surveyor_add_problem(surveyor, picture->file, (int64_t)picture->offset,
                             "its label is missing or not a class");
        return;
    }
    pthread_mutex_lock(&surveyor->lock);
    struct survey_split *split = &surveyor->survey->splits[picture->split];
    split->examples++;
    split->formats[info.format]++;
    split->channels[info.channels >= 0 && info.channels < 5 ? info.channels : 0]++;
    survey_range_add(&split->width, info.width);
    survey_range_add(&split->height, info.height);
    survey_range_add(&split->encoded, (double)picture->bytes);
    count_label(surveyor, split, picture->label, picture->name);
    pthread_mutex_unlock(&surveyor->lock);
}

/* --- all of it ------------------------------------------------------------------------------ */

static int visit(struct surveyor *surveyor, struct error *err)
{
    const struct dataset_kind *kind;
    if (dataset_find(surveyor->options->spec, &kind, &surveyor->path, err) < 0 ||
        pictures_create(&surveyor->pictures, err) < 0)
        return -1;
    bool records = strcmp(kind->name, "imagenet") == 0, folders = strcmp(kind->name, "images") == 0;
    if ((records || folders) && !surveyor->path)
        return error_set(err, ERROR_USAGE, "%s needs a directory: %s:DIR", kind->name, kind->name);
    if ((records || folders) && surveyor->options->examples)
        return error_set(err, ERROR_USAGE, "of %s everything is looked at: leave --examples out",
                         kind->name);
    return records   ? survey_records(surveyor, err)
           : folders ? survey_folders(surveyor, err)
                     : survey_fields(surveyor, kind, err);
}

static int prepare(struct surveyor *surveyor, struct error *err)
{
    surveyor->survey = memory_allocate(sizeof *surveyor->survey);
    if (surveyor->survey)
        surveyor->survey->samples = memory_allocate((size_t)(surveyor->options->samples + 1) *
                                                    sizeof *surveyor->survey->samples);
    return surveyor->survey && surveyor->survey->samples
               ? 0
               : error_set(err, ERROR_MEMORY, "no memory for a survey");
}

int survey_run(const struct survey_options *options, const struct work *work, struct survey **out,
               struct error *err)
{
    struct surveyor surveyor = {.options = options, .work = work};
    pthread_mutex_init(&surveyor.lock, NULL);
    int status = prepare(&surveyor, err);
    if (status == 0)
        status = visit(&surveyor, err);
    if (status == 0 && surveyor.no_memory)
        status = error_set(err, ERROR_MEMORY, "no memory for all that was found");
    pthread_mutex_destroy(&surveyor.lock);
    pictures_destroy(surveyor.pictures);
    if (status < 0) {
        survey_destroy(surveyor.survey);
        return -1;
    }
    struct survey *survey = surveyor.survey;
    sort_problems(survey);
    qsort(survey->samples, (size_t)survey->sample_count, sizeof *survey->samples, compare_samples);
    *out = survey;
    return 0;
}

void survey_destroy(struct survey *survey)
{
    if (!survey)
        return;
    for (int i = 0; i < 2; i++) {
        memory_free(survey->splits[i].labels);
        memory_free(survey->splits[i].columns);
    }
    for (int64_t i = 0; i < survey->problem_count; i++) {
        memory_free(survey->problems[i].file);
        memory_free(survey->problems[i].message);
    }
    for (int i = 0; i < survey->sample_count; i++)
        memory_free(survey->samples[i].picture.pixels);
    memory_free(survey->problems);
    memory_free(survey->samples);
    memory_free(survey);
}
