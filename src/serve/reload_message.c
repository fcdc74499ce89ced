/* ReloadConfigRequest: the same ModelServerConfig that a configuration file holds, in binary. */
#include <inttypes.h>
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"
#include "serve/config.h"
#include "serve/model_message.h"

enum {
    MODEL_NAME = 1,
    MODEL_PATH = 2,
    MODEL_TYPE = 3,
    MODEL_PLATFORM = 4,
    MODEL_LOGGING = 6,
    MODEL_POLICY = 7,
    MODEL_LABELS = 8
};
enum { MOST_METRICS = 256 };

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the request");
}

/* ---- which versions ------------------------------------------------------------------------- */

static int read_latest(struct proto_reader *reader, struct model_config *config, struct error *err)
{
    struct proto_field field;
    int more;
    config->policy = POLICY_LATEST;
    config->latest = 1;
    while ((more = proto_next(reader, &field, err)) > 0)
        if (field.number == 1) {
            if (proto_expect(reader, &field, PROTO_VARINT, err) < 0)
                return -1;
            if (field.value > CONFIG_MAX_VERSIONS)
                return error_set(err, ERROR_FORMAT, "latest: %" PRIu64 " versions; at most %d",
                                 field.value, CONFIG_MAX_VERSIONS);
            config->latest = field.value > 0 ? (int)field.value : 1;
        }
    return more;
}

/* Appends to the list when there is one; counts in any case. */
static int take_version(int64_t *versions, int *count, uint64_t value, struct error *err)
{
    if (*count == CONFIG_MAX_VERSIONS)
        return error_set(err, ERROR_FORMAT, "specific: more than %d versions", CONFIG_MAX_VERSIONS);
    versions[(*count)++] = (int64_t)value;
    return 0;
}

static int read_specific(struct proto_reader *reader, struct arena *arena,
                         struct model_config *config, struct error *err)
{
    struct proto_field field;
    struct proto_reader list;
    uint64_t value;
    int64_t *versions = ARENA_ARRAY(arena, int64_t, CONFIG_MAX_VERSIONS);
    int more;
    if (!versions)
        return no_memory(err);
    config->policy = POLICY_SPECIFIC;
    config->versions = versions;
    config->version_count = 0;
    while ((more = proto_next(reader, &field, err)) > 0) {
        if (field.number != 1)
            continue;
        if (field.wire == PROTO_VARINT) {
            if (take_version(versions, &config->version_count, field.value, err) < 0)
                return -1;
            continue;
        }
        if (proto_enter(reader, &field, &list, err) < 0)
            return -1;
        while (proto_take_varint(&list, &value))
            if (take_version(versions, &config->version_count, value, err) < 0)
                return -1;
    }
    return more;
}

static int read_policy(const struct proto_reader *outer, const struct proto_field *field,
                       struct arena *arena, struct model_config *config, struct error *err)
{
    struct proto_reader reader, choice;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        if (inner.number < 100 || inner.number > 102)
            continue;
        if (proto_enter(&reader, &inner, &choice, err) < 0)
            return -1;
        if (inner.number == 101)
            config->policy = POLICY_ALL;
        else if ((inner.number == 100 ? read_latest(&choice, config, err)
                                      : read_specific(&choice, arena, config, err)) < 0)
            return -1;
    }
    return more;
}

/* ---- one model ------------------------------------------------------------------------------ */

/* An entry of map<string, int64>. */
static int read_label(const struct proto_reader *outer, const struct proto_field *field,
                      struct arena *arena, struct version_label *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    *out = (struct version_label){.name = ""};
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        if (inner.number == 1 && field_text(&reader, &inner, arena, &out->name, err) < 0)
            return -1;
        if (inner.number != 2)
            continue;
        if (proto_expect(&reader, &inner, PROTO_VARINT, err) < 0)
            return -1;
        out->version = (int64_t)inner.value;
    }
    return more;
}

static int check_platform(const char *platform, struct error *err)
{
    if (!*platform || strcmp(platform, "tensorflow") == 0)
        return 0;
    return error_set(err, ERROR_FORMAT,
                     "model_platform '%.60s' is not served here; 'tensorflow' is", platform);
}

static int read_model_field(const struct proto_reader *reader, const struct proto_field *field,
                            struct arena *arena, struct model_config *config,
                            struct version_label *labels, struct error *err)
{
    const char *platform;
    switch (field->number) {
    case MODEL_NAME:
        return field_text(reader, field, arena, &config->name, err);
    case MODEL_PATH:
        return field_text(reader, field, arena, &config->base_path, err);
    case MODEL_TYPE:
        if (field->wire == PROTO_VARINT && field->value > 1)
            return error_set(err, ERROR_FORMAT, "model_type other than TENSORFLOW");
        return 0;
    case MODEL_PLATFORM:
        if (field_text(reader, field, arena, &platform, err) < 0)
            return -1;
        return check_platform(platform, err);
    case MODEL_LOGGING:
        return error_set(err, ERROR_FORMAT, "logging_config: requests are not recorded here");
    case MODEL_POLICY:
        return read_policy(reader, field, arena, config, err);
    case MODEL_LABELS:
        return read_label(reader, field, arena, &labels[config->label_count++], err);
    default:
        return 0;
    }
}

static int read_model(const struct proto_reader *outer, const struct proto_field *field,
                      struct arena *arena, struct model_config *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    *out = (struct model_config){.name = "", .base_path = "", .latest = 1};
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    int labels = message_count(reader, MODEL_LABELS, CONFIG_MAX_VERSIONS, err);
    if (labels < 0)
        return -1;
    struct version_label *room = ARENA_ARRAY(arena, struct version_label, labels);
    if (!room)
        return no_memory(err);
    out->labels = room;
    while ((more = proto_next(&reader, &inner, err)) > 0)
        if (read_model_field(&reader, &inner, arena, out, room, err) < 0)
            return error_wrap(err, "model '%.60s'", out->name);
    return more;
}

/* ---- the request ---------------------------------------------------------------------------- */

static int read_list(struct proto_reader *reader, struct arena *arena, struct model_list *out,
                     struct error *err)
{
    struct proto_field field;
    int more, count = message_count(*reader, 1, CONFIG_MAX_MODELS, err);
    if (count < 0)
        return -1;
    struct model_config *models = ARENA_ARRAY(arena, struct model_config, count);
    if (!models)
        return no_memory(err);
    *out = (struct model_list){.models = models};
    while ((more = proto_next(reader, &field, err)) > 0)
        if (field.number == 1 && read_model(reader, &field, arena, &models[out->count++], err) < 0)
            return -1;
    return more;
}

static int read_config(const struct proto_reader *outer, const struct proto_field *field,
                       struct arena *arena, struct reload_request *out, struct model_list *models,
                       struct error *err)
{
    struct proto_reader reader, list;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        if (inner.number == 2)
            out->has_list = false;
        if (inner.number != 1)
            continue;
        out->has_list = true;
        if (proto_enter(&reader, &inner, &list, err) < 0 ||
            read_list(&list, arena, models, err) < 0)
            return -1;
    }
    return more;
}

int reload_request_read(const void *message, size_t bytes, struct arena *arena,
                        struct reload_request *out, struct model_list *models, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    proto_open(&reader, message, bytes);
    int count = message_count(reader, 2, MOST_METRICS, err);
    const char **metrics = count < 0 ? NULL : ARENA_ARRAY(arena, const char *, count);
    if (!metrics)
        return count < 0 ? -1 : no_memory(err);
    *out = (struct reload_request){.metrics = metrics};
    *models = (struct model_list){0};
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == 1 && read_config(&reader, &field, arena, out, models, err) < 0)
            return -1;
        if (field.number == 2 &&
            field_text(&reader, &field, arena, &metrics[out->metric_count++], err) < 0)
            return -1;
    }
    return more;
}
