/* What a browser or a stranger sends in Host, Cookie and Authorization, and what a user gives as
 * [ADDRESS:]PORT. */
#include "base/error.h"
#include "base/memory.h"
#include "net/address.h"
#include "net/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = memory_allocate(bytes + 1), value[TOKEN_LETTERS + 1], again[96];
    struct address address, same;
    struct error err;
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    address_host_is_local(text);
    token_from_cookies(text, "lockstep-8080", value, sizeof value);
    token_equal("00112233445566778899aabbccddeeff", token_from_authorization(text));
    /* What is understood can be written, and is then understood in the same way. */
    if (address_parse(text, "--x", &address, &err) == 0 &&
        (address_parse(address_text(&address, again, sizeof again), "--x", &same, &err) < 0 ||
         strcmp(address.host, same.host) != 0 || address.port != same.port ||
         address.loopback != same.loopback))
        abort();
    memory_free(text);
    return 0;
}
