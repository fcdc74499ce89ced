/* write_records FILE plain|gzip|zlib: a TFRecord file of tf.Examples made by us, for TensorFlow to
 * read. check_tfrecord.py knows what must be in it. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "wire/example.h"
#include "wire/tfrecord.h"

enum { RECORDS = 100, LARGE = 70000 };

/* Example i: integers i, -i and both ends of the range; floats; bytes of growing length, a large one
 * and an empty list. */
static void make_example(int i, const char *large, struct strbuf *out)
{
    const int64_t integers[] = {i, -i, INT64_MIN, INT64_MAX};
    const float floats[] = {(float)i / 3, -0.0f, INFINITY};
    char text[64];
    snprintf(text, sizeof text, "record %d", i);
    example_begin(out);
    example_add_int64(out, "integers", integers, 4);
    example_add_float(out, "floats", floats, 3);
    example_add_bytes(out, "text", text, strlen(text));
    example_add_bytes(out, "large", large, (size_t)(LARGE / RECORDS * i));
    example_add_float(out, "none", NULL, 0);
    example_end(out);
}

static int write_all(struct tfrecord_writer *writer, const char *large, struct error *err)
{
    struct strbuf message;
    int status = 0;
    strbuf_init(&message);
    for (int i = 0; i < RECORDS && status == 0; i++) {
        make_example(i, large, &message);
        status = tfrecord_writer_add(writer, message.text, message.length, err);
    }
    strbuf_release(&message);
    return status < 0 ? -1 : tfrecord_writer_finish(writer, err);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"plain", "gzip", "zlib"};
    static char large[LARGE];
    struct error err = {0};
    struct tfrecord_writer *writer = NULL;
    int packing = 0;
    while (argc == 3 && packing < 3 && strcmp(argv[2], names[packing]) != 0)
        packing++;
    if (argc != 3 || packing == 3) {
        fprintf(stderr, "usage: write_records FILE plain|gzip|zlib\n");
        return 2;
    }
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 % 251);
    int status = tfrecord_writer_create(argv[1], (enum tfrecord_packing)packing, &writer, &err) < 0
                     ? -1
                     : write_all(writer, large, &err);
    tfrecord_writer_destroy(writer);
    if (status < 0)
        fprintf(stderr, "write_records: %s\n", err.message);
    return status < 0;
}
