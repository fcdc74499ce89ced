/* A credentials or config file: a value that fits, or none. */
#include <assert.h>
#include <stdint.h>

#include "net/aws_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const sections[] = {"default", "profile work", ""};
    static const char *const names[] = {"aws_access_key_id", "aws_secret_access_key", "region", ""};
    char value[AWS_VALUE_BYTES];
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            bool found = aws_profile_get((const char *)bytes, count, sections[i], names[j], value);
            assert(strlen(value) < sizeof value && !strchr(value, '\n'));
            assert(found || value[0] == '\0');
            assert(!found || aws_profile_has((const char *)bytes, count, sections[i]));
        }
    return 0;
}
