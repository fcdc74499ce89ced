/* A look at every example of a set, for `data inspect` and `data verify`: how many, how large,
 * which labels, and what is damaged and where. */
#ifndef DATA_SURVEY_H
#define DATA_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "data/pictures.h"

struct error;
struct work;

enum {
    SURVEY_MAX_LABELS = 1 << 20,
    SURVEY_MAX_PROBLEMS = 10000, /* that are named; the others are counted */
    SURVEY_NAME_BYTES = 64,
    SURVEY_THUMBNAIL = 112,
};

struct survey_range {
    double min, max, sum;
    int64_t count;
};

struct survey_label {
    int64_t count;
    char name[SURVEY_NAME_BYTES]; /* "" when nothing but the number is known */
};

/* One number of each example: a column of a table, or all pixels of a picture together. */
struct survey_column {
    char name[SURVEY_NAME_BYTES];
    struct survey_range range;
    int64_t missing; /* categories without a text, numbers that are none */
};

struct survey_split {
    bool there;
    int64_t examples; /* that could be read */
    int files;
    uint64_t bytes;  /* of the files */
    int label_count; /* one more than the largest label */
    struct survey_label *labels;
    int64_t formats[2];                         /* by enum picture_format */
    int64_t channels[5];                        /* by their number */
    struct survey_range width, height, encoded; /* pixels, pixels, bytes */
    int column_count;
    struct survey_column *columns;
};

struct survey_problem {
    char *file, *message;
    int64_t offset; /* -1: of the file as a whole */
    int64_t line;   /* of a text, from 1; else 0 */
};

struct survey_sample {
    uint64_t rank; /* by chance; the samples with the smallest are kept */
    int label;
    char name[SURVEY_NAME_BYTES];
    struct picture picture; /* at most SURVEY_THUMBNAIL on a side */
};

struct survey {
    struct survey_split splits[2];   /* by enum dataset_split */
    int64_t damaged;                 /* examples and files */
    int64_t problem_count;           /* of those, the first SURVEY_MAX_PROBLEMS */
    struct survey_problem *problems; /* by file and offset */
    int sample_count;
    struct survey_sample *samples;
};

struct survey_options {
    const char *spec; /* KIND or KIND:PATH */
    bool decode;      /* every picture, not only its header */
    int samples;      /* of pictures to keep small copies of */
    int64_t examples; /* at most so many of each split, for kinds that draw; 0: all */
    uint64_t seed;
};

/* Damage is what it looks for, so it does not make it fail: see `problems`. Fails when there is no
 * such set. */
int survey_run(const struct survey_options *options, const struct work *work, struct survey **out,
               struct error *err);
void survey_destroy(struct survey *survey); /* accepts NULL */

#endif
