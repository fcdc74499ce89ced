/* One page of a ListObjectsV2 reply. */
#ifndef NET_S3_LIST_H
#define NET_S3_LIST_H

#include "net/s3.h"

enum { S3_TOKEN_BYTES = 2048 };

/* Calls `visit` for each object; `token` gets the next page's continuation token, "" on the last.
 * Returns how many there were, or -1. */
int s3_list_page(const void *bytes, size_t count, s3_visit *visit, void *context,
                 char token[S3_TOKEN_BYTES], struct error *err);

#endif
