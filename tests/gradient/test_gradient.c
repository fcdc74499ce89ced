/* Finite differences: every operation in op_list(), by its own examples, and every model on a tiny
 * picture. The oracle is the forward pass itself, so this finds gradients that do not belong to
 * what is computed; tests/reference finds what is computed wrongly. */
#include <math.h>

#include "base/arena.h"
#include "graph/op.h"
#include "models/registry.h"
#include "support/subject.h"
#include "support/test.h"
#include "tensor/random.h"

/* How far to move, relative to the length of what is moved; how far the loss may move at most; and
 * how a loss near 1 is rounded. */
#define STEP 2e-3
#define LOSS_MOVE 5e-4
#define LOSS_ROUNDING 4e-7

struct vector {
    size_t count;
    float *data;
};

static double dot(struct vector a, struct vector b)
{
    double sum = 0;
    for (size_t i = 0; i < a.count; i++)
        sum += (double)a.data[i] * b.data[i];
    return sum;
}

static double length(struct vector a)
{
    return sqrt(dot(a, a));
}

static struct vector vector_of(struct tensor tensor)
{
    return (struct vector){(size_t)shape_count(&tensor.shape), tensor.data};
}

static struct vector vector_create(struct arena *arena, size_t count)
{
    struct vector vector = {count, ARENA_ARRAY(arena, float, count)};
    ASSERT_TRUE(vector.data != NULL);
    return vector;
}

static struct vector vector_copy(struct arena *arena, struct tensor from)
{
    struct vector to = vector_create(arena, vector_of(from).count);
    memcpy(to.data, from.data, to.count * sizeof(float));
    return to;
}

/* What is moved: a parameter (index >= 0) or an input. */
struct place {
    int param;
    const char *name;
    struct tensor tensor; /* a plain copy of the parameter, or the input itself */
    struct vector middle, gradient;
};

static void move_to(struct subject *subject, const struct place *place, struct vector direction,
                    double step)
{
    struct vector moved = vector_of(place->tensor);
    for (size_t i = 0; i < moved.count; i++)
        moved.data[i] = (float)(place->middle.data[i] + step * direction.data[i]);
    if (place->param >= 0)
        subject_write(subject, place->param, place->tensor);
}

static double loss_at(struct subject *subject, const struct place *place, struct vector direction,
                      double step)
{
    move_to(subject, place, direction, step);
    return subject_loss(subject);
}

/* Central difference along `direction`, and what the gradient says it should be. */
static void check_direction(struct subject *subject, const struct place *place,
                            struct vector direction, double tolerance, const char *what)
{
    /* Large enough for the loss to move by many of its roundings, small beside the tensor, and
     * small enough for it to move along a line. */
    double size = fmax(length(place->middle), 0.05 * sqrt((double)place->middle.count));
    double expected = dot(place->gradient, direction);
    double step = fmin(STEP * size / length(direction), LOSS_MOVE / (fabs(expected) + 1e-30));
    double ahead = loss_at(subject, place, direction, step);
    double behind = loss_at(subject, place, direction, -step);
    move_to(subject, place, direction, 0);
    double measured = (ahead - behind) / (2 * step);
    double allowed = tolerance * length(place->gradient) * length(direction) +
                     LOSS_ROUNDING * fmax(1, fabs(ahead)) / step;
    if (!(fabs(measured - expected) <= allowed))
        FAIL("%s, %s: the gradient says %.6g, a difference %.6g (length of the gradient %.3g)",
             place->name, what, expected, measured, length(place->gradient));
}

static void check_place(struct subject *subject, int param, const char *name, struct tensor tensor,
                        struct tensor gradient, uint64_t seed, double tolerance)
{
    struct arena *arena = arena_create();
    ASSERT_TRUE(arena != NULL);
    struct place place = {.param = param, .name = name, .tensor = tensor};
    place.middle = vector_copy(arena, tensor);
    place.gradient = vector_copy(arena, gradient);
    for (size_t i = 0; i < place.gradient.count; i++)
        ASSERT_TRUE(isfinite(place.gradient.data[i]));
    /* Along the gradient the loss moves most, so a wrong length shows; along a random direction a
     * part that is missing shows. */
    if (length(place.gradient) > 0)
        check_direction(subject, &place, place.gradient, tolerance, "along the gradient");
    struct vector random = vector_create(arena, place.middle.count);
    random_fill_normal(random_key_text(seed, name), 1.0f, random.data, random.count);
    check_direction(subject, &place, random, tolerance, "along a random direction");
    arena_destroy(arena);
}

static void check_params(struct subject *subject, uint64_t seed, double tolerance)
{
    for (int i = 0; i < params_count(subject->params); i++) {
        struct param_range range = params_range(subject->params, i);
        if (!(range.flags & PARAM_TRAINABLE))
            continue;
        check_place(subject, i, range.name, subject_read(subject, i),
                    subject_read_gradient(subject, i), seed, tolerance);
    }
}

/* A copy of an input's gradient, in the order of the input: that of a channels-last picture is
 * logical, [N, C, H, W]. */
static struct tensor input_gradient(struct subject *subject, int index)
{
    struct error err = {0};
    struct tensor from = plan_input_gradient(subject->plan, index), to;
    value_id input = graph_find_input(subject->graph, plan_input_name(subject->plan, index));
    if (!from.data)
        return from;
    ASSERT_OK(tensor_create(subject->arena, DTYPE_F32, subject->inputs[index].shape, &to, &err),
              err);
    memcpy(to.data, from.data, tensor_bytes(&from));
    if (!graph_value(subject->graph, input)->channels_last)
        return to;
    const int64_t *dim = from.shape.dim;
    int64_t area = dim[2] * dim[3];
    for (int64_t n = 0; n < dim[0]; n++)
        for (int64_t c = 0; c < dim[1]; c++)
            for (int64_t at = 0; at < area; at++)
                ((float *)to.data)[(n * area + at) * dim[1] + c] =
                    ((float *)from.data)[(n * dim[1] + c) * area + at];
    return to;
}

static void check_subject(struct subject *subject, uint64_t seed, double tolerance)
{
    double loss = subject_gradients(subject);
    ASSERT_TRUE(isfinite(loss));
    /* Gradients of inputs live in the plan and only until the next pass: copy them all first. */
    struct tensor gradients[SUBJECT_MAX_FIELDS];
    for (int i = 0; i < plan_input_count(subject->plan); i++)
        gradients[i] = input_gradient(subject, i);
    for (int i = 0; i < plan_input_count(subject->plan); i++) {
        if (gradients[i].data && subject->inputs[i].dtype == DTYPE_F32)
            check_place(subject, -1, plan_input_name(subject->plan, i), subject->inputs[i],
                        gradients[i], seed, tolerance);
    }
    check_params(subject, seed, tolerance);
}

static const struct plan_options tiny = {
    .mode = PLAN_TRAIN, .batch = 3, .threads = 1, .want_input_gradient = true};

/* A loss behind any value: what is not a number per example goes through a dense layer. */
static void add_loss(struct graph *graph, value_id value)
{
    struct shape shape = graph_value(graph, value)->shape;
    if (shape.ndim == 1) {
        lockstep_loss(graph, value);
        return;
    }
    if (shape.ndim == 4)
        value = flatten(graph, value);
    lockstep_classifier(graph, dense(graph, value, 3, .name = "loss_head"), 0);
}

/* False when the op has no such variant. */
static bool check_example(const struct op *op, int variant, bool unfused)
{
    struct error err = {0};
    struct graph *graph = graph_create();
    ASSERT_TRUE(graph != NULL);
    value_id value = op->example(graph, variant);
    if (value < 0) {
        graph_destroy(graph);
        return false;
    }
    add_loss(graph, value);
    if (graph_finish(graph, &err) < 0)
        FAIL("%s, example %d: %s", op->name, variant, err.message);
    struct plan_options options = tiny;
    options.unfused = unfused;
    struct subject subject = subject_open_graph(graph, options, 100 + (uint64_t)variant);
    print_message("%s, example %d%s\n", op->name, variant, unfused ? ", unfused" : "");
    check_subject(&subject, 200 + (uint64_t)variant, 1e-2);
    subject_close(&subject);
    return true;
}

TEST(gradient, of_every_example_of_every_op_matches_finite_differences)
{
    for (const struct op *const *op = op_list(); *op; op++) {
        ASSERT_TRUE((*op)->example != NULL);
        int variant = 0;
        while (check_example(*op, variant, false))
            check_example(*op, variant++, true);
        if (variant == 0)
            FAIL("%s has no example", (*op)->name);
    }
}

/* Multiplies the parameters whose name has `part` in it. */
static void scale_params(struct subject *subject, const char *part, float factor)
{
    for (int i = 0; i < params_count(subject->params); i++) {
        if (!part || !strstr(params_name(subject->params, i), part))
            continue;
        struct tensor tensor = subject_read(subject, i);
        for (int64_t k = 0; k < shape_count(&tensor.shape); k++)
            ((float *)tensor.data)[k] *= factor;
        subject_write(subject, i, tensor);
    }
}

static void check_model(const char *text, int batch, double tolerance, const char *part,
                        float factor)
{
    struct plan_options options = tiny;
    options.batch = batch;
    struct subject subject = subject_open(text, options, 5);
    scale_params(&subject, part, factor);
    check_subject(&subject, 6, tolerance);
    subject_close(&subject);
}

TEST(gradient, of_mnist_keras_matches_finite_differences)
{
    check_model("model mnist_keras", 2, 2e-2, NULL, 1);
}

TEST(gradient, of_mnist_custom_matches_finite_differences)
{
    check_model("model mnist_custom", 2, 2e-2, NULL, 1);
}

/* Its own initialiser halves the signal at each ReLU; at the end of thirteen the loss hardly moves
 * before some of them have changed sides. The factor keeps the signal's size. */
TEST(gradient, of_vgg16_matches_finite_differences)
{
    check_model("model vgg16 classes=3 image_size=32", 2, 5e-2, "conv", 1.4142f);
}

/* A small scale at the end of each residual branch lets the shortcut lead, as in a trained
 * network; freshly drawn ones bend the loss so sharply that no step is both short and audible. */
TEST(gradient, of_resnet50_matches_finite_differences)
{
    check_model("model resnet50 classes=3 image_size=64", 4, 5e-2, "norm3/scale", 0.1f);
}

TEST(gradient, of_wide_deep_matches_finite_differences)
{
    check_model("model wide_deep embedding_rows=11 embedding_dim=4 hidden=9 categoricals=3", 4,
                2e-2, NULL, 1);
}

TEST(gradient, tests_know_every_model)
{
    static const char *const known[] = {"resnet50", "vgg16", "mnist_keras", "mnist_custom",
                                        "wide_deep"};
    for (const struct model *const *model = model_list(); *model; model++) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            found |= strcmp(known[i], (*model)->name) == 0;
        if (!found)
            FAIL("%s has no gradient test", (*model)->name);
    }
}
