/* What agents say to each other: a length, a kind, and fields, which are numbers or texts.
 *
 *     u32 bytes that follow | u8 kind | fields: 'n' i64  or  't' u32 bytes, then the bytes
 *
 * All numbers big-endian. A message is checked as a whole before any of it is looked at. */
#ifndef LAUNCH_MESSAGE_H
#define LAUNCH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

enum { MESSAGE_VERSION = 1, MESSAGE_MOST_BYTES = 1 << 20 };

enum message_kind {
    /* who connects, first of all; then the answer */
    MESSAGE_HELLO = 1, /* struct hello */
    MESSAGE_WELCOME,   /* generation it knows, its incarnation, its host */
    MESSAGE_REFUSED,   /* why; enum refusal */
    /* the leader to a member */
    MESSAGE_PREPARE, /* generation, ticket: end what runs, then say READY */
    MESSAGE_ABANDON, /* generation: end what runs */
    MESSAGE_PAUSE,   /* generation: at a step boundary, if the rank heeds it */
    MESSAGE_GROUP,   /* the group as JSON; also says that the leader lives */
    MESSAGE_OVER,    /* status, why: the job is done */
    /* a member to the leader */
    MESSAGE_READY,     /* generation */
    MESSAGE_REPORT,    /* generation, pid of the rank or 0, its step, milliseconds since it spoke,
                        * what it does, bytes it keeps; also says that the member lives */
    MESSAGE_RANK_LOST, /* generation, its last step, how */
    MESSAGE_RANK_DONE, /* generation, outcome, status, why */
    MESSAGE_LEAVING,   /* status: somebody asked this member to stop */
    /* who wants a process, and the agent */
    MESSAGE_RUN,    /* the words for a shell that mpirun gives to ssh */
    MESSAGE_OUTPUT, /* 1 or 2, bytes */
    MESSAGE_EXIT,   /* status */
    MESSAGE_LAST = MESSAGE_EXIT,
};

enum refusal {
    REFUSED_FOR_NOW,
    REFUSED_FOR_ANOTHER, /* somebody else leads */
    REFUSED_FOR_GOOD,    /* who asked led once, and the group went on without it */
};

enum hello_role { HELLO_LEADS = 1, HELLO_RUNS, HELLO_ASKS };
enum { HELLO_NAME_BYTES = 40 };

struct hello {
    int64_t role;                       /* enum hello_role */
    int64_t index;                      /* whom it thinks it talks to; -1: anyone */
    int64_t generation;                 /* the newest that it formed itself; 0: none */
    char group[HELLO_NAME_BYTES];       /* fingerprint of the list of members; empty: none */
    char incarnation[HELLO_NAME_BYTES]; /* of the process that leads */
    char ticket[HELLO_NAME_BYTES];      /* what the leader gave to those who may start processes */
};

/* --- writing: begin, fields, end; several messages may stand one behind the other --- */

/* Where the message begins, for message_end. */
size_t message_begin(struct strbuf *out, enum message_kind kind);
void message_number(struct strbuf *out, int64_t number);
void message_text(struct strbuf *out, const char *text);
void message_bytes(struct strbuf *out, const void *bytes, size_t count);
void message_end(struct strbuf *out, size_t begin);
void message_hello(struct strbuf *out, const struct hello *hello);

/* --- reading --- */

struct message {
    enum message_kind kind;
    const unsigned char *at, *end; /* fields not looked at yet, in the caller's bytes */
};

/* 1: a whole message, *used bytes long; 0: more bytes are needed; -1: this is no message. */
int message_take(const void *bytes, size_t count, struct message *out, size_t *used,
                 struct error *err);
/* The next field, if it is of this kind and fits; a text with a NUL in it does not. */
bool message_next_number(struct message *message, int64_t *out);
bool message_next_text(struct message *message, char *out, size_t capacity);
bool message_next_bytes(struct message *message, const void **out, size_t *count);
int message_read_hello(struct message *message, struct hello *out, struct error *err);

#endif
