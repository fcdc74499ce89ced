/* Between the files survey*.c only. */
#ifndef DATA_SURVEY_INTERNAL_H
#define DATA_SURVEY_INTERNAL_H

#include <pthread.h>

#include "data/dataset.h"
#include "data/survey.h"
#include "data/work.h"

struct surveyor {
    const struct survey_options *options;
    const struct work *work;
    const char *path; /* behind the kind */
    struct pictures *pictures;
    pthread_mutex_t lock; /* guards all below; never held while a picture is decoded */
    struct survey *survey;
    bool no_memory;
};

/* A picture as it lies in a file. */
struct survey_picture {
    enum dataset_split split;
    const char *file;
    uint64_t offset;
    int label;
    const char *name; /* of its class, or "" */
    const uint8_t *encoded;
    size_t bytes;
};

/* From any thread. */
void surveyor_add_picture(struct surveyor *surveyor, const struct survey_picture *picture);
void surveyor_add_problem(struct surveyor *surveyor, const char *file, int64_t offset,
                          const char *message);
void surveyor_add_line(struct surveyor *surveyor, const struct dataset_place *place,
                       const char *message);
void surveyor_add_label(struct surveyor *surveyor, enum dataset_split split, int label,
                        const char *name);
bool surveyor_wants(const struct surveyor *surveyor, uint64_t rank);
/* Takes sample->picture.pixels over. */
void surveyor_add_sample(struct surveyor *surveyor, const struct survey_sample *sample);
void survey_range_add(struct survey_range *range, double value);

int survey_folders(struct surveyor *surveyor, struct error *err);
int survey_records(struct surveyor *surveyor, struct error *err);
int survey_fields(struct surveyor *surveyor, const struct dataset_kind *kind, struct error *err);

#endif
