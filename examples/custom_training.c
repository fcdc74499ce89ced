/* A training loop of one's own, through the installed library: what custom_training_mnist.py does
 * with tf.GradientTape. Build and run it, after `make install`, with
 *
 *     cc custom_training.c -o custom_training $(pkg-config --cflags --libs lockstep)
 *     ./custom_training [DATA [EPOCHS [STEPS]]]        DATA: digits, or mnist:DIR
 */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 1, args->image_size); /* [N, 1, 28, 28] */
    x = max_pool(graph, relu(graph, conv2d(graph, x, 32, .kernel = 3)), .kernel = 2);
    x = max_pool(graph, relu(graph, conv2d(graph, x, 64, .kernel = 3)), .kernel = 2);
    x = relu(graph, dense(graph, flatten(graph, x), 64));
    classifier_output(graph, dense(graph, x, args->classes));
}

static const struct model model = {
    .name = "custom",
    .summary = "two convolutions, two dense layers",
    .defaults = {.classes = 10, .image_size = 28},
    .build = build,
};

/* Mean loss and accuracy of `steps` steps. */
static int train_epoch(struct lockstep_network *network, struct lockstep_data *data, long steps,
                       struct lockstep_result *mean, struct lockstep_error *error)
{
    *mean = (struct lockstep_result){0};
    for (long step = 0; step < steps; step++) {
        struct lockstep_result result;
        if (lockstep_data_next(data, error) < 0 ||
            lockstep_forward(network, data, &result, error) < 0 ||
            lockstep_backward(network, error) < 0 || lockstep_update(network, 1e-3f, error) < 0)
            return -1;
        mean->loss += result.loss / (double)steps;
        mean->accuracy += result.accuracy / (double)steps;
    }
    return 0;
}

static int run(struct lockstep_network *network, struct lockstep_data *train,
               struct lockstep_data *test, long epochs, long steps, struct lockstep_error *error)
{
    for (long epoch = 1; epoch <= epochs; epoch++) {
        struct lockstep_result trained, tested;
        if (train_epoch(network, train, steps, &trained, error) < 0 ||
            lockstep_evaluate(network, test, &tested, error) < 0)
            return -1;
        printf("Epoch %ld, Loss: %.4f, Accuracy: %.2f, Test Loss: %.4f, Test Accuracy: %.2f\n",
               epoch, trained.loss, 100 * trained.accuracy, tested.loss, 100 * tested.accuracy);
        if (epoch % 2 == 0 && lockstep_save(network, "custom.safetensors", error) < 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct lockstep_error error = {""};
    const char *spec = argc > 1 ? argv[1] : "digits";
    long epochs = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
    struct lockstep_network *network = lockstep_network_create(
        &model, &(struct lockstep_options){.batch = 64, .seed = 1, .optimizer = "adam"}, &error);
    struct lockstep_data *train = NULL, *test = NULL;
    int status = 1;
    if (network)
        train = lockstep_data_open(network, spec, LOCKSTEP_TRAIN, &error);
    if (train)
        test = lockstep_data_open(network, spec, LOCKSTEP_EVALUATE, &error);
    if (test) {
        long steps =
            argc > 3 ? strtol(argv[3], NULL, 10) : (long)lockstep_data_steps_per_epoch(train);
        status = run(network, train, test, epochs, steps, &error) < 0;
    }
    if (status)
        fprintf(stderr, "custom_training: %s\n", error.message);
    lockstep_data_close(test);
    lockstep_data_close(train);
    lockstep_network_destroy(network);
    return status;
}
