/* The bearer tokens that let in, from a file with one a line, which is read again when it changes. A
 * line that begins with # is a comment; elsewhere # is a letter like others. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H

#include <stdbool.h>

struct error;
struct tokens;

/* Fails when the file cannot be read or has no token, or one shorter than 8 letters or with a
 * blank in it: half a token lets nobody in. */
int tokens_open(const char *path, struct tokens **out, struct error *err);
void tokens_close(struct tokens *tokens); /* accepts NULL */
/* `authorization`: "Bearer ...", or NULL. Looks at the file at most once a second; one that became
 * unreadable or empty is a warning, and the tokens stay. Takes as long for any token. Any thread. */
bool tokens_admit(struct tokens *tokens, const char *authorization);

#endif
