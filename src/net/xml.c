#include "net/xml.h"

void xml_start(struct xml *xml, const void *bytes, size_t count)
{
    *xml = (struct xml){.start = bytes, .at = bytes, .end = (const char *)bytes + count};
}

static bool starts(const struct xml *xml, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(xml->end - xml->at) >= length && memcmp(xml->at, word, length) == 0;
}

/* Moves behind the next `mark`. */
static bool skip_past(struct xml *xml, const char *mark)
{
    const char *found = memmem(xml->at, (size_t)(xml->end - xml->at), mark, strlen(mark));
    if (found)
        xml->at = found + strlen(mark);
    return found;
}

/* The name at the cursor, without a namespace prefix. */
static bool take_name(struct xml *xml, char out[XML_MAX_NAME])
{
    const char *first = xml->at;
    while (xml->at < xml->end && !strchr(" \t\r\n/>", *xml->at))
        if (*xml->at++ == ':')
            first = xml->at;
    size_t length = (size_t)(xml->at - first);
    if (length == 0 || length >= XML_MAX_NAME || memchr(first, '<', length) ||
        memchr(first, '\0', length))
        return false;
    memcpy(out, first, length);
    out[length] = '\0';
    return true;
}

/* To the '>' of a start tag; quoted values may hold one of their own. */
static bool skip_attributes(struct xml *xml)
{
    while (xml->at < xml->end && *xml->at != '>') {
        if (*xml->at == '<')
            return false;
        if (*xml->at == '"' || *xml->at == '\'') {
            char quote = *xml->at++;
            xml->at = memchr(xml->at, quote, (size_t)(xml->end - xml->at));
            if (!xml->at)
                return xml->at = xml->end, false;
        }
        xml->at++;
    }
    if (xml->at >= xml->end)
        return false;
    xml->self_closing = xml->at[-1] == '/';
    xml->at++;
    return true;
}

static enum xml_event open_element(struct xml *xml)
{
    xml->at++;
    if (xml->depth == XML_MAX_DEPTH || !take_name(xml, xml->names[xml->depth]) ||
        !skip_attributes(xml))
        return XML_BROKEN;
    xml->name = xml->names[xml->depth++];
    xml->text = xml->self_closing ? "" : xml->at;
    xml->text_bytes = 0;
    return XML_OPEN;
}

static enum xml_event close_element(struct xml *xml, const char *text_end)
{
    char name[XML_MAX_NAME];
    if (!xml->self_closing) {
        xml->at += 2;
        if (!take_name(xml, name) || xml->depth == 0 ||
            strcmp(name, xml->names[xml->depth - 1]) != 0 || !skip_attributes(xml))
            return XML_BROKEN;
        xml->text_bytes = xml->text ? (size_t)(text_end - xml->text) : 0;
    }
    xml->self_closing = false;
    xml->name = xml->names[--xml->depth];
    return XML_CLOSE;
}

enum xml_event xml_next(struct xml *xml)
{
    if (xml->self_closing)
        return close_element(xml, xml->at);
    if (xml->name && xml->depth > 0 && xml->name != xml->names[xml->depth - 1])
        xml->text = NULL; /* an element ended here: what surrounds it is not only text */
    for (;;) {
        const char *text_end = memchr(xml->at, '<', (size_t)(xml->end - xml->at));
        if (!text_end) {
            xml->at = xml->end;
            return xml->depth == 0 && xml->name ? XML_END : XML_BROKEN;
        }
        xml->at = text_end;
        if (starts(xml, "<!--") || starts(xml, "<?")) {
            if (!skip_past(xml, starts(xml, "<?") ? "?>" : "-->"))
                return XML_BROKEN;
            if (xml->depth > 0)
                xml->text = NULL;
        } else if (starts(xml, "<!")) {
            return XML_BROKEN; /* DOCTYPE, CDATA: nothing S3 sends */
        } else if (starts(xml, "</")) {
            return close_element(xml, text_end);
        } else {
            return open_element(xml);
        }
    }
}

static size_t put_utf8(unsigned long code, char out[4])
{
    if (code < 0x80)
        return out[0] = (char)code, 1;
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 63));
    out[2] = (char)(0x80 | (code >> 6 & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

/* "&amp;", "&#13;" or "&#xD;" at `at`; moves it behind. Returns the bytes put out, 0 when it is no
 * entity. */
static size_t take_entity(const char **at, const char *end, char out[4])
{
    static const struct {
        const char *name;
        char value;
    } named[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    const char *stop = memchr(*at, ';', (size_t)(end - *at));
    char name[12];
    if (!stop || stop - *at > (int)sizeof name)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(stop - *at - 1), *at + 1);
    *at = stop + 1;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0)
            return out[0] = named[i].value, 1;
    bool hexadecimal = name[0] == '#' && name[1] == 'x';
    const char *digits = name + (hexadecimal ? 2 : 1);
    if (name[0] != '#' || !strchr("0123456789abcdefABCDEF", *digits))
        return 0;
    char *rest;
    unsigned long code = strtoul(digits, &rest, hexadecimal ? 16 : 10);
    return *rest || code == 0 || code > 0x10ffff ? 0 : put_utf8(code, out);
}

bool xml_text(const struct xml *xml, char *out, size_t space)
{
    const char *at = xml->text ? xml->text : "", *end = at + (xml->text ? xml->text_bytes : 0);
    size_t used = 0;
    while (at < end) {
        char bytes[4];
        size_t count = 1;
        if (*at == '&')
            count = take_entity(&at, end, bytes);
        else
            bytes[0] = *at++;
        if (count == 0 || bytes[0] == '\0' || used + count >= space)
            return out[0] = '\0', false;
        memcpy(out + used, bytes, count);
        used += count;
    }
    out[used] = '\0';
    return true;
}

bool xml_find(const void *bytes, size_t count, const char *name, char *out, size_t space)
{
    struct xml xml;
    xml_start(&xml, bytes, count);
    out[0] = '\0';
    for (;;) {
        enum xml_event event = xml_next(&xml);
        if (event == XML_CLOSE && strcmp(xml.name, name) == 0)
            return xml_text(&xml, out, space);
        if (event == XML_END || event == XML_BROKEN)
            return false;
    }
}
