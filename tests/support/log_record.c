#include "support/log_record.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static char text[8192];
static atomic_int lines;

/* Never from two threads at once: the log sees to that. */
static void keep(void *context, enum log_level level, const char *line)
{
    (void)context, (void)level;
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s\n", line);
    atomic_fetch_add(&lines, 1);
}

void log_record_start(void)
{
    log_set_sink(NULL, NULL);
    text[0] = '\0';
    atomic_store(&lines, 0);
    log_set_sink(keep, NULL);
}

int log_record_count(void)
{
    return atomic_load(&lines);
}

const char *log_record_text(void)
{
    return text;
}
