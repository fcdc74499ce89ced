/* A network of one's own: one convolution, two dense layers, in a file that knows nothing of
 * training. Built as a shared object and trained by its file name:
 *
 *     cc -shared -fPIC -o mnist_small.so mnist_small.c
 *     lockstep train ./mnist_small.so --data digits --epochs 2
 *
 * `make` builds it too; `make bench` trains it against the same network in other frameworks. */
#include <lockstep/model.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 1, args->image_size);                             /* 1x28x28 */
    x = max_pool(graph, relu(graph, conv2d(graph, x, 32, .kernel = 3)), .kernel = 2); /* 32x13x13 */
    x = relu(graph, dense(graph, flatten(graph, x), 64));
    classifier_output(graph, dense(graph, x, args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "mnist_small",
    .summary = "one convolution, two dense layers",
    .dataset = "digits",
    .recipe = "--optimizer=sgd --lr=0.01 --batch-size=64",
    .defaults = {.classes = 10, .image_size = 28},
    .build = build,
};
