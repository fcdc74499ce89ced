#include "data/annotations.h"

#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

enum { FILE_LIMIT = 256 << 20 };

struct class_name {
    const char *class_name, *text;
};

struct class_names {
    struct class_name *items;
    int64_t count;
};

struct boxes {
    struct box *items;
    int64_t count;
};

static int no_memory(const char *path, struct error *err)
{
    return error_set(err, ERROR_MEMORY, "%s: no memory for its lines", path);
}

static int64_t count_lines(const char *text)
{
    int64_t lines = 1;
    while ((text = strchr(text, '\n'))) {
        text++;
        lines++;
    }
    return lines;
}

static char *take_line(char **at)
{
    char *line = *at;
    size_t length = strcspn(line, "\n");
    *at = line + length + (line[length] == '\n');
    if (length && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    return line;
}

int annotations_read_lines(const char *path, struct arena *arena, const char *const **out,
                           int64_t *count, struct error *err)
{
    char *bytes;
    size_t length;
    if (file_read(path, FILE_LIMIT, &bytes, &length, err) < 0)
        return -1;
    char *text = arena_copy_text(arena, bytes);
    memory_free(bytes);
    const char **lines = text ? ARENA_ARRAY(arena, const char *, count_lines(text)) : NULL;
    if (!lines)
        return no_memory(path, err);
    *count = 0;
    while (*text) {
        char *line = take_line(&text);
        if (*line)
            lines[(*count)++] = line;
    }
    *out = lines;
    return 0;
}

int annotations_read_words(const char *path, struct arena *arena, const char *const **out,
                           int64_t *count, struct error *err)
{
    if (annotations_read_lines(path, arena, out, count, err) < 0)
        return -1;
    for (int64_t i = 0; i < *count; i++) {
        char *line = (char *)(*out)[i]; /* the arena's own copy */
        line[strcspn(line, " \t,")] = '\0';
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct class_name *)a)->class_name,
                  ((const struct class_name *)b)->class_name);
}

int class_names_read(const char *path, struct arena *arena, struct class_names **out,
                     struct error *err)
{
    const char *const *lines;
    struct class_names names = {0};
    if (annotations_read_lines(path, arena, &lines, &names.count, err) < 0)
        return -1;
    names.items = ARENA_ARRAY(arena, struct class_name, names.count + 1);
    struct class_names *kept = ARENA_NEW(arena, struct class_names);
    if (!names.items || !kept)
        return no_memory(path, err);
    for (int64_t i = 0; i < names.count; i++) {
        char *line = (char *)lines[i];
        size_t length = strcspn(line, "\t ");
        names.items[i].text = line + length + strspn(line + length, "\t ");
        names.items[i].class_name = line;
        line[length] = '\0';
    }
    qsort(names.items, (size_t)names.count, sizeof *names.items, compare_names);
    *kept = names;
    *out = kept;
    return 0;
}

const char *class_names_find(const struct class_names *names, const char *class_name)
{
    struct class_name wanted = {.class_name = class_name};
    const struct class_name *found =
        names && names->count
            ? bsearch(&wanted, names->items, (size_t)names->count, sizeof wanted, compare_names)
            : NULL;
    return found ? found->text : "";
}

static int compare_boxes(const void *a, const void *b)
{
    return strcmp(((const struct box *)a)->picture, ((const struct box *)b)->picture);
}

static int parse_box(const char *path, int64_t number, char *line, struct box *box,
                     struct error *err)
{
    float *values[] = {&box->xmin, &box->ymin, &box->xmax, &box->ymax};
    char *at = strchr(line, ',');
    box->picture = line;
    for (int i = 0; i < 4; i++) {
        char *end;
        if (!at)
            break;
        *at = '\0';
        *values[i] = strtof(at + 1, &end);
        if (end == at + 1 || !isfinite(*values[i]) || (*end != ',' && *end != '\0'))
            break;
        at = *end == ',' ? end : NULL;
        if (i == 3)
            return 0;
    }
    return error_set(err, ERROR_FORMAT,
                     "%s: entry %" PRId64 " ('%.80s') is not PICTURE,XMIN,YMIN,XMAX,YMAX", path,
                     number, line);
}

int boxes_read(const char *path, struct arena *arena, struct boxes **out, struct error *err)
{
    const char *const *lines;
    struct boxes boxes = {0};
    if (annotations_read_lines(path, arena, &lines, &boxes.count, err) < 0)
        return -1;
    boxes.items = ARENA_ARRAY(arena, struct box, boxes.count + 1);
    struct boxes *kept = ARENA_NEW(arena, struct boxes);
    if (!boxes.items || !kept)
        return no_memory(path, err);
    for (int64_t i = 0; i < boxes.count; i++)
        if (parse_box(path, i + 1, (char *)lines[i], &boxes.items[i], err) < 0)
            return -1;
    qsort(boxes.items, (size_t)boxes.count, sizeof *boxes.items, compare_boxes);
    *kept = boxes;
    *out = kept;
    return 0;
}

int boxes_find(const struct boxes *boxes, const char *picture, const struct box **out)
{
    int64_t low = 0, high = boxes ? boxes->count : 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (strcmp(boxes->items[middle].picture, picture) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    int count = 0;
    while (boxes && low + count < boxes->count &&
           strcmp(boxes->items[low + count].picture, picture) == 0)
        count++;
    *out = count ? &boxes->items[low] : NULL;
    return count;
}
