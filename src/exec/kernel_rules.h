/* Which kernel computes which convolution, where a file says so: `lockstep bench --tune` measures and
 * writes one, a run with --kernels follows it. Plans without one, and nodes of which it says nothing,
 * follow the fixed rule. Lines of words; # begins a comment:
 *
 *   kernels 1                        the version, on the first line
 *   processor AMD EPYC, avx2         where it was measured; with threads, may be left out
 *   threads 2
 *   conv2d 32x64x56x56 64x64x3x3 stride=1x1 dilation=1x1 pad=1,1,1,1 groups=1 use winograd
 *   conv2d * use onednn              all that no other line names
 *
 * The words between the operation and `use` are what its struct op describes: for a convolution the
 * shapes of the input, batch included, and of the weights. */
#ifndef EXEC_KERNEL_RULES_H
#define EXEC_KERNEL_RULES_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct graph;
struct kernel_rules;
struct node;

enum { KERNEL_KEY_BYTES = 256 };

int kernel_rules_read(const char *path, struct kernel_rules **out, struct error *err);
/* `name` is for messages and copied. ERROR_FORMAT names the line. */
int kernel_rules_parse(const char *name, const char *text, size_t bytes, struct kernel_rules **out,
                       struct error *err);
void kernel_rules_destroy(struct kernel_rules *rules); /* accepts NULL */

const char *kernel_rules_name(const struct kernel_rules *rules);
const char *kernel_rules_processor(const struct kernel_rules *rules); /* "": not said */
int kernel_rules_threads(const struct kernel_rules *rules);           /* 0: not said */
/* Of what it says, not of its comments. */
uint64_t kernel_rules_fingerprint(const struct kernel_rules *rules);

/* "conv2d 32x64x56x56 ..." into `key`, which it returns; NULL where rules have no say. */
const char *kernel_rules_key(const struct graph *graph, const struct node *node, int batch,
                             char key[KERNEL_KEY_BYTES]);
/* The name of the kernel for such a node; NULL: not said. */
const char *kernel_rules_find(const struct kernel_rules *rules, const char *key);

#endif
