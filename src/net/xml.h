/* Reads the XML that S3 and STS answer with: elements and text, nothing else. Attributes,
 * comments and processing instructions are passed over, a DOCTYPE is refused. Not expat: it is
 * bounded by the bytes it is given, allocates nothing, and takes the &#x1; that S3 writes for the
 * control characters of a key, which XML 1.0 forbids. */
#ifndef NET_XML_H
#define NET_XML_H

#include <stdbool.h>
#include <stddef.h>

struct error;

enum { XML_MAX_DEPTH = 16, XML_MAX_NAME = 64 };

enum xml_event { XML_OPEN, XML_CLOSE, XML_END, XML_BROKEN };

struct xml {
    const char *start, *at, *end;
    int depth;
    bool self_closing;
    char names[XML_MAX_DEPTH][XML_MAX_NAME]; /* of the open elements; no namespace prefixes */
    /* Behind XML_CLOSE: the element that ended, and its text, still with entities, when it held
     * nothing but text. */
    const char *name;
    const char *text;
    size_t text_bytes;
};

void xml_start(struct xml *xml, const void *bytes, size_t count);
enum xml_event xml_next(struct xml *xml);
/* The text of the element that just ended, entities replaced, always terminated. False when it
 * does not fit, holds a NUL or an entity nobody defined. */
bool xml_text(const struct xml *xml, char *out, size_t space);
/* The text of the first element of this name, anywhere; false when there is none. */
bool xml_find(const void *bytes, size_t count, const char *name, char *out, size_t space);

#endif
