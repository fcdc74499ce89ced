#include "store/manifest.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "wire/crc32c.h"

enum { FORMAT = 1, MOST_SETTINGS = 256, CRC_DIGITS = 8 };
static const int64_t MOST_STEPS = INT64_C(1) << 60; /* so that two can be added */
static const double MOST_SECONDS = 1e11;            /* of years with four digits */

/* The checksum covers the whole text with zeros in this place. */
static const char crc_key[] = "\"crc32c\": \"";
static const char no_crc[] = "00000000";

/* --- composing ------------------------------------------------------------------------------ */

static void set_hex(struct json *object, const char *key, uint64_t value, int digits)
{
    char text[24];
    snprintf(text, sizeof text, "%0*" PRIx64, digits, value);
    json_set_text(object, key, text);
}

static struct json *compose_settings(const struct manifest *manifest)
{
    struct json *settings = json_object_create();
    for (int i = 0; i < manifest->setting_count; i++)
        json_set_text(settings, manifest->settings[i].name, manifest->settings[i].value);
    return settings;
}

static struct json *compose_evaluation(const struct manifest *manifest)
{
    struct json *evaluation = json_object_create();
    json_set_number(evaluation, "loss", manifest->loss);
    json_set_number(evaluation, "accuracy", manifest->accuracy);
    return evaluation;
}

static struct json *compose_files(const struct manifest *manifest)
{
    struct json *files = json_object_create();
    json_set_integer(files, "index_bytes", (int64_t)manifest->index_bytes);
    set_hex(files, "index_crc32c", manifest->index_crc, CRC_DIGITS);
    json_set_integer(files, "data_bytes", (int64_t)manifest->data_bytes);
    return files;
}

static void put_crc(char *text)
{
    char digits[CRC_DIGITS + 1];
    char *place = strstr(text, crc_key) + strlen(crc_key);
    snprintf(digits, sizeof digits, "%08" PRIx32, crc32c(0, text, strlen(text)));
    memcpy(place, digits, CRC_DIGITS);
}

int manifest_compose(const struct manifest *manifest, char **out, struct error *err)
{
    struct json *json = json_object_create();
    json_set_text(json, "crc32c", no_crc); /* first, so that no text of the run's comes before it */
    json_set_integer(json, "lockstep_checkpoint", FORMAT);
    json_set_text(json, "version", manifest->version);
    json_set_text(json, "model", manifest->model);
    json_set_integer(json, "step", manifest->step);
    json_set_integer(json, "goal", manifest->goal);
    json_set_integer(json, "origin", manifest->origin);
    json_set_bool(json, "finished", manifest->finished);
    json_set_integer(json, "steps_per_epoch", manifest->steps_per_epoch);
    json_set_integer(json, "epoch", manifest->epoch);
    json_set_integer(json, "epoch_step", manifest->epoch_step);
    set_hex(json, "fingerprint", manifest->fingerprint, 16);
    if (manifest->bucket_bytes)
        json_set_integer(json, "bucket_bytes", manifest->bucket_bytes);
    json_set_number(json, "saved_at", manifest->saved_at);
    if (manifest->evaluated)
        json_set(json, "evaluation", compose_evaluation(manifest));
    json_set(json, "settings", compose_settings(manifest));
    json_set(json, "files", compose_files(manifest));
    char *text = json_text(json, true);
    json_release(json);
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for the manifest");
    put_crc(text);
    *out = text;
    return 0;
}

/* --- parsing -------------------------------------------------------------------------------- */

static bool read_hex(const struct json *object, const char *key, uint64_t *out)
{
    const char *text = json_get_text(object, key, "");
    char *end;
    *out = strtoull(text, &end, 16);
    return end != text && !*end;
}

static int check_crc(const char *name, const char *text, size_t bytes, struct error *err)
{
    static const size_t key_length = sizeof crc_key - 1;
    const char *key = memmem(text, bytes, crc_key, key_length);
    if (!key || bytes - (size_t)(key - text) < key_length + CRC_DIGITS)
        return error_set(err, ERROR_FORMAT, "%s: has no checksum; is it a whole manifest?", name);
    const char *place = key + key_length;
    char digits[CRC_DIGITS + 1] = "";
    memcpy(digits, place, CRC_DIGITS);
    uint32_t crc = crc32c(0, text, (size_t)(place - text));
    crc = crc32c(crc, no_crc, CRC_DIGITS);
    crc = crc32c(crc, place + CRC_DIGITS, bytes - (size_t)(place - text) - CRC_DIGITS);
    char found[CRC_DIGITS + 1];
    snprintf(found, sizeof found, "%08" PRIx32, crc);
    if (strcmp(found, digits) != 0)
        return error_set(err, ERROR_FORMAT,
                         "%s: is damaged: its checksum is %s, which is not what "
                         "it says",
                         name, found);
    return 0;
}

static int parse_settings(const struct json *settings, struct arena *arena, struct manifest *out,
                          struct error *err)
{
    int count = settings ? json_count(settings) : 0;
    if (count > MOST_SETTINGS)
        return error_set(err, ERROR_FORMAT, "%d settings, of at most %d", count, MOST_SETTINGS);
    struct manifest_setting *found = ARENA_ARRAY(arena, struct manifest_setting, count + 1);
    void *state = NULL;
    const char *key;
    if (!found)
        return error_set(err, ERROR_MEMORY, "no memory for %d settings", count);
    for (int i = 0; i < count && json_next(settings, &state, &key); i++) {
        found[i].name = arena_copy_text(arena, key);
        found[i].value = arena_copy_text(arena, json_get_text(settings, key, ""));
        if (!found[i].name || !found[i].value)
            return error_set(err, ERROR_MEMORY, "no memory for %d settings", count);
    }
    out->settings = found;
    out->setting_count = count;
    return 0;
}

static int parse_files(const struct json *files, struct manifest *out, struct error *err)
{
    int64_t index = json_get_integer(files, "index_bytes", -1);
    int64_t data = json_get_integer(files, "data_bytes", -1);
    uint64_t crc;
    if (!files || index < 0 || data < 0 || !read_hex(files, "index_crc32c", &crc) ||
        crc > UINT32_MAX)
        return error_set(err, ERROR_FORMAT, "it does not tell its files' sizes");
    out->index_bytes = (uint64_t)index;
    out->data_bytes = (uint64_t)data;
    out->index_crc = (uint32_t)crc;
    return 0;
}

static int parse_place(const struct json *json, struct manifest *out, struct error *err)
{
    out->step = json_get_integer(json, "step", -1);
    out->goal = json_get_integer(json, "goal", -1);
    out->steps_per_epoch = json_get_integer(json, "steps_per_epoch", -1);
    out->epoch = json_get_integer(json, "epoch", -1);
    out->epoch_step = json_get_integer(json, "epoch_step", -1);
    out->origin = json_get_integer(json, "origin", 0);
    out->bucket_bytes = json_get_integer(json, "bucket_bytes", 0);
    out->finished = json_get_bool(json, "finished", out->step >= out->goal);
    const int64_t numbers[] = {out->step,       out->goal,   out->steps_per_epoch, out->epoch,
                               out->epoch_step, out->origin, out->bucket_bytes};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] < 0 || numbers[i] > MOST_STEPS)
            return error_set(err, ERROR_FORMAT, "it does not tell its step and goal");
    return 0;
}

static int parse(const struct json *json, struct arena *arena, struct manifest *out,
                 struct error *err)
{
    int64_t format = json_get_integer(json, "lockstep_checkpoint", -1);
    if (format != FORMAT)
        return error_set(err, ERROR_FORMAT,
                         format > FORMAT ? "made by a newer lockstep (format %" PRId64
                                           "); this one reads format %d"
                                         : "is no manifest of a checkpoint (format %" PRId64
                                           ", not %d)",
                         format, FORMAT);
    const struct json *evaluation = json_get(json, "evaluation");
    out->version = arena_copy_text(arena, json_get_text(json, "version", ""));
    out->model = arena_copy_text(arena, json_get_text(json, "model", ""));
    if (!out->version || !out->model)
        return error_set(err, ERROR_MEMORY, "no memory for the manifest");
    if (!read_hex(json, "fingerprint", &out->fingerprint))
        return error_set(err, ERROR_FORMAT, "it has no fingerprint");
    out->saved_at = json_get_number(json, "saved_at", 0);
    if (!(out->saved_at >= 0 && out->saved_at < MOST_SECONDS))
        out->saved_at = 0; /* a clock that was wrong is no reason to lose it */
    out->evaluated = evaluation != NULL;
    out->loss = evaluation ? json_get_number(evaluation, "loss", NAN) : NAN;
    out->accuracy = evaluation ? json_get_number(evaluation, "accuracy", NAN) : NAN;
    if (parse_place(json, out, err) < 0 || parse_files(json_get(json, "files"), out, err) < 0)
        return -1;
    return parse_settings(json_get(json, "settings"), arena, out, err);
}

int manifest_parse(const char *name, const char *text, size_t bytes, struct arena *arena,
                   struct manifest *out, struct error *err)
{
    struct json *json;
    struct manifest manifest = {0};
    if (bytes > MANIFEST_MOST_BYTES)
        return error_set(err, ERROR_FORMAT, "%s: %zu bytes are too many for a manifest", name,
                         bytes);
    if (check_crc(name, text, bytes, err) < 0)
        return -1;
    if (json_parse(text, bytes, &json, err) < 0)
        return error_wrap(err, "%s", name);
    int status = parse(json, arena, &manifest, err);
    json_release(json);
    if (status < 0)
        return error_wrap(err, "%s", name);
    *out = manifest;
    return 0;
}

const char *manifest_setting(const struct manifest *manifest, const char *name)
{
    for (int i = 0; i < manifest->setting_count; i++)
        if (!strcmp(manifest->settings[i].name, name))
            return manifest->settings[i].value;
    return NULL;
}

double manifest_score(const struct manifest *manifest)
{
    if (!manifest->evaluated)
        return NAN;
    return isnan(manifest->accuracy) ? -manifest->loss : manifest->accuracy;
}
