/* The text file `checkpoint`, by which TensorFlow's tools find the newest bundle of a directory. */
#ifndef STORE_CHECKPOINT_STATE_H
#define STORE_CHECKPOINT_STATE_H

struct error;

/* Replaces DIRECTORY/checkpoint. `names`: the prefixes of the bundles that are there, relative to
 * the directory or absolute, oldest first; the last one is what tf.train.latest_checkpoint gives.
 * At least one. */
int checkpoint_state_write(const char *directory, const char *const *names, int count,
                           struct error *err);

#endif
