#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>

#include "base/memory.h"

enum { ARENA_ALIGN = 64, ARENA_BLOCK = 64 * 1024 };

struct block {
    struct block *next;
    size_t capacity, used; /* of the bytes after this header */
};

struct arena {
    struct block *first, *current;
};

static char *block_bytes(struct block *block)
{
    uintptr_t start = (uintptr_t)(block + 1);
    return (char *)((start + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
}

static struct block *block_create(size_t capacity)
{
    struct block *block = memory_allocate(sizeof *block + ARENA_ALIGN + capacity);
    if (block)
        block->capacity = capacity;
    return block;
}

struct arena *arena_create(void)
{
    struct arena *arena = memory_allocate(sizeof *arena);
    if (!arena)
        return NULL;
    arena->first = arena->current = block_create(ARENA_BLOCK);
    if (!arena->first) {
        memory_free(arena);
        return NULL;
    }
    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (!arena)
        return;
    struct block *next;
    for (struct block *block = arena->first; block; block = next) {
        next = block->next;
        memory_free(block);
    }
    memory_free(arena);
}

/* A block after the current one that can hold `bytes`, reused from before a reset or new. */
static struct block *next_block(struct arena *arena, size_t bytes)
{
    struct block *next = arena->current->next;
    if (next && next->capacity >= bytes)
        return next;
    struct block *block = block_create(bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK);
    if (!block)
        return NULL;
    block->next = next;
    arena->current->next = block;
    return block;
}

void *arena_take(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t rounded = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct block *block = arena->current;
    if (block->capacity - block->used < rounded) {
        block = next_block(arena, rounded);
        if (!block)
            return NULL;
        arena->current = block;
    }
    void *taken = block_bytes(block) + block->used;
    block->used += rounded;
    return memset(taken, 0, bytes);
}

char *arena_copy_text(struct arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = arena_take(arena, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : arena_take(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void arena_reset(struct arena *arena)
{
    for (struct block *block = arena->first; block; block = block->next)
        block->used = 0;
    arena->current = arena->first;
}
