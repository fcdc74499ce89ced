/* Small files of the kernel (/proc, /sys): read whole into the caller's buffer, no allocation. */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes read, or -1 when the file cannot be read. Always terminated; cut off when it is longer. */
int proc_read(const char *path, char *text, size_t capacity);
/* The number behind `key`, which starts a line of `text`. */
bool proc_find_number(const char *text, const char *key, uint64_t *out);
/* Copies what follows "key<blanks>:<blanks>" on the first line that starts with `key`. */
bool proc_find_text(const char *text, const char *key, char *out, size_t capacity);

#endif
