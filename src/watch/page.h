/* The files of the live page, as they lie in web/. */
#ifndef WATCH_PAGE_H
#define WATCH_PAGE_H

#include <stddef.h>

struct page_file {
    const char *path; /* "/dashboard.js" */
    const char *type; /* of its content */
    const char *bytes;
    size_t count;
};

/* The page itself comes first, then what it refers to, in its order. */
enum { PAGE_FILES = 7 };
void page_files(struct page_file out[PAGE_FILES]);

#endif
