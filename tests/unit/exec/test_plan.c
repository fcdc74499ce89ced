/* Promises of the planner: kernels and layouts that do not fall behind, memory, determinism,
 * buckets, and that fusing changes nothing. What is computed is tests/reference's business. */
#include <math.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "graph/op.h"
#include "models/registry.h"
#include "support/network_text.h"
#include "support/subject.h"
#include "support/test.h"
#include "tensor/compare.h"
#include "tensor/random.h"

static const char *const small_models[] = {
    "model resnet50 classes=5 image_size=64",
    "model vgg16 classes=5 image_size=32",
    "model mnist_keras",
    "model mnist_custom",
    "model wide_deep embedding_rows=50 embedding_dim=8 hidden=96",
};
enum { SMALL_MODELS = sizeof small_models / sizeof small_models[0] };

static const struct plan_options train = {.mode = PLAN_TRAIN, .batch = 2, .threads = 2};

TEST(plan, tests_know_every_model)
{
    for (const struct model *const *model = model_list(); *model; model++) {
        bool found = false;
        for (int i = 0; i < SMALL_MODELS; i++)
            found |= strstr(small_models[i], (*model)->name) != NULL;
        if (!found)
            FAIL("%s is missing from small_models", (*model)->name);
    }
}

/* Kernels ------------------------------------------------------------------------------------- */

static const enum plan_mode modes[] = {PLAN_TRAIN, PLAN_EVALUATE, PLAN_SERVE};

/* "ref" as a word of its own: "ref:any", "gemm_ref", but not "prefetch". */
static bool is_reference(const char *kernel)
{
    for (const char *at = strstr(kernel, "ref"); at; at = strstr(at + 1, "ref")) {
        bool starts = at == kernel || !((at[-1] | 32) >= 'a' && (at[-1] | 32) <= 'z');
        bool ends = !((at[3] | 32) >= 'a' && (at[3] | 32) <= 'z');
        if (starts && ends)
            return true;
    }
    return false;
}

static void check_kernels(const struct plan *plan, enum plan_mode mode, const char *model)
{
    for (int i = 0; i < plan_step_count(plan); i++) {
        struct plan_step_info step = plan_step(plan, i);
        ASSERT_TRUE(step.kernel && step.kernel[0]);
        if (is_reference(step.kernel))
            FAIL("%s, batch %d, mode %d: %s %s runs the reference kernel %s", model,
                 plan_batch(plan), (int)mode, step.node, step.pass, step.kernel);
    }
}

TEST(plan, gives_no_model_a_reference_kernel)
{
    for (int i = 0; i < SMALL_MODELS; i++) {
        struct subject subject = subject_open(small_models[i], train, 1);
        for (int m = 0; m < 3; m++) {
            struct plan_options options = train;
            options.mode = modes[m];
            struct plan *plan = subject_plan(&subject, options);
            check_kernels(plan, options.mode, small_models[i]);
            plan_destroy(plan);
        }
        subject_close(&subject);
    }
}

/* Reorders ------------------------------------------------------------------------------------ */

static const struct node *node_named(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph_node_count(graph); i++) {
        if (strcmp(graph_node_at(graph, i)->name, name) == 0)
            return graph_node_at(graph, i);
    }
    return NULL;
}

static bool reads_an_input(const struct graph *graph, const struct node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        if (graph_value(graph, node->inputs[i])->kind == VALUE_INPUT)
            return true;
    }
    return false;
}

static size_t weight_bytes(const struct graph *graph, const struct node *node)
{
    size_t largest = 0;
    for (int i = 0; i < node->input_count; i++) {
        const struct value *value = graph_value(graph, node->inputs[i]);
        size_t bytes = (size_t)shape_count(&value->shape) * sizeof(float);
        if (value->kind == VALUE_PARAM && bytes > largest)
            largest = bytes;
    }
    return largest;
}

/* Unavoidable are the first one, from the caller's picture to what the first kernel reads, and
 * those of a convolution's weights for the gradient of its input (style.md has the measurement:
 * the library's kernels want them turned). An activation, or its gradient, between two of our
 * operations is never reordered, nor are the weights of a dense layer. */
static bool is_unavoidable(const struct graph *graph, const struct plan_step_info *step)
{
    const struct node *node = node_named(graph, step->node);
    if (!node)
        return false;
    if (strcmp(step->pass, "forward") == 0)
        return reads_an_input(graph, node);
    bool convolution = strcmp(node->op->name, "conv2d") == 0;
    return convolution && step->bytes <= 2 * weight_bytes(graph, node);
}

static void check_reorders(const struct graph *graph, const struct plan *plan, const char *what)
{
    for (int i = 0; i < plan_step_count(plan); i++) {
        struct plan_step_info step = plan_step(plan, i);
        bool copies = step.reorder || strcmp(step.op, "copy") == 0;
        if (copies && !is_unavoidable(graph, &step))
            FAIL("%s, batch %d: an avoidable %s of %zu bytes at %s, %s (kernel %s)", what, plan_batch(plan),
                 step.op, step.bytes, step.node, step.pass, step.kernel);
    }
}

/* Training plans first: they decide how the weights lie, and the others must live with it. */
static void check_plans(const char *model, int batch)
{
    struct error err = {0};
    struct graph *graph;
    struct params *params;
    ASSERT_OK(network_from_text(model, &graph, &err), err);
    ASSERT_OK(params_create(graph, 0, NULL, &params, &err), err);
    for (int m = 0; m < 3; m++) {
        struct plan_options options = train;
        struct plan *plan;
        options.mode = modes[m];
        options.batch = batch;
        ASSERT_OK(plan_create(graph, params, &options, &plan, &err), err);
        check_kernels(plan, options.mode, model);
        check_reorders(graph, plan, model);
        plan_destroy(plan);
    }
    params_destroy(params);
    graph_destroy(graph);
}

/* At their real sizes, with real kernels: the rule for weights goes by bytes, and in a tiny picture an
 * activation may be as small as the weights. */
TEST(plan, reorders_nothing_that_could_stay)
{
    static const char *const models[] = {"model resnet50", "model vgg16", "model mnist_keras",
                                         "model mnist_custom", "model wide_deep"};
    static const int batches[] = {1, 4, 32};
    for (int i = 0; i < 5; i++) {
        for (int b = 0; b < 3; b++)
            check_plans(models[i], batches[b]);
    }
}

/* Memory -------------------------------------------------------------------------------------- */

/* ResNet-50, batch 32: every convolution's output (batch norm's backward reads it) and every ReLU's
 * (the next convolution's backward does) are 2.63 GB; what comes and goes beside them fits into
 * gaps and 40 MB more. On a kernel library with other workspaces the second number may move a
 * little; when it jumps, something that could share memory no longer does. */
TEST(plan, fits_resnet50_at_batch_32_into_2_7_gigabytes)
{
    struct plan_options options = train;
    struct plan_memory memory;
    options.batch = 32;
    struct subject subject = subject_open("model resnet50", options, 1);
    plan_memory(subject.plan, &memory);
    ASSERT_INT(memory.saved, <=, 2640000000);
    ASSERT_INT(memory.peak, <=, 2700000000);
    ASSERT_INT(memory.saved, <=, memory.peak);
    ASSERT_INT(2 * memory.peak, <=, memory.sum); /* reuse halves it, at least */
    subject_close(&subject);
}

TEST(plan, refuses_a_batch_that_memory_cannot_hold)
{
    struct subject subject = subject_open("model resnet50", train, 1);
    struct plan_options options = train;
    struct error err;
    struct plan *plan = NULL;
    options.batch = 100000;
    ASSERT_FAILS(plan_create(subject.graph, subject.params, &options, &plan, &err), err,
                 ERROR_MEMORY, "activations");
    ASSERT_TRUE(plan == NULL);
    subject_close(&subject);
}

TEST(plan, refuses_a_batch_of_nothing)
{
    struct subject subject = subject_open("model mnist_custom", train, 1);
    static const int batches[] = {0, -1, -2147483647};
    for (int i = 0; i < 3; i++) {
        struct plan_options options = train;
        struct error err;
        struct plan *plan = NULL;
        options.batch = batches[i];
        ASSERT_FAILS(plan_create(subject.graph, subject.params, &options, &plan, &err), err,
                     ERROR_USAGE, "batch");
    }
    subject_close(&subject);
}

static void train_step(struct subject *subject, float rate)
{
    subject_loss(subject);
    plan_backward(subject->plan, 1.0f / (float)plan_batch(subject->plan), NULL, NULL);
    plan_commit_statistics(subject->plan);
    float *weights = params_weights(subject->params);
    const float *gradients = params_gradients(subject->params);
    for (size_t i = 0; i < params_dense_elements(subject->params); i++)
        weights[i] -= rate * gradients[i];
}

TEST(plan, allocates_nothing_after_the_first_step)
{
    for (int i = 0; i < SMALL_MODELS; i++) {
        struct subject subject = subject_open(small_models[i], train, 1);
        train_step(&subject, 0);
        uint64_t before = memory_allocation_count();
        for (int step = 0; step < 2; step++)
            train_step(&subject, 0);
        ASSERT_INT(memory_allocation_count() - before, ==, 0);
        subject_close(&subject);
    }
}

/* The times of a step's operations follow each other, and lie in the step. */
TEST(plan, takes_times_only_while_it_is_asked_to)
{
    struct subject subject = subject_open("model mnist_custom", train, 1);
    train_step(&subject, 0);
    ASSERT_NUMBER(plan_step(subject.plan, 0).end, ==, 0);
    double at = clock_seconds();
    plan_profile(subject.plan, true);
    train_step(&subject, 0);
    plan_profile(subject.plan, false);
    double end = clock_seconds();
    int last = plan_step_count(subject.plan) - 1;
    for (int i = 0; i <= last; i++) {
        struct plan_step_info info = plan_step(subject.plan, i);
        ASSERT_NUMBER(info.start, >=, at);
        ASSERT_NUMBER(info.end, >=, info.start);
        at = info.end;
    }
    ASSERT_NUMBER(at, <=, end);
    train_step(&subject, 0);
    ASSERT_NUMBER(plan_step(subject.plan, last).end, ==, at);
    subject_close(&subject);
}

/* Determinism --------------------------------------------------------------------------------- */

TEST(plan, gives_the_same_bits_for_the_same_seed_and_threads)
{
    for (int i = 0; i < SMALL_MODELS; i++) {
        struct subject one = subject_open(small_models[i], train, 3);
        struct subject two = subject_open(small_models[i], train, 3);
        for (int step = 0; step < 2; step++) {
            train_step(&one, 1e-3f);
            train_step(&two, 1e-3f);
        }
        ASSERT_BYTES(params_weights(one.params), params_weights(two.params),
                     params_elements(one.params) * sizeof(float));
        ASSERT_BYTES(params_statistics(one.params), params_statistics(two.params),
                     params_statistic_elements(one.params) * sizeof(float));
        subject_close(&one);
        subject_close(&two);
    }
}

/* Buckets ------------------------------------------------------------------------------------- */

struct seen {
    float *first_expected; /* where the next bucket must begin */
    int count;
    float *snapshot; /* gradients as they were when their bucket was called final */
    const float *slab;
};

static void see_bucket(void *context, int bucket, float *first, size_t count)
{
    struct seen *seen = context;
    ASSERT_INT(bucket, ==, seen->count);
    ASSERT_INT(first - seen->slab, ==, seen->first_expected - seen->slab);
    ASSERT_INT(count, >, 0);
    memcpy(seen->snapshot + (first - seen->slab), first, count * sizeof(float));
    seen->first_expected = first + count;
    seen->count++;
}

/* Gaps between parameters are nobody's; inside a range, padding included, all is written. */
static void check_all_written(struct subject *subject)
{
    const float *slab = params_gradients(subject->params);
    for (int i = 0; i < params_count(subject->params); i++) {
        struct param_range range = params_range(subject->params, i);
        if (!(range.flags & PARAM_TRAINABLE) || (range.flags & PARAM_SPARSE))
            continue;
        for (size_t at = range.first; at < range.first + range.count; at++)
            if (!(fabsf(slab[at]) < 1e30f))
                FAIL("%s: element %zu of its gradient was not written", range.name,
                     at - range.first);
    }
}

static int check_buckets(const char *text, size_t bucket_bytes)
{
    struct plan_options options = train;
    options.bucket_bytes = bucket_bytes;
    struct subject subject = subject_open(text, options, 4);
    size_t count = params_dense_elements(subject.params);
    float *slab = params_gradients(subject.params);
    struct seen seen = {.first_expected = slab, .slab = slab};
    seen.snapshot = arena_take(subject.arena, count * sizeof(float));
    memset(slab, 0x7f, count * sizeof(float)); /* large numbers: an old value would show */
    subject_loss(&subject);
    plan_backward(subject.plan, 0.5f, see_bucket, &seen);
    ASSERT_INT(seen.count, ==, plan_bucket_count(subject.plan));
    ASSERT_INT(seen.first_expected - slab, ==, count);
    ASSERT_BYTES(seen.snapshot, slab, count * sizeof(float));
    check_all_written(&subject);
    subject_close(&subject);
    return seen.count;
}

TEST(plan, calls_each_bucket_once_in_order_when_it_is_final)
{
    for (int i = 0; i < SMALL_MODELS; i++) {
        ASSERT_INT(check_buckets(small_models[i], 0), ==, 1);
        ASSERT_INT(check_buckets(small_models[i], (size_t)1 << 16), >, 1);
        ASSERT_INT(check_buckets(small_models[i], 1), >, 1);
    }
}

TEST(plan, puts_every_trainable_parameter_into_the_slab_once)
{
    for (int m = 0; m < SMALL_MODELS; m++) {
        struct subject subject = subject_open(small_models[m], train, 1);
        unsigned char *used = arena_take(subject.arena, params_elements(subject.params));
        for (int i = 0; i < params_count(subject.params); i++) {
            struct param_range range = params_range(subject.params, i);
            if (range.flags & PARAM_STATISTIC)
                continue;
            ASSERT_INT(range.count, >=, shape_count(&range.shape));
            ASSERT_INT(range.first + range.count, <=, params_elements(subject.params));
            for (size_t at = range.first; at < range.first + range.count; at++)
                ASSERT_INT(used[at]++, ==, 0);
        }
        subject_close(&subject);
    }
}

/* Fusing -------------------------------------------------------------------------------------- */

static void compare_tensors(const char *what, const char *name, struct tensor a, struct tensor b,
                            double tolerance)
{
    struct difference apart = compare_floats(a.data, b.data, (size_t)shape_count(&a.shape));
    if (apart.not_finite > 0 || apart.relative > tolerance)
        FAIL("%s %s: %.9g, expected %.9g, off by %.3g of the largest", what, name,
             (double)((float *)a.data)[apart.index], (double)((float *)b.data)[apart.index],
             apart.relative);
}

TEST(plan, computes_the_same_fused_and_unfused)
{
    for (int m = 0; m < SMALL_MODELS; m++) {
        struct plan_options options = train;
        struct subject fused = subject_open(small_models[m], options, 6);
        options.unfused = true;
        struct subject unfused = subject_open(small_models[m], options, 6);
        ASSERT_NEAR(subject_gradients(&fused), subject_gradients(&unfused), 1e-5, 1e-3);
        for (int i = 0; i < params_count(fused.params); i++) {
            if (!(params_range(fused.params, i).flags & PARAM_TRAINABLE))
                continue;
            const char *name = params_name(fused.params, i);
            int other = params_find(unfused.params, name);
            compare_tensors(small_models[m], name, subject_read_gradient(&fused, i),
                            subject_read_gradient(&unfused, other), 1e-3);
        }
        subject_close(&fused);
        subject_close(&unfused);
    }
}

/* Fingerprints -------------------------------------------------------------------------------- */

static uint64_t fingerprint(const char *text, struct plan_options options)
{
    struct subject subject = subject_open(text, options, 1);
    uint64_t result = plan_fingerprint(subject.plan);
    subject_close(&subject);
    return result;
}

TEST(plan, has_the_fingerprint_of_its_equals_only)
{
    struct plan_options other_buckets = train;
    other_buckets.bucket_bytes = 1 << 16;
    for (int i = 0; i < SMALL_MODELS; i++) {
        uint64_t one = fingerprint(small_models[i], train);
        ASSERT_TRUE(one == fingerprint(small_models[i], train));
        ASSERT_TRUE(one == fingerprint(small_models[i], other_buckets)); /* the same numbers */
        ASSERT_TRUE(one != fingerprint(small_models[(i + 1) % SMALL_MODELS], train));
    }
    ASSERT_TRUE(fingerprint("model mnist_custom classes=10", train) !=
                fingerprint("model mnist_custom classes=11", train));
}

/* Two networks that differ in the shape of the parameter that lies last in the slab. */
TEST(plan, has_another_fingerprint_when_only_the_last_shape_differs)
{
    static const char *const texts[] = {
        "input x f32 16\ninput label i32\ndense a x units=8 bias=0\ndense logits a units=3\n"
        "softmax_cross_entropy each logits label\nloss each\n",
        "input x f32 32\ninput label i32\ndense a x units=8 bias=0\ndense logits a units=3\n"
        "softmax_cross_entropy each logits label\nloss each\n"};
    ASSERT_TRUE(fingerprint(texts[0], train) != fingerprint(texts[1], train));
}

/* Several plans, one params --------------------------------------------------------------------- */

static void set_rows(const struct plan *plan, const struct tensor *from, struct tensor *to)
{
    for (int i = 0; i < plan_input_count(plan); i++) {
        to[i] = from[i];
        to[i].shape.dim[0] = plan_batch(plan);
    }
}

/* The first plan, of batch 4, decides how weights lie; smaller batches, whose kernels may like
 * other layouts, must give the same rows. */
TEST(plan, of_another_batch_gives_the_same_rows)
{
    for (int m = 0; m < SMALL_MODELS; m++) {
        struct plan_options options = {.mode = PLAN_TRAIN, .batch = 4, .threads = 2};
        struct subject subject = subject_open(small_models[m], options, 8);
        struct tensor inputs[SUBJECT_MAX_FIELDS], rows[SUBJECT_MAX_FIELDS];
        options.mode = PLAN_EVALUATE;
        struct plan *whole = subject_plan(&subject, options);
        plan_forward(whole, subject.inputs, subject.outputs);
        for (int batch = 1; batch <= 3; batch++) {
            options.batch = batch;
            struct plan *plan = subject_plan(&subject, options);
            set_rows(plan, subject.inputs, inputs);
            plan_forward(plan, inputs, rows);
            for (int i = 0; i < plan_output_count(plan); i++)
                compare_tensors(small_models[m], plan_output_name(plan, i), rows[i],
                                subject.outputs[i], 1e-5);
            plan_destroy(plan);
        }
        plan_destroy(whole);
        subject_close(&subject);
    }
}

/* The same for training: gradients land in the slab as the first plan laid it out. */
TEST(plan, of_another_batch_gives_the_same_gradients)
{
    for (int m = 0; m < SMALL_MODELS; m++) {
        struct plan_options four = {.mode = PLAN_TRAIN, .batch = 4, .threads = 2}, two = four;
        two.batch = 2;
        struct subject first = subject_open(small_models[m], two, 8);
        struct subject second = subject_open(small_models[m], four, 8);
        plan_destroy(second.plan);
        second.plan = subject_plan(&second, two);
        plan_set_random(second.plan, 8, 1);
        set_rows(second.plan, first.inputs, second.inputs);
        ASSERT_NEAR(subject_gradients(&second), subject_gradients(&first), 1e-5, 1e-3);
        for (int i = 0; i < params_count(first.params); i++) {
            const char *name = params_name(first.params, i);
            if (params_range(first.params, i).flags & PARAM_TRAINABLE)
                compare_tensors(small_models[m], name, subject_read_gradient(&second, i),
                                subject_read_gradient(&first, i), 1e-3);
        }
        subject_close(&first);
        subject_close(&second);
    }
}

/* Parameters ---------------------------------------------------------------------------------- */

TEST(params, come_back_as_they_were_written)
{
    for (int m = 0; m < SMALL_MODELS; m++) {
        struct subject subject = subject_open(small_models[m], train, 1);
        for (int i = 0; i < params_count(subject.params); i++) {
            struct tensor tensor = subject_read(&subject, i);
            size_t count = (size_t)shape_count(&tensor.shape);
            random_fill_normal((uint64_t)i, 1.0f, tensor.data, count);
            subject_write(&subject, i, tensor);
        }
        for (int i = 0; i < params_count(subject.params); i++) {
            struct tensor tensor = subject_read(&subject, i), expected = subject_read(&subject, i);
            size_t count = (size_t)shape_count(&tensor.shape);
            random_fill_normal((uint64_t)i, 1.0f, expected.data, count);
            ASSERT_BYTES(tensor.data, expected.data, count * sizeof(float));
        }
        subject_close(&subject);
    }
}

/* Sum of all numbers in the slab; equal to the plain tensors' when all padding is zero. */
TEST(params, keep_the_padding_of_blocked_layouts_zero)
{
    const char *odd = "input x f32 3 8 8\ninput label i32\n"
                      "conv2d a x channels=5 kernel=3 padding=same\nrelu b a\n"
                      "conv2d c b channels=17 kernel=3 padding=same\nbatch_norm d c\nrelu e d\n"
                      "flatten f e\ndense logits f units=3\n"
                      "softmax_cross_entropy each logits label\nloss each\n";
    struct subject subject = subject_open(odd, train, 2);
    for (int step = 0; step < 3; step++)
        train_step(&subject, 0.1f);
    double slab = 0, plain = 0;
    for (size_t i = 0; i < params_elements(subject.params); i++)
        slab += fabs(params_weights(subject.params)[i]);
    for (int i = 0; i < params_count(subject.params); i++) {
        if (!(params_range(subject.params, i).flags & PARAM_TRAINABLE))
            continue;
        struct tensor tensor = subject_read(&subject, i);
        for (int64_t k = 0; k < shape_count(&tensor.shape); k++)
            plain += fabs(((float *)tensor.data)[k]);
    }
    ASSERT_NEAR(slab, plain, 1e-12, 0);
    subject_close(&subject);
}

TEST(params, refuse_a_tensor_of_another_shape)
{
    struct error err;
    struct subject subject = subject_open("model mnist_custom", train, 1);
    struct tensor tensor = subject_read(&subject, 0);
    tensor.shape.dim[0]++;
    ASSERT_FAILS(params_write(subject.params, 0, &tensor, &err), err, ERROR_FORMAT, "");
    ASSERT_FAILS(params_read(subject.params, 0, &tensor, &err), err, ERROR_FORMAT, "");
    subject_close(&subject);
}

TEST(params, are_drawn_alike_whatever_the_layout)
{
    struct plan_options unfused = train, serve = train;
    unfused.unfused = true;
    unfused.threads = 1;
    serve.mode = PLAN_SERVE;
    struct subject one = subject_open(small_models[0], train, 9);
    struct subject others[] = {subject_open(small_models[0], unfused, 9),
                               subject_open(small_models[0], serve, 9)};
    for (int i = 0; i < params_count(one.params); i++) {
        struct tensor expected = subject_read(&one, i);
        for (int k = 0; k < 2; k++) {
            int index = params_find(others[k].params, params_name(one.params, i));
            ASSERT_BYTES(subject_read(&others[k], index).data, expected.data,
                         tensor_bytes(&expected));
        }
    }
    subject_close(&one);
    subject_close(&others[0]);
    subject_close(&others[1]);
}

/* NaN ----------------------------------------------------------------------------------------- */

static void fill(struct subject *subject, int index, float value)
{
    struct tensor tensor = subject_read(subject, index);
    for (int64_t i = 0; i < shape_count(&tensor.shape); i++)
        ((float *)tensor.data)[i] = value;
    subject_write(subject, index, tensor);
}

TEST(plan, names_the_parameter_that_is_not_finite)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct subject subject = subject_open("model mnist_custom", train, 1);
    ASSERT_TRUE(plan_find_nonfinite(subject.plan, subject.inputs) == NULL);
    for (int i = 0; i < params_count(subject.params); i++) {
        struct tensor tensor = subject_read(&subject, i);
        float *last = (float *)tensor.data + shape_count(&tensor.shape) - 1, kept = *last;
        for (int k = 0; k < 3; k++) {
            *last = bad[k];
            subject_write(&subject, i, tensor);
            ASSERT_TEXT(plan_find_nonfinite(subject.plan, subject.inputs),
                        params_name(subject.params, i));
        }
        *last = kept;
        subject_write(&subject, i, tensor);
    }
    ASSERT_TRUE(plan_find_nonfinite(subject.plan, subject.inputs) == NULL);
    subject_close(&subject);
}

/* Weights that are finite and so large that their product with the inputs is not. */
TEST(plan, names_the_node_that_overflowed)
{
    static const struct {
        const char *param, *node;
    } cases[] = {{"conv2d/weights", "conv2d"}, {"dense/weights", "dense"}};
    struct subject subject = subject_open("model mnist_custom", train, 1);
    for (int i = 0; i < 2; i++) {
        int index = params_find(subject.params, cases[i].param);
        ASSERT_INT(index, >=, 0);
        fill(&subject, index, 3e38f);
        ASSERT_TEXT(plan_find_nonfinite(subject.plan, subject.inputs), cases[i].node);
        fill(&subject, index, 0.01f);
    }
    ASSERT_TRUE(plan_find_nonfinite(subject.plan, subject.inputs) == NULL);
    subject_close(&subject);
}

TEST(plan, names_the_input_that_is_not_finite)
{
    struct subject subject = subject_open("model mnist_custom", train, 1);
    ASSERT_TEXT(plan_input_name(subject.plan, 0), "image");
    ((float *)subject.inputs[0].data)[28 * 28] = NAN;
    ASSERT_TEXT(plan_find_nonfinite(subject.plan, subject.inputs), "image");
    subject_close(&subject);
}

/* A convolution whose batch norm is folded, a dense layer: all of them want copies. */
static const char serving_text[] = "image x 3 8 8\nconv2d c x channels=8 kernel=3 padding=same\n"
                                   "batch_norm n c\nrelu r n\nflatten f r\ndense y f units=5\n"
                                   "output y y\n";

static void compare_serving(struct plan_options options, bool drop)
{
    struct subject subject =
        subject_open(serving_text, (struct plan_options){PLAN_SERVE, .batch = 8}, 3);
    struct plan *alone = subject_plan(&subject, (struct plan_options){PLAN_SERVE, .batch = 4});
    struct tensor inputs[SUBJECT_MAX_FIELDS], outputs[1];
    subject_draw_inputs(&subject, alone, 5, inputs);
    plan_forward(alone, inputs, outputs);
    float expected[4 * 5];
    memcpy(expected, outputs[0].data, sizeof expected);
    options.beside = subject.plan;
    struct plan *plan = subject_plan(&subject, options);
    if (drop)
        params_drop_dense(subject.params);
    for (int i = 0; i < 2; i++) {
        plan_forward(plan, inputs, outputs);
        ASSERT_BYTES(outputs[0].data, expected, sizeof expected);
        plan_forward(subject.plan, subject.inputs, NULL); /* what they share may be overwritten */
    }
    plan_destroy(plan);
    plan_destroy(alone);
    subject_close(&subject);
}

TEST(plan, for_serving_shares_memory_with_a_larger_one)
{
    compare_serving((struct plan_options){PLAN_SERVE, .batch = 4}, false);
}

TEST(plan, for_serving_shares_weights_with_one_that_may_run_meanwhile)
{
    compare_serving((struct plan_options){PLAN_SERVE, .batch = 4, .beside_runs = true}, false);
}

TEST(plan, for_serving_needs_no_dense_weights_once_it_is_made)
{
    compare_serving((struct plan_options){PLAN_SERVE, .batch = 4}, true);
}
