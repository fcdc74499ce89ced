#include "serve/door.h"

#include <stdint.h>

enum {
    MESSAGES = 4,     /* of the largest size that a connection may have under way */
    LEAST = 32 << 20, /* bytes that it may have in any case */
    CONNECTIONS = 8,  /* that have so many */
};

size_t door_most_held_by_one(size_t message_limit)
{
    size_t most = MESSAGES * (message_limit < UINT32_MAX ? message_limit : UINT32_MAX);
    return message_limit == 0 || most > LEAST ? most : LEAST;
}

size_t door_most_held(size_t message_limit)
{
    return CONNECTIONS * door_most_held_by_one(message_limit);
}
