/* What the parts of imported.h share. */
#ifndef CONVERT_IMPORTED_PARTS_H
#define CONVERT_IMPORTED_PARTS_H

#include "convert/face.h"
#include "convert/imported.h"

struct pictures;

struct imported_memory {
    struct arena *arena;
    struct face face;
    const struct model *onnx; /* the file that the network was read from, or NULL */
    struct pictures *pictures;
    struct text_view *names; /* of the classes, or their numbers */
    int name_count;
};

/* Makes the params, in the layouts that serving wants; they are empty. */
int imported_fix_layouts(struct imported *model, struct error *err);

#endif
