#include "data/dataset.h"

#include "base/error.h"

#define DATASET(name) extern const struct dataset_kind dataset_##name;
#include "datasets.list"
#undef DATASET

static const struct dataset_kind *const all[] = {
#define DATASET(name) &dataset_##name,
#include "datasets.list"
#undef DATASET
    NULL,
};

const struct dataset_kind *const *dataset_list(void)
{
    return all;
}

enum { LONGEST_KIND = 32 };

/* Levenshtein's distance, one row at a time; `a` is cut at LONGEST_KIND. */
static int edit_distance(const char *a, size_t a_length, const char *b)
{
    int row[LONGEST_KIND + 1];
    if (a_length > LONGEST_KIND)
        a_length = LONGEST_KIND;
    for (size_t i = 0; i <= a_length; i++)
        row[i] = (int)i;
    for (size_t j = 0; b[j]; j++) {
        int diagonal = row[0];
        row[0] = (int)j + 1;
        for (size_t i = 0; i < a_length; i++) {
            int replaced = diagonal + (a[i] != b[j]);
            int shorter = row[i] < row[i + 1] ? row[i] + 1 : row[i + 1] + 1;
            diagonal = row[i + 1];
            row[i + 1] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[a_length];
}

static const char *nearest_kind(const char *word, size_t length)
{
    const char *nearest = all[0]->name;
    for (int i = 1; all[i]; i++)
        if (edit_distance(word, length, all[i]->name) < edit_distance(word, length, nearest))
            nearest = all[i]->name;
    return nearest;
}

int dataset_find(const char *spec, const struct dataset_kind **kind, const char **path,
                 struct error *err)
{
    size_t length = strcspn(spec, ":");
    for (int i = 0; all[i]; i++) {
        if (strlen(all[i]->name) == length && strncmp(spec, all[i]->name, length) == 0) {
            *kind = all[i];
            *path = spec[length] == ':' && spec[length + 1] ? spec + length + 1 : NULL;
            return 0;
        }
    }
    return error_set(err, ERROR_USAGE,
                     "there is no kind of data called '%.*s'; did you mean '%s'? "
                     "(`datasets` lists them; a path goes behind a colon, as in mnist:DIR)",
                     (int)(length > 64 ? 64 : length), spec, nearest_kind(spec, length));
}
