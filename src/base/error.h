/* How functions fail: they return -1 and describe the failure in the caller's struct error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

enum error_code {
    ERROR_NONE,
    ERROR_USAGE, /* the user's words: exit status 2 */
    ERROR_IO,
    ERROR_ABSENT, /* that part of the data does not exist; nothing is wrong with the rest */
    ERROR_FORMAT, /* a file or message is not what it should be */
    ERROR_MEMORY,
    ERROR_PEER,
    ERROR_KERNEL,  /* the kernel library refused */
    ERROR_NUMERIC, /* NaN or infinity where a number was needed */
    ERROR_CANCELLED,
    ERROR_TOLD, /* the same as on rank 0, which tells it */
};

/* Lives on the caller's stack, never allocates, so reporting a failure cannot fail. */
struct error {
    enum error_code code;
    char message[512];
};

/* Fills `err` (which may be NULL) and returns -1, so a failure is one statement:
 * `return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));` */
int error_set(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts what the caller was doing in front: "resume from step 1200: manifest.json: ...". */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
