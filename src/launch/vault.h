/* The agent's end of the line to its rank (keeper.h is the rank's): owns the memory in which ranks
 * keep their state, hands it to one rank at a time, and knows whether that one lives. */
#ifndef LAUNCH_VAULT_H
#define LAUNCH_VAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/keeper.h"

struct error;
struct loop;
struct vault;

struct vault_end {
    bool finished; /* it said its last word, which follows */
    enum keeper_outcome outcome;
    int status;
    int64_t step; /* the last one it told */
    const char *reason;
};

struct vault_owner {
    /* The rank's process is gone. */
    void (*gone)(void *context, const struct vault_end *end);
    void *context;
};

/* `words` are what rank_words gives out; borrowed. */
int vault_create(struct loop *loop, const struct vault_owner *owner, const char *words,
                 size_t words_bytes, struct vault **out, struct error *err);
void vault_destroy(struct vault *vault); /* accepts NULL */

/* For the environment of what leads to ranks: "LOCKSTEP_AGENT=..." */
const char *vault_variable(const struct vault *vault);

/* From now on one rank, of this generation, may have the memory; 0: none may. */
void vault_admit(struct vault *vault, int64_t generation);
void vault_wish(struct vault *vault, enum keeper_wish wish); /* tells the rank, if there is one */

struct vault_rank {
    pid_t pid; /* 0: there is none */
    int64_t step;
    double silence; /* seconds since it spoke */
    char doing[32];
};
struct vault_rank vault_look(const struct vault *vault);
size_t vault_bytes(const struct vault *vault); /* kept */

#endif
