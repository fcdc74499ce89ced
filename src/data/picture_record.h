/* One picture as the tf.Example in which ImageNet is kept in TFRecords. */
#ifndef DATA_PICTURE_RECORD_H
#define DATA_PICTURE_RECORD_H

#include <stddef.h>
#include <stdint.h>

struct box;
struct strbuf;

struct picture_record {
    const void *encoded; /* a JPEG of RGB or grey */
    size_t encoded_bytes;
    int width, height;
    int label; /* 0-based here; ImageNet's records count from 1 */
    const char *synset, *text, *filename;
    const struct box *boxes;
    int box_count;
};

/* Writes the message, all 15 features of it, in place of what `out` held. */
void picture_record_write(const struct picture_record *record, struct strbuf *out);

#endif
