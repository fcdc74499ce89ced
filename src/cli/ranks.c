#include "cli/ranks.h"

#include "base/error.h"
#include "base/json.h"

static int refuse(const char *variable, int64_t ranks, struct error *err)
{
    return error_set(err, ERROR_USAGE,
                     "%s names %lld ranks, but this version trains in one process; unset it to "
                     "train alone",
                     variable, (long long)ranks);
}

/* Workers and the chief train; an evaluator and parameter servers do not. */
static int64_t tf_config_ranks(const char *text)
{
    struct json *config = NULL;
    if (json_parse(text, strlen(text), &config, NULL) < 0)
        return 0;
    const struct json *cluster = json_get(config, "cluster");
    int64_t ranks = 0;
    if (cluster && json_get(cluster, "worker"))
        ranks += json_count(json_get(cluster, "worker"));
    if (cluster && json_get(cluster, "chief"))
        ranks += json_count(json_get(cluster, "chief"));
    json_release(config);
    return ranks;
}

int ranks_refuse_several(struct error *err)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = getenv(sizes[i]);
        long long ranks = text ? strtoll(text, NULL, 10) : 0;
        if (ranks > 1)
            return refuse(sizes[i], ranks, err);
    }
    const char *config = getenv("TF_CONFIG");
    int64_t ranks = config ? tf_config_ranks(config) : 0;
    return ranks > 1 ? refuse("TF_CONFIG", ranks, err) : 0;
}
