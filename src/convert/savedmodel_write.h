/* A network and its weights as a SavedModel, in the form of TensorFlow 1's exporters (one graph with
 * the tag "serve", a saver that restores its variables, signatures by tensor names), which
 * tf.saved_model.load, saved_model_cli and TensorFlow Serving all load. */
#ifndef CONVERT_SAVEDMODEL_WRITE_H
#define CONVERT_SAVEDMODEL_WRITE_H

struct error;
struct face;
struct graph;
struct params;

/* Into DIRECTORY, which must be there and is not yet anybody's: saved_model.pb, variables/ and,
 * where there are labels, assets/labels.txt. Everything is flushed but the directories' names. */
int savedmodel_write(const char *directory, const struct graph *graph, const struct params *params,
                     const struct face *face, struct error *err);

#endif
