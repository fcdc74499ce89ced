/* Somebody on a line to an agent or a leader, for tests: says what the test wants, and remembers of
 * each kind of message how often it came and what the last one said. All on the test's own loop. */
#ifndef TESTS_SUPPORT_PARTY_H
#define TESTS_SUPPORT_PARTY_H

#include <stdbool.h>

#include "launch/link.h"
#include "launch/message.h"

struct loop;
struct loop_watch;

struct party_heard {
    int count;
    int64_t number; /* the first of the last one, and its first text */
    char text[512];
};

struct party {
    struct loop *loop;
    const struct channel_key *key;
    struct link *link;  /* NULL: nobody is there */
    struct hello hello; /* what it says first, when it is the one who calls */
    bool opened, ended;
    struct party_heard heard[MESSAGE_LAST + 1];

    /* --- one who is called, as a member is --- */
    int listener, port;
    struct loop_watch *watch;
    int64_t generation;                /* that it knows of */
    bool ready;                        /* it gets ready when it is told to */
    enum { WELCOMES, REFUSES } manner; /* how it answers */
    enum refusal refusal;
};

/* Calls who listens on this port of 127.0.0.1, and says `hello`. */
void party_call(struct party *party, struct loop *loop, const struct channel_key *key, int port,
                const struct hello *hello);
/* Is there for who calls, one at a time, on a port of its own. */
void party_listen(struct party *party, struct loop *loop, const struct channel_key *key);
/* After party_leave: is there again, on the same port. */
void party_return(struct party *party, int port);
/* Hangs up, and takes no calls any more. */
void party_leave(struct party *party);

/* MESSAGE_PREPARE, MESSAGE_OVER, ...: a number and a text; NULL: without one. */
void party_say(struct party *party, enum message_kind kind, int64_t number, const char *text);
/* That its rank, process `pid`, has finished `step`. */
void party_report(struct party *party, int64_t generation, int64_t pid, int64_t step);

/* Turns until it is so; `turn()` is the test's, and what was logged is said when it never is. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        for (double until_ = clock_seconds() + 20; !(condition); turn())                           \
            if (clock_seconds() > until_)                                                          \
                FAIL("never: %s; it says: %s", #condition, log_record_text());                     \
    } while (0)

#endif
