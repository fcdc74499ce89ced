/* Examples in the form in which clients send them: tensors for the inputs of a signature. From the
 * data that a network was evaluated with, where its examples can be had in that form; otherwise
 * drawn, which is enough to compare two answers. */
#ifndef CLI_QUESTIONS_H
#define CLI_QUESTIONS_H

#include <stdatomic.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct error;
struct imported;
struct questions;
struct session_data;
struct signature;

/* `data` may be closed (all zero). All must outlive it. */
int questions_open(const struct imported *model, const struct signature *signature,
                   const struct session_data *data, const atomic_int *stop, struct questions **out,
                   struct error *err);
void questions_close(struct questions *questions); /* accepts NULL */
/* What they are: "evaluation examples", "drawn examples". */
const char *questions_kind(const struct questions *questions);
/* Examples first, first + 1, ...; behind the last the first follows. *inputs are in the order of the
 * signature's; *labels are [rows], NULL when there are none. In the arena. */
int questions_take(struct questions *questions, int64_t first, int rows, struct arena *arena,
                   struct tensor **inputs, int32_t **labels, struct error *err);

#endif
