#include "serve/config.h"

#include <inttypes.h>
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"
#include "wire/text_proto.h"

struct source {
    const char *file;
    struct arena *arena;
    struct error *err;
};

static bool is(const struct text_proto *field, const char *name)
{
    return strcmp(field->name, name) == 0;
}

static int unknown(const struct source *in, const struct text_proto *field)
{
    return text_proto_fail(in->file, field, in->err, "there is no such field here");
}

static int no_memory(const struct source *in)
{
    return error_set(in->err, ERROR_MEMORY, "no memory for %s", in->file);
}

static int count_fields(const struct text_proto *first, const char *name)
{
    int count = 0;
    for (; first; first = first->next)
        count += is(first, name);
    return count;
}

static int open_text(const struct source *in, const char *text, size_t bytes,
                     const struct text_proto **first)
{
    struct text_proto *root;
    if (bytes > CONFIG_MAX_BYTES)
        return error_set(in->err, ERROR_FORMAT, "%s: %zu bytes; at most %d", in->file, bytes,
                         CONFIG_MAX_BYTES);
    if (text_proto_read(in->file, text, bytes, in->arena, &root, in->err) < 0)
        return -1;
    *first = root->first;
    return 0;
}

/* --- models ---------------------------------------------------------------------------------- */

static int read_latest(const struct source *in, const struct text_proto *field,
                       struct model_config *model)
{
    int64_t count;
    for (; field; field = field->next) {
        if (!is(field, "num_versions"))
            return unknown(in, field);
        if (text_proto_integer(in->file, field, &count, in->err) < 0)
            return -1;
        if (count < 1 || count > CONFIG_MAX_VERSIONS)
            return text_proto_fail(in->file, field, in->err, "1 to %d", CONFIG_MAX_VERSIONS);
        model->latest = (int)count;
    }
    return 0;
}

static int read_specific(const struct source *in, const struct text_proto *field,
                         struct model_config *model)
{
    int count = count_fields(field, "versions");
    if (count > CONFIG_MAX_VERSIONS)
        return text_proto_fail(in->file, field, in->err, "more than %d", CONFIG_MAX_VERSIONS);
    int64_t *versions = ARENA_ARRAY(in->arena, int64_t, count + 1);
    if (!versions)
        return no_memory(in);
    for (; field; field = field->next) {
        int64_t *version = &versions[model->version_count];
        if (!is(field, "versions"))
            return unknown(in, field);
        if (text_proto_integer(in->file, field, version, in->err) < 0)
            return -1;
        if (*version < 0)
            return text_proto_fail(in->file, field, in->err, "versions are not negative");
        model->version_count++;
    }
    model->versions = versions;
    return 0;
}

static int read_policy(const struct source *in, const struct text_proto *field,
                       struct model_config *model)
{
    int choices = 0;
    for (; field; field = field->next, choices++) {
        const struct text_proto *inside;
        if (!is(field, "latest") && !is(field, "all") && !is(field, "specific"))
            return unknown(in, field);
        if (choices > 0)
            return text_proto_fail(in->file, field, in->err, "only one policy can be chosen");
        if (text_proto_message(in->file, field, &inside, in->err) < 0)
            return -1;
        model->policy = is(field, "latest") ? POLICY_LATEST
                        : is(field, "all")  ? POLICY_ALL
                                            : POLICY_SPECIFIC;
        if (model->policy == POLICY_ALL && inside)
            return unknown(in, inside);
        if (model->policy == POLICY_LATEST && read_latest(in, inside, model) < 0)
            return -1;
        if (model->policy == POLICY_SPECIFIC && read_specific(in, inside, model) < 0)
            return -1;
        if (model->policy == POLICY_SPECIFIC && model->version_count == 0)
            return text_proto_fail(in->file, field, in->err, "needs at least one of `versions`");
    }
    return 0;
}

static int read_label(const struct source *in, const struct text_proto *field,
                      struct version_label *out)
{
    const struct text_proto *inside;
    if (text_proto_message(in->file, field, &inside, in->err) < 0)
        return -1;
    *out = (struct version_label){.name = "", .version = 0};
    for (; inside; inside = inside->next) {
        if (is(inside, "key")) {
            if (text_proto_text(in->file, inside, &out->name, in->err) < 0)
                return -1;
        } else if (is(inside, "value")) {
            if (text_proto_integer(in->file, inside, &out->version, in->err) < 0)
                return -1;
        } else {
            return unknown(in, inside);
        }
    }
    return 0;
}

static int check_platform(const struct source *in, const struct text_proto *field)
{
    const char *platform;
    if (text_proto_text(in->file, field, &platform, in->err) < 0)
        return -1;
    if (*platform && strcmp(platform, "tensorflow") != 0)
        return text_proto_fail(in->file, field, in->err,
                               "'%.64s' is not served here, only 'tensorflow'", platform);
    return 0;
}

static int read_model_field(const struct source *in, const struct text_proto *field,
                            struct model_config *model, struct version_label *labels)
{
    const struct text_proto *inside;
    if (is(field, "name"))
        return text_proto_text(in->file, field, &model->name, in->err);
    if (is(field, "base_path"))
        return text_proto_text(in->file, field, &model->base_path, in->err);
    if (is(field, "model_platform"))
        return check_platform(in, field);
    if (is(field, "model_type")) {
        if (strcmp(field->text, "TENSORFLOW") == 0 || strcmp(field->text, "1") == 0)
            return 0;
        return text_proto_fail(in->file, field, in->err, "only TENSORFLOW is served here");
    }
    if (is(field, "model_version_policy"))
        return text_proto_message(in->file, field, &inside, in->err) < 0
                   ? -1
                   : read_policy(in, inside, model);
    if (is(field, "version_labels"))
        return read_label(in, field, &labels[model->label_count++]);
    if (is(field, "logging_config"))
        return text_proto_fail(in->file, field, in->err,
                               "requests are not sampled into files here; take it out, and write "
                               "--access-log for a line per request");
    return unknown(in, field);
}

static int read_model(const struct source *in, const struct text_proto *field,
                      struct model_config *model)
{
    const struct text_proto *inside;
    if (text_proto_message(in->file, field, &inside, in->err) < 0)
        return -1;
    int label_count = count_fields(inside, "version_labels");
    struct version_label *labels = ARENA_ARRAY(in->arena, struct version_label, label_count + 1);
    if (!labels)
        return no_memory(in);
    *model = (struct model_config){.name = "", .base_path = "", .latest = 1, .labels = labels};
    for (; inside; inside = inside->next)
        if (read_model_field(in, inside, model, labels) < 0)
            return -1;
    return 0;
}

static int read_list(const struct source *in, const struct text_proto *field,
                     struct model_config *models, struct model_list *out)
{
    const struct text_proto *inside;
    if (text_proto_message(in->file, field, &inside, in->err) < 0)
        return -1;
    for (; inside; inside = inside->next) {
        if (!is(inside, "config"))
            return unknown(in, inside);
        if (read_model(in, inside, &models[out->count]) < 0)
            return -1;
        out->count++;
    }
    return 0;
}

static int check_labels(const struct model_config *model, struct error *err)
{
    for (int i = 0; i < model->label_count; i++) {
        if (!*model->labels[i].name)
            return error_set(err, ERROR_FORMAT, "model '%s': a label without a name", model->name);
        for (int j = 0; j < i; j++)
            if (strcmp(model->labels[i].name, model->labels[j].name) == 0)
                return error_set(err, ERROR_FORMAT, "model '%s': the label '%s' stands there twice",
                                 model->name, model->labels[i].name);
    }
    return 0;
}

static int check_model(const struct model_config *model, struct error *err)
{
    if (!model->name || !*model->name)
        return error_set(err, ERROR_FORMAT, "a model without a name");
    if (strpbrk(model->name, "/:"))
        return error_set(err, ERROR_FORMAT,
                         "model '%s': a name with / or : cannot be asked for in a path",
                         model->name);
    if (!model->base_path || !*model->base_path)
        return error_set(err, ERROR_FORMAT, "model '%s' has no base_path", model->name);
    if (strstr(model->base_path, "://"))
        return error_set(err, ERROR_FORMAT,
                         "model '%s': %s: models are served from a file system; mount the store "
                         "there, or copy the versions into a directory and give that",
                         model->name, model->base_path);
    return check_labels(model, err);
}

int config_check_models(const struct model_list *models, struct error *err)
{
    for (int i = 0; i < models->count; i++) {
        if (check_model(&models->models[i], err) < 0)
            return -1;
        for (int j = 0; j < i; j++)
            if (strcmp(models->models[i].name, models->models[j].name) == 0)
                return error_set(err, ERROR_FORMAT, "model '%s' stands there twice",
                                 models->models[i].name);
    }
    return 0;
}

bool config_wants(const struct model_config *config, int64_t version)
{
    for (int i = 0; i < config->version_count; i++)
        if (config->versions[i] == version)
            return true;
    return config->policy != POLICY_SPECIFIC;
}

/* Of all lists of the text, which protobuf takes for one. */
static int count_models(const struct source *in, const struct text_proto *field, int *count)
{
    *count = 0;
    for (; field; field = field->next) {
        const struct text_proto *inside;
        if (!is(field, "model_config_list"))
            return is(field, "custom_model_config")
                       ? text_proto_fail(in->file, field, in->err,
                                         "only model_config_list is understood here")
                       : unknown(in, field);
        if (text_proto_message(in->file, field, &inside, in->err) < 0)
            return -1;
        *count += count_fields(inside, "config");
    }
    if (*count > CONFIG_MAX_MODELS)
        return error_set(in->err, ERROR_FORMAT, "%s: %d models; at most %d", in->file, *count,
                         CONFIG_MAX_MODELS);
    return 0;
}

int config_read_models(const char *name, const char *text, size_t bytes, struct arena *arena,
                       struct model_list *out, struct error *err)
{
    struct source in = {name, arena, err};
    const struct text_proto *first;
    struct model_list list = {0};
    int count;
    if (open_text(&in, text, bytes, &first) < 0 || count_models(&in, first, &count) < 0)
        return -1;
    struct model_config *models = ARENA_ARRAY(arena, struct model_config, count + 1);
    if (!models)
        return no_memory(&in);
    for (; first; first = first->next)
        if (read_list(&in, first, models, &list) < 0)
            return -1;
    list.models = models;
    if (config_check_models(&list, err) < 0)
        return error_wrap(err, "%s", name);
    *out = list;
    return 0;
}

/* --- the small ones -------------------------------------------------------------------------- */

/* `name { value: N }`, as the wrapped numbers of protobuf are written; `name: N` will do. */
static int read_wrapped(const struct source *in, const struct text_proto *field, int64_t low,
                        int64_t *out)
{
    const struct text_proto *value = field;
    if (field->kind == TEXT_PROTO_MESSAGE) {
        value = field->first;
        if (!value || !is(value, "value") || value->next)
            return text_proto_fail(in->file, field, in->err, "{ value: N } is wanted");
    }
    if (text_proto_integer(in->file, value, out, in->err) < 0)
        return -1;
    if (*out < low || *out > INT_MAX)
        return text_proto_fail(in->file, field, in->err, "%" PRId64 " is not in %" PRId64 " to %d",
                               *out, low, INT_MAX);
    return 0;
}

static int read_batching_field(const struct source *in, const struct text_proto *field,
                               struct batching_config *out)
{
    if (is(field, "max_batch_size"))
        return read_wrapped(in, field, 1, &out->max_batch_size);
    if (is(field, "batch_timeout_micros")) {
        out->timeout_given = true;
        return read_wrapped(in, field, 0, &out->batch_timeout_micros);
    }
    if (is(field, "max_enqueued_batches"))
        return read_wrapped(in, field, 1, &out->max_enqueued_batches);
    if (is(field, "num_batch_threads"))
        return read_wrapped(in, field, 1, &out->num_batch_threads);
    if (is(field, "allowed_batch_sizes"))
        return text_proto_fail(in->file, field, in->err,
                               "plans are made for 1, 2, 4 ... max_batch_size; take it out");
    if (is(field, "thread_pool_name") || is(field, "enable_large_batch_splitting") ||
        is(field, "max_execution_batch_size") || is(field, "pad_variable_length_inputs"))
        return text_proto_fail(in->file, field, in->err,
                               "has no meaning here (large requests are always split, inputs have "
                               "fixed lengths); take it out");
    return unknown(in, field);
}

int config_read_batching(const char *name, const char *text, size_t bytes,
                         struct batching_config *out, struct error *err)
{
    struct source in = {name, arena_create(), err};
    const struct text_proto *first = NULL;
    struct batching_config config = {0};
    int status = in.arena ? open_text(&in, text, bytes, &first) : no_memory(&in);
    for (; status == 0 && first; first = first->next)
        status = read_batching_field(&in, first, &config);
    arena_destroy(in.arena);
    if (status == 0)
        *out = config;
    return status;
}

int config_read_ssl(const char *name, const char *text, size_t bytes, struct arena *arena,
                    struct ssl_config *out, struct error *err)
{
    struct source in = {name, arena, err};
    const struct text_proto *field;
    struct ssl_config config = {0};
    if (open_text(&in, text, bytes, &field) < 0)
        return -1;
    for (int status = 0; field; field = field->next) {
        if (is(field, "server_key"))
            status = text_proto_text(name, field, &config.server_key, err);
        else if (is(field, "server_cert"))
            status = text_proto_text(name, field, &config.server_cert, err);
        else if (is(field, "custom_ca"))
            status = text_proto_text(name, field, &config.custom_ca, err);
        else if (is(field, "client_verify"))
            status = text_proto_bool(name, field, &config.client_verify, err);
        else
            status = unknown(&in, field);
        if (status < 0)
            return -1;
    }
    if (!config.server_key || !config.server_cert)
        return error_set(err, ERROR_FORMAT, "%s: server_key and server_cert are needed", name);
    if (config.client_verify && !config.custom_ca)
        return error_set(err, ERROR_FORMAT,
                         "%s: client_verify needs custom_ca, who signs the clients' certificates",
                         name);
    *out = config;
    return 0;
}

static int read_prometheus(const struct source *in, const struct text_proto *field,
                           struct monitoring_config *out)
{
    for (int status = 0; field; field = field->next) {
        if (is(field, "enable"))
            status = text_proto_bool(in->file, field, &out->enable, in->err);
        else if (is(field, "path"))
            status = text_proto_text(in->file, field, &out->path, in->err);
        else
            status = unknown(in, field);
        if (status < 0)
            return -1;
    }
    return 0;
}

int config_read_monitoring(const char *name, const char *text, size_t bytes, struct arena *arena,
                           struct monitoring_config *out, struct error *err)
{
    struct source in = {name, arena, err};
    const struct text_proto *field, *inside;
    struct monitoring_config config = {0};
    if (open_text(&in, text, bytes, &field) < 0)
        return -1;
    for (; field; field = field->next) {
        if (!is(field, "prometheus_config"))
            return unknown(&in, field);
        if (text_proto_message(name, field, &inside, err) < 0 ||
            read_prometheus(&in, inside, &config) < 0)
            return -1;
    }
    if (config.path && config.path[0] != '/')
        return error_set(err, ERROR_FORMAT, "%s: the path begins with /", name);
    *out = config;
    return 0;
}
