/* The shared libraries that this program uses here, for `doctor`: those it was started with, and those
 * it loads when a command wants them. */
#ifndef CLI_LIBRARIES_H
#define CLI_LIBRARIES_H

struct library {
    const char *name; /* "libjpeg" */
    const char *use;  /* what needs it: "pictures" */
    char version[48]; /* of its file, "62.3.0"; empty: not found */
};

enum { LIBRARIES_MAX = 16 };
/* Fills `out`; returns how many. Loads what is not loaded yet. */
int libraries_find(struct library out[LIBRARIES_MAX]);

#endif
