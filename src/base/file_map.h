/* Files as memory, read as they are looked at. Whoever shortens a mapped file makes its readers fault
 * (SIGBUS), which would end a server because of one bad copy: here the missing part reads as zeros, and
 * the reader asks afterwards whether it may believe what it read. */
#ifndef BASE_FILE_MAP_H
#define BASE_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct error;

/* The whole file; changes stay private. An empty file, and what is no regular file, is refused. The
 * process gets a handler for SIGBUS, which leaves every fault outside of these maps to the handler
 * that was there before the first. Any thread may read, if it does not block SIGBUS. */
int file_map(const char *path, char **out, size_t *bytes, struct error *err);
void file_unmap(char *bytes, size_t count); /* accepts NULL */
/* Its memory may go until it is looked at again; private changes go for good. */
void file_map_rest(char *bytes, size_t count);

/* Whether `inside` lies in a map of which a part was read that the file no longer had. False for
 * any other memory. */
bool file_map_is_torn(const void *inside);
/* To be asked when all was read, before any of it is believed: fails when it is torn. */
int file_map_check(const char *path, const void *inside, struct error *err);

#endif
