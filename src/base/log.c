#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>

static struct {
    pthread_mutex_t lock; /* guards all below, and is held while the sink runs */
    log_sink *sink, *copy;
    void *context, *copy_context;
    enum log_level lowest;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .lowest = LOG_INFO};

void log_set_sink(log_sink *sink, void *context)
{
    pthread_mutex_lock(&state.lock);
    state.sink = sink;
    state.context = context;
    pthread_mutex_unlock(&state.lock);
}

void log_set_copy(log_sink *sink, void *context)
{
    pthread_mutex_lock(&state.lock);
    state.copy = sink;
    state.copy_context = context;
    pthread_mutex_unlock(&state.lock);
}

void log_set_level(enum log_level lowest)
{
    pthread_mutex_lock(&state.lock);
    state.lowest = lowest;
    pthread_mutex_unlock(&state.lock);
}

void log_line(enum log_level level, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&state.lock);
    if (state.sink && level >= state.lowest)
        state.sink(state.context, level, line);
    if (state.copy && level >= state.lowest)
        state.copy(state.copy_context, level, line);
    pthread_mutex_unlock(&state.lock);
}
