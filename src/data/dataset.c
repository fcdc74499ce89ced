#include "data/dataset.h"

#include "base/error.h"
#include "base/nearest.h"

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

static int unknown_kind(const char *spec, size_t length, struct error *err)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1),
             spec);
    struct nearest nearest;
    nearest_start(&nearest, word);
    for (int i = 0; all[i]; i++)
        nearest_offer(&nearest, all[i]->name);
    return error_set(err, ERROR_USAGE,
                     "there is no kind of data called '%s'%s%s%s (`datasets` lists them; a path "
                     "goes behind a colon, as in mnist:DIR)",
                     word, nearest.best ? "; did you mean '" : "", nearest.best ? nearest.best : "",
                     nearest.best ? "'?" : "");
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
    return unknown_kind(spec, length, err);
}
