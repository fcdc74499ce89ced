#include "support/checkpoint_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "store/checkpoint.h"
#include "support/test.h"

static const struct manifest_setting settings[] = {
    {"batch-size", "64"}, {"data", "mnist:/a \"b\"/\\"}, {"optimizer", "adam"}};

struct manifest checkpoint_files_manifest(int64_t step, double accuracy)
{
    return (struct manifest){
        .version = "1.2.3",
        .model = "test",
        .step = step,
        .goal = 100,
        .steps_per_epoch = 7,
        .epoch = step / 7,
        .epoch_step = step % 7,
        .fingerprint = UINT64_C(0xfedcba9876543210),
        .saved_at = 1.5e9,
        .evaluated = !isnan(accuracy),
        .loss = 0.25,
        .accuracy = accuracy,
        .settings = settings,
        .setting_count = 3,
    };
}

static int get(void *context, int index, const char **name, struct tensor *out, struct error *err)
{
    static const char *const names[] = {"weights", "bias"};
    static float numbers[8];
    (void)err;
    for (int i = 0; i < 8; i++)
        numbers[i] = (float)(*(int64_t *)context + i) + 0.5F * (float)index;
    *name = names[index];
    *out = (struct tensor){.dtype = DTYPE_F32, .shape = SHAPE(8), .data = numbers};
    return 0;
}

const char *checkpoint_files_write(const char *directory, int64_t step, double accuracy)
{
    char path[PATH_MAX];
    struct error err = {0};
    struct manifest manifest = checkpoint_files_manifest(step, accuracy);
    struct checkpoint_tensors tensors = {2, get, &step};
    ASSERT_OK(checkpoint_write(directory, &manifest, &tensors, path, &err), err);
    return test_path("%s", path + strlen(test_directory()) + 1);
}

const char *checkpoint_files_directory(const char *name)
{
    const char *path = test_path("%s", name);
    if (mkdir(path, 0777) < 0)
        FAIL("%s is not new", path);
    return path;
}

void checkpoint_files_flip(const char *path, const char *file, long offset)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", path, file);
    FILE *stream = fopen(full, "r+b");
    if (!stream)
        FAIL("%s cannot be opened", full);
    fseek(stream, offset, offset < 0 ? SEEK_END : SEEK_SET);
    int byte = fgetc(stream);
    fseek(stream, -1, SEEK_CUR);
    fputc(byte ^ 1, stream);
    ASSERT_INT(fclose(stream), ==, 0);
}

static const char *wanted; /* scandir's filter has no context */

static int begins(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
           !strncmp(entry->d_name, wanted, strlen(wanted));
}

const char *checkpoint_files_names(const char *directory, const char *prefix)
{
    static char text[4096];
    struct dirent **list;
    wanted = prefix;
    int count = scandir(directory, &list, begins, alphasort);
    if (count < 0)
        FAIL("%s cannot be read", directory);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return text;
}
