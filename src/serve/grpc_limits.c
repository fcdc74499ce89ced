/* --grpc-channel-arguments: what gRPC's server calls them, as far as they mean something here. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "serve/grpc_internal.h"

enum unit { UNIT_COUNT, UNIT_BYTES, UNIT_MILLISECONDS };

static const struct {
    const char *name;
    enum unit unit;
    size_t place; /* in struct door_limits */
    long least;
} known[] = {
    {"grpc.max_concurrent_streams", UNIT_COUNT, offsetof(struct door_limits, streams), 1},
    {"grpc.max_receive_message_length", UNIT_BYTES, offsetof(struct door_limits, message_bytes),
     -1},
    {"grpc.max_send_message_length", UNIT_BYTES, offsetof(struct door_limits, reply_bytes), -1},
    {"grpc.max_metadata_size", UNIT_BYTES, offsetof(struct door_limits, header_bytes), 1},
    {"grpc.max_connection_idle_ms", UNIT_MILLISECONDS, offsetof(struct door_limits, idle_seconds),
     1},
    {"grpc.max_connection_age_ms", UNIT_MILLISECONDS, offsetof(struct door_limits, age_seconds), 1},
    {"grpc.max_connection_age_grace_ms", UNIT_MILLISECONDS,
     offsetof(struct door_limits, grace_seconds), 1},
    {"grpc.keepalive_time_ms", UNIT_MILLISECONDS, offsetof(struct door_limits, keepalive_seconds),
     1},
    {"grpc.keepalive_timeout_ms", UNIT_MILLISECONDS,
     offsetof(struct door_limits, keepalive_timeout), 1},
};

/* INT_MAX and, for bytes, -1 are gRPC's "no limit". */
static void store(struct door_limits *limits, size_t i, long number)
{
    char *place = (char *)limits + known[i].place;
    int count = (int)number;
    size_t bytes = number < 0 || number == INT_MAX ? 0 : (size_t)number;
    double seconds = number == INT_MAX ? 0 : (double)number / 1e3;
    switch (known[i].unit) {
    case UNIT_COUNT:
        memcpy(place, &count, sizeof count);
        break;
    case UNIT_BYTES:
        memcpy(place, &bytes, sizeof bytes);
        break;
    default:
        memcpy(place, &seconds, sizeof seconds);
    }
}

static int refuse_name(const char *name, struct error *err)
{
    struct strbuf names;
    strbuf_init(&names);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        strbuf_addf(&names, "%s%s", i ? ", " : "", known[i].name);
    error_set(err, ERROR_USAGE,
              "--grpc-channel-arguments: '%.60s' means nothing here; known are %s", name,
              names.text);
    strbuf_release(&names);
    return -1;
}

static int take(const char *name, const char *value, struct door_limits *limits, struct error *err)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        if (!*value || *end || errno || number > INT_MAX || number < known[i].least || number == 0)
            return error_set(err, ERROR_USAGE,
                             "--grpc-channel-arguments: %s=%.40s is no number from 1 to %d%s", name,
                             value, INT_MAX, known[i].least < 0 ? ", nor -1 for no limit" : "");
        store(limits, i, number);
        return 0;
    }
    return refuse_name(name, err);
}

int door_limits_read(const char *arguments, struct door_limits *limits, struct error *err)
{
    char *text = memory_copy_text(arguments ? arguments : "");
    int status = text ? 0 : error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    for (char *rest, *word = text; status == 0 && word && *word; word = rest) {
        rest = strchr(word, ',');
        if (rest)
            *rest++ = '\0';
        char *value = strchr(word, '=');
        if (!value || value == word) {
            status =
                error_set(err, ERROR_USAGE,
                          "--grpc-channel-arguments: '%.100s' is not of the form name=value", word);
            break;
        }
        *value++ = '\0';
        status = take(word, value, limits, err);
    }
    memory_free(text);
    return status;
}
