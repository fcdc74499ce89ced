/* The network of keras_mnist.py: one convolution, two dense layers, plain SGD. */
#include <lockstep/model.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 1, args->image_size); /* [N, 1, 28, 28] */
    x = relu(graph, conv2d(graph, x, 32, .kernel = 3));
    x = relu(graph, dense(graph, flatten(graph, x), 128));
    classifier_output(graph, dense(graph, x, args->classes));
}

const struct model model_mnist_keras = {
    .name = "mnist_keras",
    .summary = "one convolution and two dense layers, as keras_mnist.py",
    .dataset = "digits",
    .recipe = "--batch-size=128 --optimizer=sgd --lr=0.001 --steps=700",
    .defaults = {.classes = 10, .image_size = 28},
    .build = build,
};
