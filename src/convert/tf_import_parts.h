/* What the files with TensorFlow's operations share: tf_import_ops.c, which lists them all, and
 * tf_import_shapes.c. */
#ifndef CONVERT_TF_IMPORT_PARTS_H
#define CONVERT_TF_IMPORT_PARTS_H

#include "convert/tf_import.h"

struct import_value import_nothing(void);
struct import_value import_value_of(value_id id);
const struct shape *import_shape_of(const struct import *import, const struct import_value *value);
/* An input that must be a value of the graph; without pads, unless they are wanted. */
struct import_value import_take(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node, int input);
/* Small integers of a constant: axes, paddings, shapes. -1: it is none. */
int import_ints(const struct import_value *value, int64_t *out, int room);
/* One number for both axes, of a list for N, H, W, C. */
bool import_both_axes(const struct tf_def_node *node, const char *name, int missing, int *out);
/* Zeros around the picture, given by the node or by a Pad before it. */
bool import_padding(const struct tf_def_node *node, const int64_t before[4], enum padding *padding,
                    int *first, int *last);
bool import_is_picture(const struct import *import, const struct import_value *x);

typedef struct import_value import_fn(struct import *import, struct import_frame *frame,
                                      const struct tf_def_node *node);

import_fn import_pool, import_mean, import_pad, import_transpose, import_squeeze, import_shape,
    import_slice, import_pack, import_reshape, import_concat;

#endif
