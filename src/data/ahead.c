#include "data/ahead.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    THREADS = 4,
    SLOTS = 64,
    PIECE = 8 << 20,  /* largest fetch */
    TOTAL = 64 << 20, /* of all slots */
    GAP = 64 << 10,   /* fetching this much in vain is cheaper than one more request */
};

enum slot_state { FREE, QUEUED, FETCHING, READY };

struct slot {
    enum slot_state state;
    int file;
    uint64_t offset;
    size_t bytes;
    uint8_t *data;  /* READY, or its fetcher's */
    int readers;    /* copying from it now */
    bool read;      /* somebody has: it may go first */
    uint64_t order; /* of its announcement or its last use */
};

struct ahead {
    ahead_fetch *fetch;
    void *context;
    pthread_mutex_t lock; /* guards all below; not held while fetching or copying */
    pthread_cond_t queued, fetched;
    struct slot slots[SLOTS];
    size_t bytes; /* of slots that are not FREE */
    uint64_t clock;
    pthread_t threads[THREADS];
    int thread_count;
    bool stopping;
};

struct ahead *ahead_create(ahead_fetch *fetch, void *context)
{
    struct ahead *ahead = memory_allocate(sizeof *ahead);
    if (!ahead)
        return NULL;
    ahead->fetch = fetch;
    ahead->context = context;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->queued, NULL);
    pthread_cond_init(&ahead->fetched, NULL);
    return ahead;
}

static void free_slot(struct ahead *ahead, struct slot *slot)
{
    ahead->bytes -= slot->bytes;
    memory_free(slot->data);
    *slot = (struct slot){.state = FREE};
}

void ahead_destroy(struct ahead *ahead)
{
    if (!ahead)
        return;
    pthread_mutex_lock(&ahead->lock);
    ahead->stopping = true;
    pthread_cond_broadcast(&ahead->queued);
    pthread_mutex_unlock(&ahead->lock);
    for (int i = 0; i < ahead->thread_count; i++)
        pthread_join(ahead->threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        free_slot(ahead, &ahead->slots[i]);
    pthread_cond_destroy(&ahead->fetched);
    pthread_cond_destroy(&ahead->queued);
    pthread_mutex_destroy(&ahead->lock);
    memory_free(ahead);
}

static struct slot *oldest(struct ahead *ahead, enum slot_state state, bool only_read)
{
    struct slot *found = NULL;
    for (struct slot *slot = ahead->slots; slot < ahead->slots + SLOTS; slot++)
        if (slot->state == state && slot->readers == 0 && (slot->read || !only_read) &&
            (!found || slot->order < found->order))
            found = slot;
    return found;
}

static void *work(void *context)
{
    struct ahead *ahead = context;
    pthread_mutex_lock(&ahead->lock);
    while (!ahead->stopping) {
        struct slot *slot = oldest(ahead, QUEUED, false);
        if (!slot) {
            pthread_cond_wait(&ahead->queued, &ahead->lock);
            continue;
        }
        slot->state = FETCHING;
        pthread_mutex_unlock(&ahead->lock);
        uint8_t *data = memory_allocate(slot->bytes);
        bool fine = data && ahead->fetch(ahead->context, slot->file, slot->offset, slot->bytes,
                                         data, NULL) == 0;
        pthread_mutex_lock(&ahead->lock);
        slot->data = data;
        slot->state = READY;
        if (!fine)
            free_slot(ahead, slot);
        pthread_cond_broadcast(&ahead->fetched);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

static struct slot *slot_with(struct ahead *ahead, int file, uint64_t offset)
{
    for (struct slot *slot = ahead->slots; slot < ahead->slots + SLOTS; slot++)
        if (slot->state != FREE && slot->file == file && offset >= slot->offset &&
            offset - slot->offset < slot->bytes)
            return slot;
    return NULL;
}

/* Room for `bytes` more, at the cost of what was read already, then of what waited longest. */
static struct slot *take_slot(struct ahead *ahead, size_t bytes)
{
    struct slot *room = oldest(ahead, FREE, false);
    while (!room || ahead->bytes + bytes > TOTAL) {
        struct slot *old = oldest(ahead, READY, true);
        if (!old)
            old = oldest(ahead, READY, false);
        if (!old)
            return NULL;
        free_slot(ahead, old);
        room = old;
    }
    return room;
}

/* A fetch that has not begun and ends just before this range, or inside it, becomes longer. */
static bool extend(struct ahead *ahead, int file, uint64_t offset, size_t bytes)
{
    for (struct slot *slot = ahead->slots; slot < ahead->slots + SLOTS; slot++) {
        if (slot->state != QUEUED || slot->file != file || offset < slot->offset ||
            offset > slot->offset + slot->bytes + GAP)
            continue;
        uint64_t end = offset + bytes, length = end - slot->offset;
        if (end <= slot->offset + slot->bytes)
            return true;
        if (length > PIECE || ahead->bytes + (length - slot->bytes) > TOTAL)
            continue;
        ahead->bytes += (size_t)length - slot->bytes;
        slot->bytes = (size_t)length;
        return true;
    }
    return false;
}

static void announce(struct ahead *ahead, int file, uint64_t offset, size_t bytes)
{
    const struct slot *there = slot_with(ahead, file, offset);
    if ((there && offset - there->offset + bytes <= there->bytes) ||
        extend(ahead, file, offset, bytes))
        return;
    struct slot *slot = take_slot(ahead, bytes);
    if (!slot)
        return;
    *slot = (struct slot){
        .state = QUEUED, .file = file, .offset = offset, .bytes = bytes, .order = ++ahead->clock};
    ahead->bytes += bytes;
    pthread_cond_signal(&ahead->queued);
}

void ahead_expect(struct ahead *ahead, int file, uint64_t offset, size_t bytes)
{
    pthread_mutex_lock(&ahead->lock);
    while (ahead->thread_count < THREADS &&
           pthread_create(&ahead->threads[ahead->thread_count], NULL, work, ahead) == 0)
        ahead->thread_count++;
    while (ahead->thread_count > 0 && bytes > 0) {
        size_t piece = bytes < PIECE ? bytes : PIECE;
        announce(ahead, file, offset, piece);
        offset += piece;
        bytes -= piece;
    }
    pthread_mutex_unlock(&ahead->lock);
}

/* Called and returns with the lock held. */
static size_t copy_from(struct ahead *ahead, struct slot *slot, uint64_t offset, size_t bytes,
                        char *out)
{
    size_t skip = (size_t)(offset - slot->offset), there = slot->bytes - skip;
    if (bytes > there)
        bytes = there;
    slot->readers++;
    pthread_mutex_unlock(&ahead->lock);
    memcpy(out, slot->data + skip, bytes);
    pthread_mutex_lock(&ahead->lock);
    slot->readers--;
    slot->read = true;
    slot->order = ++ahead->clock;
    return bytes;
}

size_t ahead_take(struct ahead *ahead, int file, uint64_t offset, size_t bytes, void *out)
{
    size_t done = 0;
    pthread_mutex_lock(&ahead->lock);
    while (done < bytes) {
        struct slot *slot = slot_with(ahead, file, offset + done);
        if (!slot)
            break;
        if (slot->state == READY)
            done += copy_from(ahead, slot, offset + done, bytes - done, (char *)out + done);
        else
            pthread_cond_wait(&ahead->fetched, &ahead->lock);
    }
    pthread_mutex_unlock(&ahead->lock);
    return done;
}
