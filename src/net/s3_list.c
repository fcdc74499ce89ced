#include "net/s3_list.h"

#include <limits.h>

#include "base/error.h"
#include "net/xml.h"

struct page {
    struct s3_object object;
    char key[S3_KEY_BYTES];
    bool has_key, has_size, truncated;
    int objects;
};

static bool read_size(const struct xml *xml, uint64_t *out)
{
    char text[24], *rest;
    if (!xml_text(xml, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return false;
    *out = strtoull(text, &rest, 10);
    return *rest == '\0' && *out <= INT64_MAX;
}

/* An element ended inside <Contents>. */
static bool read_member(const struct xml *xml, struct page *page)
{
    if (strcmp(xml->name, "Key") == 0)
        return page->has_key = xml_text(xml, page->key, sizeof page->key);
    if (strcmp(xml->name, "Size") == 0)
        return page->has_size = read_size(xml, &page->object.bytes);
    if (strcmp(xml->name, "ETag") == 0)
        return xml_text(xml, page->object.etag, sizeof page->object.etag);
    return true;
}

static int finish_object(struct page *page, s3_visit *visit, void *context, struct error *err)
{
    if (!page->has_key || !page->has_size)
        return error_set(err, ERROR_FORMAT, "object %d of the list has no %s", page->objects + 1,
                         page->has_key ? "size" : "key");
    page->object.key = page->key;
    page->objects++;
    int status = visit(context, &page->object, err);
    page->has_key = page->has_size = false;
    page->object = (struct s3_object){0};
    return status;
}

/* Where the element that ended stood: its parent is `depth` names deep. */
static int element_ended(struct xml *xml, struct page *page, s3_visit *visit, void *context,
                         char *token, struct error *err)
{
    bool fine = true;
    if (xml->depth == 2 && strcmp(xml->names[1], "Contents") == 0)
        fine = read_member(xml, page);
    else if (xml->depth == 1 && strcmp(xml->name, "Contents") == 0)
        return finish_object(page, visit, context, err);
    else if (xml->depth == 1 && strcmp(xml->name, "IsTruncated") == 0)
        page->truncated = xml->text && xml->text_bytes == 4 && memcmp(xml->text, "true", 4) == 0;
    else if (xml->depth == 1 && strcmp(xml->name, "NextContinuationToken") == 0)
        fine = xml_text(xml, token, S3_TOKEN_BYTES);
    return fine ? 0
                : error_set(err, ERROR_FORMAT, "the %s at byte %td of the list is not one",
                            xml->name, xml->at - xml->start);
}

int s3_list_page(const void *bytes, size_t count, s3_visit *visit, void *context,
                 char token[S3_TOKEN_BYTES], struct error *err)
{
    struct xml xml;
    struct page page = {0};
    token[0] = '\0';
    xml_start(&xml, bytes, count);
    for (;;) {
        enum xml_event event = xml_next(&xml);
        if (event == XML_BROKEN ||
            (event != XML_END && strcmp(xml.names[0], "ListBucketResult") != 0))
            return error_set(err, ERROR_FORMAT,
                             "the server's answer is no list of objects (byte %td of %zu); is the "
                             "endpoint an S3 server?",
                             xml.at - xml.start, count);
        if (event == XML_END)
            break;
        if (event == XML_CLOSE && element_ended(&xml, &page, visit, context, token, err) < 0)
            return -1;
    }
    if (!page.truncated)
        token[0] = '\0';
    else if (!token[0])
        return error_set(err, ERROR_FORMAT, "the list goes on, but says not where");
    return page.objects;
}
