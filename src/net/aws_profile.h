/* The files ~/.aws/credentials and ~/.aws/config: INI sections of `name = value` lines. */
#ifndef NET_AWS_PROFILE_H
#define NET_AWS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

enum { AWS_VALUE_BYTES = 4096 };

/* The value of `name` in the section `section`, without spaces around it; indented lines (nested
 * settings) are passed over. False when it is not there or too long. A section "profile x" is
 * asked for by that name. */
bool aws_profile_get(const char *text, size_t bytes, const char *section, const char *name,
                     char out[AWS_VALUE_BYTES]);
bool aws_profile_has(const char *text, size_t bytes, const char *section);

#endif
