/* What comes beside ImageNet's pictures as text: the order of classes, what they are called, which
 * class each validation picture has, and boxes around the things in them. */
#ifndef DATA_ANNOTATIONS_H
#define DATA_ANNOTATIONS_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

/* Lines of a file without line ends; empty ones are left out. *out is the arena's. */
int annotations_read_lines(const char *path, struct arena *arena, const char *const **out,
                           int64_t *count, struct error *err);
/* The first word of each line. */
int annotations_read_words(const char *path, struct arena *arena, const char *const **out,
                           int64_t *count, struct error *err);

struct class_names;
/* "n01440764<tab>tench, Tinca tinca": one line per class. */
int class_names_read(const char *path, struct arena *arena, struct class_names **out,
                     struct error *err);
/* What the class is called, or "" when `names` is NULL or does not say. */
const char *class_names_find(const struct class_names *names, const char *class_name);

struct box {
    const char *picture;
    float xmin, ymin, xmax, ymax; /* parts of width and height, 0 .. 1 */
};
struct boxes;
/* "n00007846_64193.JPEG,0.0060,0.2620,0.7545,0.9940": picture, xmin, ymin, xmax, ymax. */
int boxes_read(const char *path, struct arena *arena, struct boxes **out, struct error *err);
/* Those of one picture, one behind the other; returns how many. `boxes` may be NULL. */
int boxes_find(const struct boxes *boxes, const char *picture, const struct box **out);

#endif
