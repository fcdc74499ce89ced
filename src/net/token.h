/* A secret that whoever was shown it may come in with. */
#ifndef NET_TOKEN_H
#define NET_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

struct error;

enum { TOKEN_LETTERS = 32 }; /* hexadecimal: 128 bits nobody can guess */

int token_create(char out[TOKEN_LETTERS + 1], struct error *err);
/* Takes as long whatever the first difference is. NULL is never right. */
bool token_equal(const char *token, const char *given);
/* The value of cookie `name` in a Cookie header; false when it is not there or does not fit. */
bool token_from_cookies(const char *header, const char *name, char *out, size_t space);
/* What stands behind "Bearer " in an Authorization header, or NULL. */
const char *token_from_authorization(const char *header);

#endif
