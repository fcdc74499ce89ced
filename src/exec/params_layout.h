/* The side of params that only plans see: which layout each parameter is stored in. */
#ifndef EXEC_PARAMS_LAYOUT_H
#define EXEC_PARAMS_LAYOUT_H

#include "exec/dnn.h"
#include "exec/params.h"

/* Index of the parameter that is this value of the graph. */
int params_index(const struct params *params, value_id value);
/* As stored; before they are fixed, the plain layout. The layout's shape may group the
 * parameter's dimensions otherwise ([O, C, H, W] for a dense layer behind a picture); its plain
 * form has the same bytes. */
const struct layout *params_layout(const struct params *params, int index);
/* Says which layout the first plan wants; the first word for a parameter counts. */
void params_propose_layout(struct params *params, int index, const struct layout *layout);
/* Places everything, in the order in which backward finishes it, and takes the memory. Gradients
 * and slots are taken when a training plan first asks. Does nothing the second time. */
int params_fix(struct params *params, bool training, struct error *err);

#endif
