#include "k8s/recipes.h"

#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "k8s/deployment.h"

struct recipe {
    const char *model, *name, *data;
    const char *batch, *steps, *epochs; /* on one node */
    const char *batch_of_many, *steps_of_many;
    int fixed_mb, example_mb; /* what a process takes: measured peaks; 0: little */
};

static const struct recipe recipes[] = {
    {"resnet50", "resnet50v1-5-fp32-training", "imagenet", "16", "50", "0", "128", "5", 350, 84},
    {"wide_deep", "wide-deep-large-ds-fp32-training", "criteo", "512", "0", "10", "512", "0", 0, 0},
    {"vgg16", "vgg16-fp32-training", "imagenet", "64", "100", "0", "64", "100", 1700, 41},
    {"mnist_keras", "mnist-keras-training", "mnist", "0", "0", "0", "0", "0", 0, 0},
    {"mnist_custom", "mnist-custom-training", "mnist", "0", "0", "0", "0", "0", 0, 0},
};

static const struct recipe *find(const struct deployment *deployment)
{
    const char *model = deployment_text(deployment, P_MODEL);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strcmp(recipes[i].model, model) == 0)
            return &recipes[i];
    return NULL;
}

const char *recipes_data_kind(const struct deployment *deployment)
{
    const struct recipe *recipe = find(deployment);
    return recipe ? recipe->data : NULL;
}

/* "my_model" and "/models/my_model.so" are my-model-training. */
static const char *name_for(const char *model, struct arena *memory)
{
    const char *slash = strrchr(model, '/');
    char *name = arena_format(memory, "%.*s-training", (int)strcspn(slash ? slash + 1 : model, "."),
                              slash ? slash + 1 : model);
    for (char *at = name; at && *at; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
        else if (*at == '_')
            *at = '-';
    }
    return name;
}

static void fill(struct deployment *deployment, enum parameter parameter, const char *value)
{
    const char *now = deployment->values[parameter];
    if (!deployment_gave(deployment, parameter) && (!*now || strcmp(now, "0") == 0))
        deployment->values[parameter] = value;
}

/* A quarter more than was measured, for pictures on their way and what the system counts. Who brings
 * a command of their own knows better. */
static const char *memory_for(const struct recipe *recipe, const struct deployment *deployment,
                              struct arena *memory)
{
    double batch = (double)deployment_integer(deployment, P_BATCH_SIZE);
    double ranks = kind_spelling(deployment->kind, P_SLOTS)
                       ? (double)deployment_integer(deployment, P_SLOTS)
                       : 1;
    double gib = 0;
    if (recipe && !*deployment_text(deployment, P_EXEC))
        gib = ceil(1.25e6 * ranks * (recipe->fixed_mb + batch * recipe->example_mb) / 0x1p30);
    return gib <= 4 ? "4Gi" : arena_format(memory, "%.0fGi", gib);
}

static int fill_memory(struct deployment *deployment, struct arena *memory, struct error *err)
{
    const char *value = memory_for(find(deployment), deployment, memory);
    if (!value)
        return error_set(err, ERROR_MEMORY, "no memory for a quantity");
    fill(deployment, P_MEMORY, value);
    return 0;
}

int recipes_apply(struct deployment *deployment, struct arena *memory, struct error *err)
{
    const struct recipe *recipe = find(deployment);
    bool many = kind_spelling(deployment->kind, P_WORKERS) != NULL;
    if (!kind_spelling(deployment->kind, P_MODEL)) {
        fill(deployment, P_MEMORY, "4Gi");
        return 0;
    }
    const char *name =
        recipe ? recipe->name : name_for(deployment_text(deployment, P_MODEL), memory);
    if (!name)
        return error_set(err, ERROR_MEMORY, "no memory for a name");
    fill(deployment, P_MODEL_NAME, name);
    if (!recipe)
        return fill_memory(deployment, memory, err);
    fill(deployment, P_BATCH_SIZE, many ? recipe->batch_of_many : recipe->batch);
    /* One of them says how long; who gives one means it. */
    if (!deployment_gave(deployment, P_EPOCHS))
        fill(deployment, P_STEPS, many ? recipe->steps_of_many : recipe->steps);
    if (deployment_is(deployment, P_STEPS, "0"))
        fill(deployment, P_EPOCHS, recipe->epochs);
    return fill_memory(deployment, memory, err);
}
