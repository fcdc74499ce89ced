/* ONNX files as models: what `lockstep train network.onnx` opens. */
#ifndef CONVERT_ONNX_READ_H
#define CONVERT_ONNX_READ_H

#include <lockstep/model.h>
#include <stdbool.h>

struct error;

bool onnx_is_file(const char *path); /* by its name: *.onnx */
/* Reads and tries the file. The model's build function adds its network to a graph, whose
 * parameters begin with the file's numbers; they stay until onnx_model_close. */
int onnx_model_open(const char *path, const struct model **out, struct error *err);
/* The file's numbers were copied: their memory may go. Who asks for them again still gets them. */
void onnx_model_rest(const struct model *model);
void onnx_model_close(const struct model *model); /* accepts any model, and NULL */

#endif
