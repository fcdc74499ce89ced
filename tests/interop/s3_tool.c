/* The S3 client from a shell, for check_s3.sh:
 *     s3_tool list BUCKET PREFIX
 *     s3_tool read BUCKET KEY OFFSET BYTES    (to standard output)
 *     s3_tool write BUCKET KEY FILE
 *     s3_tool find BUCKET KEY                 (prints its size; status 3: not there) */
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "net/s3.h"

static int print_object(void *context, const struct s3_object *object, struct error *err)
{
    (void)context, (void)err;
    printf("%llu %s\n", (unsigned long long)object->bytes, object->key);
    return 0;
}

static int read_range(struct s3 *s3, char **words, struct error *err)
{
    size_t bytes = strtoull(words[5], NULL, 10);
    char *data = memory_allocate(bytes + 1);
    int status = s3_read(s3, words[3], "", strtoull(words[4], NULL, 10), bytes, data, err);
    if (status == 0)
        fwrite(data, 1, bytes, stdout);
    memory_free(data);
    return status;
}

static int write_file(struct s3 *s3, char **words, struct error *err)
{
    char *data;
    size_t bytes;
    if (file_read(words[4], (size_t)1 << 30, &data, &bytes, err) < 0)
        return -1;
    int status = s3_write(s3, words[3], data, bytes, err);
    memory_free(data);
    return status;
}

static int find(struct s3 *s3, const char *key, struct error *err)
{
    bool found;
    struct s3_object object;
    if (s3_find(s3, key, &found, &object, err) < 0)
        return -1;
    if (found)
        printf("%llu\n", (unsigned long long)object.bytes);
    return found ? 0 : 3;
}

int main(int count, char **words)
{
    struct s3_settings settings;
    struct s3 *s3 = NULL;
    struct error err = {0};
    int status = -1;
    if (count < 4)
        return 2;
    if (s3_settings_read(&settings, &err) == 0 && s3_open(words[2], &settings, &s3, &err) == 0) {
        if (strcmp(words[1], "list") == 0)
            status = s3_list(s3, words[3], print_object, NULL, &err);
        else if (strcmp(words[1], "read") == 0 && count == 6)
            status = read_range(s3, words, &err);
        else if (strcmp(words[1], "write") == 0 && count == 5)
            status = write_file(s3, words, &err);
        else if (strcmp(words[1], "find") == 0)
            status = find(s3, words[3], &err);
    }
    if (status < 0)
        fprintf(stderr, "%s\n", err.message);
    s3_close(s3);
    return status < 0 ? 1 : status;
}
