/* From a graph and its face to the signatures that clients use; what each of their inputs becomes
 * for the plan, and how each of their outputs is made from the plan's. */
#ifndef CONVERT_SIGNATURES_H
#define CONVERT_SIGNATURES_H

#include "convert/imported.h"

struct face;

/* How an input of a signature is taken. */
enum question_kind {
    QUESTION_ROWS,     /* as it is */
    QUESTION_PICTURE,  /* an encoded picture, resized and cut as for evaluation */
    QUESTION_NUMBER,   /* column `column` of a row of numbers */
    QUESTION_CATEGORY, /* a text, its fingerprint in column `column` */
    QUESTION_EXAMPLE,  /* a tf.Example with all columns */
};

struct question {
    enum question_kind kind;
    int port, column; /* of the plan's inputs */
};

/* How an output of a signature is made. Of two classes there is one logit. */
enum answer_kind {
    ANSWER_ROWS,
    ANSWER_SOFTMAX,
    ANSWER_ARGMAX,      /* int64 [N] */
    ANSWER_LOGISTIC,    /* 1 / (1 + exp(-x)) */
    ANSWER_PAIR,        /* [N, 2]: probabilities of no and yes */
    ANSWER_PAIR_ID,     /* int64 [N, 1]: 0 or 1 */
    ANSWER_PAIR_NAME,   /* string [N, 1] */
    ANSWER_CLASS_IDS,   /* int32 [N, classes]: 0, 1, ... */
    ANSWER_CLASS_NAMES, /* string [N, classes] */
    ANSWER_NAME,        /* string [N]: of the greatest */
};

struct answer {
    enum answer_kind kind;
    int port; /* of the plan's outputs */
};

/* The plan's inputs and outputs, and the signatures over them. Everything lives in `arena`, or as
 * long as graph and face. */
struct signatures {
    const struct imported_port *inputs, *outputs;
    int input_count, output_count;
    const struct signature *list;
    int count;
};
int signatures_make(const struct graph *graph, const struct face *face, struct arena *arena,
                    struct signatures *out, struct error *err);

/* Values that an output depends on: [graph_value_count], true where needed. In `arena`; NULL when
 * memory is short. */
bool *signatures_needed(const struct graph *graph, struct arena *arena);

/* The class's name, or its number where there are no labels. */
const char *signatures_label(const struct face *face, int index, struct arena *arena);

extern const char signature_method_predict[], signature_method_classify[],
    signature_method_regress[];

#endif
