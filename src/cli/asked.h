/* An export that answers as the server does: the same plan at the same batch size, the same way
 * from a request into the plan and from the plan to a reply. So its bits are the server's. */
#ifndef CLI_ASKED_H
#define CLI_ASKED_H

#include "tensor/tensor.h"

struct arena;
struct error;
struct imported;
struct plan;
struct signature;

struct asked {
    const struct imported *model; /* the caller's */
    const struct signature *signature;
    struct plan *plan;
    int batch;
    struct arena *arena;    /* of the whole run */
    struct arena *answers;  /* of one batch */
    struct tensor *inputs;  /* of the plan, `batch` rows */
    struct tensor *outputs; /* of the plan */
    struct tensor *reply;   /* to the last batch, in the order of signature->outputs */
};

/* `signature` as imported_signature takes it. Close it also after a failure. */
int asked_open(struct asked *asked, const struct imported *model, const char *signature, int batch,
               int threads, struct error *err);
void asked_close(struct asked *asked);

/* Computes what lies in `inputs`; the reply has so many rows. */
int asked_compute(struct asked *asked, int64_t rows, struct error *err);
/* Computes a request of at most `batch` rows, whose tensors are in the order of signature->inputs. */
int asked_answer(struct asked *asked, const struct tensor *request, int64_t rows,
                 struct error *err);

#endif
