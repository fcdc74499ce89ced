/* Memory with one end: everything taken from an arena is freed together. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_create(void);        /* NULL when memory is short */
void arena_destroy(struct arena *arena); /* accepts NULL */
/* Zeroed, aligned to 64 bytes; NULL when memory is short. */
void *arena_take(struct arena *arena, size_t bytes);
char *arena_copy_text(struct arena *arena, const char *text);
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Forgets everything but keeps the memory for reuse. */
void arena_reset(struct arena *arena);

#define ARENA_NEW(arena, type) ((type *)arena_take(arena, sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_take(arena, sizeof(type) * (size_t)(count)))

#endif
