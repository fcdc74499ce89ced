#include "watch/tail.h"

#include "base/json.h"

void tail_init(struct tail *tail)
{
    memset(tail, 0, sizeof *tail);
    pthread_mutex_init(&tail->lock, NULL);
}

void tail_release(struct tail *tail)
{
    pthread_mutex_destroy(&tail->lock);
}

void tail_add(struct tail *tail, const char *line)
{
    pthread_mutex_lock(&tail->lock);
    snprintf(tail->lines[tail->count % TAIL_LINES], TAIL_LINE_BYTES, "%s", line);
    tail->count++;
    pthread_mutex_unlock(&tail->lock);
}

static ssize_t on_write(void *cookie, const char *bytes, size_t count)
{
    struct tail *tail = cookie;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n') {
            if (tail->part_bytes + 1 < sizeof tail->part)
                tail->part[tail->part_bytes++] = bytes[i];
            continue;
        }
        tail->part[tail->part_bytes] = '\0';
        tail->part_bytes = 0;
        tail_add(tail, tail->part);
    }
    return (ssize_t)count;
}

FILE *tail_stream(struct tail *tail)
{
    return fopencookie(tail, "w", (cookie_io_functions_t){.write = on_write});
}

int64_t tail_read(struct tail *tail, int64_t first, struct json *array, int64_t *next)
{
    pthread_mutex_lock(&tail->lock);
    if (first < tail->count - TAIL_LINES)
        first = tail->count - TAIL_LINES;
    for (int64_t at = first; at < tail->count; at++)
        json_append_text(array, tail->lines[at % TAIL_LINES]);
    *next = tail->count;
    pthread_mutex_unlock(&tail->lock);
    return first;
}
