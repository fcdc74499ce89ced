/* The token service's reply: credentials that fit and cannot break a header, or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "net/aws.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct aws_credentials credentials;
    struct error err = {0};
    if (aws_sts_reply(bytes, count, &credentials, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
        return 0;
    }
    assert(strlen(credentials.key_id) < sizeof credentials.key_id);
    assert(strlen(credentials.secret) < sizeof credentials.secret);
    assert(strlen(credentials.token) < sizeof credentials.token);
    assert(!strpbrk(credentials.token, "\r\n"));
    return 0;
}
