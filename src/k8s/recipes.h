/* What the documents train, and for how long: values that follow from MODEL. */
#ifndef K8S_RECIPES_H
#define K8S_RECIPES_H

struct arena;
struct deployment;
struct error;

/* Fills MODEL_NAME, BATCH_SIZE, STEPS, EPOCHS and MEMORY where nobody gave them. SLOTS must be known. */
int recipes_apply(struct deployment *deployment, struct arena *memory, struct error *err);
/* Its kind of data, as in imagenet:DIR; NULL where a directory's files tell it. */
const char *recipes_data_kind(const struct deployment *deployment);

#endif
