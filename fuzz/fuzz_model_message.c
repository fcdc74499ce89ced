/* Requests about models and about the services: whatever the bytes, an answer or an error. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "serve/config.h"
#include "serve/model_message.h"
#include "serve/reflection_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A FileDescriptorSet: a.proto, package a, message M, service S with the method Do. */
static const char set[] = "\x0a\x1d\x0a\x07"
                          "a.proto\x12\x01"
                          "a\x22\x03\x0a\x01M\x32\x09\x0a\x01S\x12\x04\x0a\x02"
                          "Do";

static void check_reload(const uint8_t *bytes, size_t count, struct arena *arena)
{
    struct reload_request request;
    struct model_list models;
    struct error err = {0};
    if (reload_request_read(bytes, count, arena, &request, &models, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
        return;
    }
    for (int i = 0; i < models.count; i++) {
        assert(models.models[i].name && models.models[i].base_path);
        assert(models.models[i].latest >= 1);
        for (int k = 0; k < models.models[i].label_count; k++)
            assert(models.models[i].labels[k].name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct metadata_request metadata;
    struct metadata_form form;
    struct model_spec spec;
    struct strbuf out;
    struct error err = {0};
    strbuf_init(&out);
    metadata_request_read(bytes, count, arena, &metadata, &err);
    metadata_reply_read(bytes, count, "serving_default", "y", arena, &form, &err);
    status_request_read(bytes, count, arena, &spec, &err);
    check_reload(bytes, count, arena);
    reflection_answer(set, sizeof set - 1, bytes, count, &out, &err);
    strbuf_release(&out);
    arena_destroy(arena);
    return 0;
}
