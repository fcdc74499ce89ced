/* Class folders: every file that claims to be a picture. */
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/gather.h"
#include "data/survey_internal.h"

enum { BLOCK = 64 }; /* pictures of one job */

struct folder_job {
    struct surveyor *surveyor;
    const struct gathering *gathering;
    enum dataset_split split;
};

/* Fails only when it is told to stop. */
static int visit_picture(const struct folder_job *job, const struct gathered_picture *picture,
                         uint8_t **buffer, size_t *capacity, struct error *err)
{
    char where[PATH_MAX];
    struct error failure = {0};
    gathered_describe(job->gathering, picture, where, sizeof where);
    if (gathered_read(job->gathering, picture, buffer, capacity, &failure) < 0) {
        if (failure.code == ERROR_CANCELLED)
            return error_set(err, failure.code, "%s", failure.message);
        surveyor_add_problem(job->surveyor, where, -1, failure.message);
        return 0;
    }
    struct survey_picture found = {.split = job->split,
                                   .file = where,
                                   .label = picture->label,
                                   .name = job->gathering->classes[picture->label],
                                   .encoded = *buffer,
                                   .bytes = picture->bytes};
    surveyor_add_picture(job->surveyor, &found);
    return 0;
}

static int visit_block(void *context, int64_t block, struct work_counts *counts, struct error *err)
{
    const struct folder_job *job = context;
    const struct gathered_split *split = &job->gathering->splits[job->split];
    uint8_t *buffer = NULL;
    size_t capacity = 0;
    int status = 0;
    for (int64_t i = block * BLOCK; status == 0 && i < (block + 1) * BLOCK && i < split->count;
         i++) {
        status = visit_picture(job, &split->pictures[i], &buffer, &capacity, err);
        work_count(counts, 1, split->pictures[i].bytes);
    }
    memory_free(buffer);
    return status;
}

int survey_folders(struct surveyor *surveyor, struct error *err)
{
    struct gathering *gathering;
    int status = 0;
    if (gather_folders(surveyor->path, surveyor->work->stop, &gathering, err) < 0)
        return -1;
    for (int i = 0; i < 2 && status == 0; i++) {
        const struct gathered_split *split = &gathering->splits[i];
        struct survey_split *found = &surveyor->survey->splits[i];
        struct folder_job job = {surveyor, gathering, i};
        found->there = split->count > 0;
        found->files = (int)split->count;
        for (int64_t p = 0; p < split->count; p++)
            found->bytes += split->pictures[p].bytes;
        status = work_run(surveyor->work, (split->count + BLOCK - 1) / BLOCK, split->count,
                          visit_block, &job, err);
    }
    gathering_destroy(gathering);
    return status;
}
