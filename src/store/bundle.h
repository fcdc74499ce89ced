/* TensorFlow's tensor bundles ("V2 checkpoints"), read and written without TensorFlow:
 * PREFIX.data-00000-of-00001 holds the numbers of all tensors one after the other, PREFIX.index
 * says what lies where, with a checksum for each tensor. tf.train.load_checkpoint(PREFIX) reads
 * ours, and we read those that tf.train.Checkpoint, a Saver or a SavedModel wrote. */
#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H

#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct bundle;
struct bundle_writer;
struct error;

/* Creates both files, which must not be there yet, in a directory that must. There are no drafts
 * and no rename here: the caller writes into a directory of its own and renames that. */
int bundle_write_begin(const char *prefix, struct bundle_writer **out, struct error *err);
/* Names in any order, each once and not empty. Numbers (and strings) go to the file as they come,
 * 1 MiB at a time, nothing is kept; large files are on their way to the disk while the rest is
 * written. Fails with file and offset when the disk is full or fails; the bundle is then lost, and
 * later calls fail too. One thread at a time. */
int bundle_write_tensor(struct bundle_writer *writer, const char *name, const struct tensor *tensor,
                        struct error *err);
/* Writes the index and flushes both files to the disk; flushing the directory that names them is
 * the caller's. Fails when a name came twice. Frees the writer, also on failure. */
int bundle_write_finish(struct bundle_writer *writer, struct error *err);
void bundle_write_drop(struct bundle_writer *writer); /* accepts NULL; leaves the files */

/* How a tensor's bytes are checked. */
enum bundle_form {
    BUNDLE_NUMBERS,   /* as they lie */
    BUNDLE_STRINGS,   /* lengths, then the bytes of all */
    BUNDLE_UNCHECKED, /* a variant, or a tensor kept in slices */
};

struct bundle_entry {
    const char *name;
    enum dtype dtype;
    struct shape shape;
    uint64_t offset, bytes; /* in the data file */
    uint32_t crc;           /* masked, as stored */
    int shard;              /* which data file; 0 in all of ours */
    enum bundle_form form;
    /* NULL, or why it cannot be had as a tensor ("its dtype is float16"): then dtype and shape say
     * nothing, and bundle_read refuses it. */
    const char *unreadable;
};

/* Reads the index, and checks it and that the data files hold every tensor's range; not the
 * numbers. Fails with ERROR_FORMAT for what is damaged, cut off, or written by a big-endian
 * machine. */
int bundle_open(const char *prefix, struct bundle **out, struct error *err);
void bundle_close(struct bundle *bundle); /* accepts NULL */
int bundle_count(const struct bundle *bundle);
/* Sorted by name; valid until bundle_close. */
const struct bundle_entry *bundle_entry(const struct bundle *bundle, int index);
int bundle_find(const struct bundle *bundle, const char *name); /* or -1 */

/* Reads the numbers into `out`, whose dtype and shape must agree, and checks them: ERROR_FORMAT
 * with file, tensor and offset when they are damaged (`out` then holds what was there). Threads
 * may read at the same time. */
int bundle_read(const struct bundle *bundle, int index, struct tensor *out, struct error *err);
/* The same for DTYPE_STRING: `out`, its text_views and their bytes come from `arena`. */
int bundle_read_strings(const struct bundle *bundle, int index, struct arena *arena,
                        struct tensor *out, struct error *err);
/* Checks a tensor's bytes without keeping them; BUNDLE_UNCHECKED passes. */
int bundle_check(const struct bundle *bundle, int index, struct error *err);

#endif
