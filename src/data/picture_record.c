#include "data/picture_record.h"

#include "base/strbuf.h"
#include "data/annotations.h"
#include "wire/example.h"

enum { MAX_BOXES = 512 };

static void add_text(struct strbuf *out, const char *name, const char *text)
{
    example_add_bytes(out, name, text, strlen(text));
}

static void add_integer(struct strbuf *out, const char *name, int64_t value)
{
    example_add_int64(out, name, &value, 1);
}

/* Four lists of one number per box, and the label once per box, as the usual script does. */
static void add_boxes(struct strbuf *out, const struct picture_record *record)
{
    int count = record->box_count < MAX_BOXES ? record->box_count : MAX_BOXES;
    float sides[4][MAX_BOXES];
    int64_t labels[MAX_BOXES];
    for (int i = 0; i < count; i++) {
        const struct box *box = &record->boxes[i];
        sides[0][i] = box->xmin;
        sides[1][i] = box->xmax;
        sides[2][i] = box->ymin;
        sides[3][i] = box->ymax;
        labels[i] = record->label + 1;
    }
    example_add_float(out, "image/object/bbox/xmin", sides[0], count);
    example_add_float(out, "image/object/bbox/xmax", sides[1], count);
    example_add_float(out, "image/object/bbox/ymin", sides[2], count);
    example_add_float(out, "image/object/bbox/ymax", sides[3], count);
    example_add_int64(out, "image/object/bbox/label", labels, count);
}

void picture_record_write(const struct picture_record *record, struct strbuf *out)
{
    strbuf_clear(out);
    example_begin(out);
    add_integer(out, "image/height", record->height);
    add_integer(out, "image/width", record->width);
    add_text(out, "image/colorspace", "RGB");
    add_integer(out, "image/channels", 3);
    add_integer(out, "image/class/label", record->label + 1);
    add_text(out, "image/class/synset", record->synset);
    add_text(out, "image/class/text", record->text);
    add_boxes(out, record);
    add_text(out, "image/format", "JPEG");
    add_text(out, "image/filename", record->filename);
    example_add_bytes(out, "image/encoded", record->encoded, record->encoded_bytes);
    example_end(out);
}
