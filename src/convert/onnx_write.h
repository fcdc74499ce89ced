/* A network and its weights as one ONNX file: opset 17, IR 8, what Debian 12's ONNX and every
 * onnxruntime since 1.12 read. Pictures come N, C, H, W, as ONNX has them; categories as the
 * numbers of their buckets, -1 for a missing one, because ONNX has no hash of texts. */
#ifndef CONVERT_ONNX_WRITE_H
#define CONVERT_ONNX_WRITE_H

#include <stdbool.h>

struct error;
struct face;
struct graph;
struct params;

/* Written beside, flushed, renamed. Operations that ONNX has no word for are named all at once. A
 * file of 2 GiB or more is no protobuf message any longer: then nothing is written and *too_large
 * is true. */
int onnx_write(const char *path, const struct graph *graph, const struct params *params,
               const struct face *face, bool *too_large, struct error *err);

#endif
