/* What an export says about itself: whatever the bytes, a face with all its texts, which says the
 * same when it is written and read again, or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "convert/face.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(const struct face *face, const struct face *again)
{
    assert(!strcmp(face->model, again->model) && face->built_in == again->built_in);
    assert(face->number_count == again->number_count);
    assert(face->category_count == again->category_count);
    for (int i = 0; i < face->number_count; i++)
        assert(!strcmp(face->numbers[i].name, again->numbers[i].name) &&
               face->numbers[i].logarithm == again->numbers[i].logarithm);
    for (int i = 0; i < face->category_count; i++)
        assert(!strcmp(face->categories[i], again->categories[i]));
    assert(face->args.image_size == again->args.image_size);
}

static void try_face(const char *bytes, size_t count, struct arena *arena)
{
    struct face face, again;
    struct strbuf text;
    struct error err = {0};
    if (face_parse("input", bytes, count, arena, &face, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
        return;
    }
    strbuf_init(&text);
    assert(face_compose(&face, &text, &err) == 0);
    assert(face_parse("again", text.text, text.length, arena, &again, &err) == 0);
    check(&face, &again);
    strbuf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    const char *const *labels;
    struct error err = {0};
    int label_count;
    try_face((const char *)bytes, count, arena);
    if (face_parse_labels("input", (const char *)bytes, count, arena, &labels, &label_count,
                          &err) == 0)
        for (int i = 0; i < label_count; i++)
            assert(!strchr(labels[i], '\n'));
    arena_destroy(arena);
    return 0;
}
