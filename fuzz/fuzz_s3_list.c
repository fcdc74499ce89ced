/* A page of objects, or any XML an S3 server may answer with: whatever the bytes, objects with
 * keys and sizes that fit, or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "net/s3_list.h"
#include "net/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static int look(void *context, const struct s3_object *object, struct error *err)
{
    (void)err;
    assert(strlen(object->key) < S3_KEY_BYTES && strlen(object->etag) < S3_ETAG_BYTES);
    assert(object->bytes <= INT64_MAX);
    ++*(int *)context;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const names[] = {"Code", "Message", "UploadId", "Region"};
    char token[S3_TOKEN_BYTES], text[64];
    struct error err = {0};
    int seen = 0;
    int objects = s3_list_page(bytes, count, look, &seen, token, &err);
    assert(objects < 0 ? err.code == ERROR_FORMAT && err.message[0] : objects == seen);
    assert(strlen(token) < sizeof token);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        xml_find(bytes, count, names[i], text, sizeof text);
        assert(strlen(text) < sizeof text);
    }
    return 0;
}
