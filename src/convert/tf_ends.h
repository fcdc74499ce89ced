/* The two ends of an exported network in TensorFlow's words: from what a signature asks (encoded
 * pictures, columns, tf.Examples) to the network's inputs, and from its outputs to the answers. */
#ifndef CONVERT_TF_ENDS_H
#define CONVERT_TF_ENDS_H

#include "convert/tf_network.h"

struct face;
struct signatures;

/* Fills network->tensors of the inputs. Functions that the nodes call go to `library`, as fields of
 * a FunctionDefLibrary. */
int tf_write_questions(struct tf_network *network, const struct signatures *signatures,
                       const struct face *face, struct strbuf *library, struct error *err);
int tf_write_answers(struct tf_network *network, const struct signatures *signatures,
                     const struct face *face, struct error *err);

#endif
