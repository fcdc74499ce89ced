#include "k8s/recipes.h"

#include "base/arena.h"
#include "base/error.h"
#include "k8s/deployment.h"

struct recipe {
    const char *model, *name, *data;
    const char *batch, *steps, *epochs; /* on one node */
    const char *batch_of_many, *steps_of_many;
};

static const struct recipe recipes[] = {
    {"resnet50", "resnet50v1-5-fp32-training", "imagenet", "16", "50", "0", "128", "5"},
    {"wide_deep", "wide-deep-large-ds-fp32-training", "criteo", "512", "0", "10", "512", "0"},
    {"vgg16", "vgg16-fp32-training", "imagenet", "64", "100", "0", "64", "100"},
    {"mnist_keras", "mnist-keras-training", "mnist", "0", "0", "0", "0", "0"},
    {"mnist_custom", "mnist-custom-training", "mnist", "0", "0", "0", "0", "0"},
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

int recipes_apply(struct deployment *deployment, struct arena *memory, struct error *err)
{
    const struct recipe *recipe = find(deployment);
    bool many = kind_spelling(deployment->kind, P_WORKERS) != NULL;
    const char *name =
        recipe ? recipe->name : name_for(deployment_text(deployment, P_MODEL), memory);
    if (!name)
        return error_set(err, ERROR_MEMORY, "no memory for a name");
    fill(deployment, P_MODEL_NAME, name);
    if (!recipe)
        return 0;
    fill(deployment, P_BATCH_SIZE, many ? recipe->batch_of_many : recipe->batch);
    /* One of them says how long; who gives one means it. */
    if (!deployment_gave(deployment, P_EPOCHS))
        fill(deployment, P_STEPS, many ? recipe->steps_of_many : recipe->steps);
    if (deployment_is(deployment, P_STEPS, "0"))
        fill(deployment, P_EPOCHS, recipe->epochs);
    return 0;
}
