/* A tensor bundle made by us for TensorFlow to read, and what we make of TensorFlow's:
 *     bundle_tool write PREFIX        check_bundle.py knows what must be in it
 *     bundle_tool read PREFIX NAME    one tensor's bytes as they lie; strings as LENGTH:BYTES
 *     bundle_tool list PREFIX         a line per tensor, after checking all: name, dtype, shape
 *     bundle_tool copy FROM TO        in the order in which the tensors lie in the file
 *     bundle_tool state DIRECTORY NAME...    the file `checkpoint`; the last name is the newest */
#include "base/arena.h"
#include "base/error.h"
#include "store/bundle.h"
#include "store/checkpoint_state.h"

enum { TINY = 4000, LARGE = 11 * 454546, STRINGS = 3 };

static int write_one(struct bundle_writer *writer, const char *name, enum dtype dtype,
                     struct shape shape, const void *data, struct error *err)
{
    const struct tensor tensor = {dtype, shape, (void *)data};
    return bundle_write_tensor(writer, name, &tensor, err);
}

/* So many that there are several blocks. */
static int write_tiny(struct bundle_writer *writer, struct error *err)
{
    for (int i = 0; i < TINY; i++) {
        char name[160];
        int64_t value = (int64_t)i * i * i * (i % 2 ? -1 : 1);
        snprintf(name, sizeof name, "%08x/block_%d/a_rather_long_name_for_a_small_thing/%s/v",
                 (unsigned)i * 2654435761u, i, "of_which_hardly_anything_is_shared");
        if (write_one(writer, name, DTYPE_I64, (struct shape){.ndim = 0}, &value, err) < 0)
            return -1;
    }
    return 0;
}

static int write_all(struct bundle_writer *writer, struct error *err)
{
    static float large[LARGE];
    static uint8_t bytes[256];
    static const int32_t integers[] = {INT32_MIN, -1, 0, 1, INT32_MAX, 7};
    static const uint32_t odd[] = {0x7fc00001, 0xff800000, 0x80000000, 1}; /* NaN, -inf, -0, tiny */
    static const struct text_view strings[STRINGS] = {{"", 0}, {"a\0b", 3}, {"long enough", 11}};
    for (int i = 0; i < LARGE; i++)
        large[i] = (float)i / 3;
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    if (write_one(writer, "z/large", DTYPE_F32, SHAPE(11, LARGE / 11), large, err) < 0 ||
        write_one(writer, "bytes", DTYPE_U8, SHAPE(2, 2, 2, 2, 2, 8), bytes, err) < 0 ||
        write_one(writer, "layer/integers", DTYPE_I32, SHAPE(2, 3), integers, err) < 0 ||
        write_one(writer, "layer/odd", DTYPE_F32, SHAPE(4), odd, err) < 0 ||
        write_one(writer, "layer", DTYPE_F32, (struct shape){.ndim = 0}, large + 1, err) < 0 ||
        write_one(writer, "empty", DTYPE_F32, SHAPE(3, 0, 2), NULL, err) < 0 ||
        write_one(writer, "strings", DTYPE_STRING, SHAPE(STRINGS), strings, err) < 0 ||
        write_one(writer, "gr\303\274n \"q\"", DTYPE_U8, SHAPE(1), bytes + 9, err) < 0)
        return -1;
    return write_tiny(writer, err);
}

static int run_write(const char *prefix, struct error *err)
{
    struct bundle_writer *writer;
    if (bundle_write_begin(prefix, &writer, err) < 0)
        return -1;
    if (write_all(writer, err) < 0) {
        bundle_write_drop(writer);
        return -1;
    }
    return bundle_write_finish(writer, err);
}

/* Either kind of tensor; the arena owns what is in it. */
static int read_tensor(const struct bundle *bundle, int index, struct arena *arena,
                       struct tensor *out, struct error *err)
{
    const struct bundle_entry *entry = bundle_entry(bundle, index);
    if (!entry->unreadable && entry->dtype == DTYPE_STRING)
        return bundle_read_strings(bundle, index, arena, out, err);
    if (tensor_create(arena, entry->dtype, entry->shape, out, err) < 0)
        return -1;
    return bundle_read(bundle, index, out, err);
}

static void print_tensor(const struct tensor *tensor)
{
    if (tensor->dtype != DTYPE_STRING) {
        fwrite(tensor->data, 1, tensor_bytes(tensor), stdout);
        return;
    }
    const struct text_view *views = tensor->data;
    for (int64_t i = 0; i < shape_count(&tensor->shape); i++) {
        printf("%zu:", views[i].count);
        fwrite(views[i].bytes, 1, views[i].count, stdout);
    }
}

static int run_read(const struct bundle *bundle, const char *name, struct arena *arena,
                    struct error *err)
{
    struct tensor tensor;
    int index = bundle_find(bundle, name);
    if (index < 0)
        return error_set(err, ERROR_ABSENT, "there is no tensor '%s'", name);
    if (read_tensor(bundle, index, arena, &tensor, err) < 0)
        return -1;
    print_tensor(&tensor);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct bundle_entry *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset)
        return (*x)->offset < (*y)->offset ? -1 : 1;
    return ((*x)->bytes > (*y)->bytes) - ((*x)->bytes < (*y)->bytes); /* empty ones in front */
}

static const struct bundle_entry **sort_by_place(const struct bundle *bundle, struct arena *arena)
{
    size_t count = (size_t)bundle_count(bundle);
    const struct bundle_entry **sorted = ARENA_ARRAY(arena, const struct bundle_entry *, count + 1);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = bundle_entry(bundle, (int)i);
    if (sorted)
        qsort(sorted, count, sizeof *sorted, by_place);
    return sorted;
}

static int run_copy(const struct bundle *bundle, const char *to, struct arena *arena,
                    struct error *err)
{
    const struct bundle_entry **sorted = sort_by_place(bundle, arena);
    struct bundle_writer *writer;
    if (!sorted || bundle_write_begin(to, &writer, err) < 0)
        return -1;
    for (int i = 0; i < bundle_count(bundle); i++) {
        struct tensor tensor;
        const char *name = sorted[i]->name;
        if (read_tensor(bundle, bundle_find(bundle, name), arena, &tensor, err) < 0 ||
            bundle_write_tensor(writer, name, &tensor, err) < 0) {
            bundle_write_drop(writer);
            return -1;
        }
    }
    return bundle_write_finish(writer, err);
}

static int run_list(const struct bundle *bundle, struct error *err)
{
    char text[160];
    for (int i = 0; i < bundle_count(bundle); i++) {
        const struct bundle_entry *entry = bundle_entry(bundle, i);
        if (bundle_check(bundle, i, err) < 0)
            return -1;
        if (entry->unreadable)
            printf("%s\t%s\n", entry->name, entry->unreadable);
        else
            printf("%s\t%s\t%s\n", entry->name, dtype_name(entry->dtype),
                   shape_text(&entry->shape, text, sizeof text));
    }
    return 0;
}

static int run_on(const char *verb, const char *prefix, const char *argument, struct error *err)
{
    struct bundle *bundle = NULL;
    struct arena *arena = arena_create();
    int status = bundle_open(prefix, &bundle, err);
    if (status == 0)
        status = strcmp(verb, "list") == 0   ? run_list(bundle, err)
                 : strcmp(verb, "read") == 0 ? run_read(bundle, argument, arena, err)
                                             : run_copy(bundle, argument, arena, err);
    bundle_close(bundle);
    arena_destroy(arena);
    return status;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const char *verb = argc > 2 ? argv[1] : "";
    int status;
    if (argc == 3 && strcmp(verb, "write") == 0)
        status = run_write(argv[2], &err);
    else if (argc > 3 && strcmp(verb, "state") == 0)
        status = checkpoint_state_write(argv[2], (const char *const *)argv + 3, argc - 3, &err);
    else if ((argc == 3 && strcmp(verb, "list") == 0) || (argc == 4 && strcmp(verb, "read") == 0) ||
             (argc == 4 && strcmp(verb, "copy") == 0))
        status = run_on(verb, argv[2], argv[3], &err);
    else {
        fprintf(stderr, "usage: bundle_tool write|list|read|copy|state PREFIX ...\n");
        return 2;
    }
    if (status < 0)
        fprintf(stderr, "bundle_tool: %s\n", err.message);
    return status < 0;
}
