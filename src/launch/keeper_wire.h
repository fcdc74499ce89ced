/* What goes over the line between a rank (keeper.c) and its agent (vault.c): packets of one size on
 * a unix socket, between processes of one user on one machine. */
#ifndef LAUNCH_KEEPER_WIRE_H
#define LAUNCH_KEEPER_WIRE_H

#include <stdint.h>

#define KEEPER_VARIABLE "LOCKSTEP_AGENT" /* the socket's name, in the abstract namespace */

enum { KEEPER_TEXT_BYTES = 480, KEEPER_WORDS_BYTES = 192 << 10 };

enum keeper_packet_kind {
    KEEPER_PACKET_STATE = 1, /* rank: give me my memory; agent: here it is (with the descriptor) */
    KEEPER_PACKET_TELL,      /* rank: step, text */
    KEEPER_PACKET_FINISH,    /* rank: outcome, status, text */
    KEEPER_PACKET_WISH,      /* agent: outcome is an enum keeper_wish */
    KEEPER_PACKET_WORDS,     /* who is about to be a rank: which words? The answer is longer */
    KEEPER_PACKET_REFUSED,   /* agent: text */
};

struct keeper_packet {
    uint32_t kind;
    int32_t outcome, status;
    int64_t number; /* the step; of STATE the generation */
    char text[KEEPER_TEXT_BYTES];
};

#endif
