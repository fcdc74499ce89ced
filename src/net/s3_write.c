/* Uploads: one PUT, or parts that become an object together. */
#include <inttypes.h>

#include "base/error.h"
#include "net/s3_request.h"
#include "net/xml.h"

enum { MAX_PARTS = 10000, MAX_UPLOAD_ID = 1024 };

struct upload {
    struct s3 *s3;
    const char *key;
    const char *data;
    size_t bytes, part_bytes;
    char id[MAX_UPLOAD_ID]; /* encoded for a query */
    struct strbuf parts;    /* the XML that completes it */
    struct http_reply reply;
};

static int start_upload(struct upload *upload, struct error *err)
{
    struct s3_request request = {.method = "POST", .key = upload->key, .query = "uploads="};
    struct strbuf encoded;
    char id[MAX_UPLOAD_ID];
    if (s3_perform(upload->s3, &request, &upload->reply, err) < 0)
        return -1;
    if (!xml_find(upload->reply.body.text, upload->reply.body.length, "UploadId", id, sizeof id))
        return error_set(err, ERROR_FORMAT, "s3://%s/%s: the server began no upload",
                         upload->s3->bucket, upload->key);
    strbuf_init(&encoded);
    http_encode(&encoded, id, false);
    int length = snprintf(upload->id, sizeof upload->id, "%s", encoded.text);
    strbuf_release(&encoded);
    if (length >= MAX_UPLOAD_ID) {
        upload->id[0] = '\0';
        return error_set(err, ERROR_FORMAT, "s3://%s/%s: the server's upload id is too long",
                         upload->s3->bucket, upload->key);
    }
    return 0;
}

static void add_xml_text(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '&' || *text == '<' || *text == '>')
            strbuf_addf(out, "&#%d;", *text);
        else
            strbuf_add_char(out, *text);
    }
}

static int send_part(struct upload *upload, int number, struct error *err)
{
    char query[MAX_UPLOAD_ID + 64];
    size_t offset = (size_t)(number - 1) * upload->part_bytes, left = upload->bytes - offset;
    snprintf(query, sizeof query, "partNumber=%d&uploadId=%s", number, upload->id);
    struct s3_request request = {.method = "PUT",
                                 .key = upload->key,
                                 .query = query,
                                 .body = upload->data + offset,
                                 .body_bytes =
                                     left < upload->part_bytes ? left : upload->part_bytes};
    if (s3_perform(upload->s3, &request, &upload->reply, err) < 0)
        return -1;
    strbuf_addf(&upload->parts, "<Part><PartNumber>%d</PartNumber><ETag>", number);
    add_xml_text(&upload->parts, upload->reply.etag);
    strbuf_add(&upload->parts, "</ETag></Part>");
    return 0;
}

/* The reply to a completion may start with 200 and end with an error. */
static int finish_upload(struct upload *upload, struct error *err)
{
    char query[MAX_UPLOAD_ID + 16], code[64];
    snprintf(query, sizeof query, "uploadId=%s", upload->id);
    strbuf_add(&upload->parts, "</CompleteMultipartUpload>");
    struct s3_request request = {.method = "POST",
                                 .key = upload->key,
                                 .query = query,
                                 .headers = {"Content-Type: application/xml"},
                                 .body = upload->parts.text,
                                 .body_bytes = upload->parts.length};
    if (upload->parts.failed)
        return error_set(err, ERROR_MEMORY, "no memory for an upload");
    if (s3_perform(upload->s3, &request, &upload->reply, err) < 0)
        return -1;
    const struct strbuf *body = &upload->reply.body;
    if (xml_find(body->text, body->length, "ETag", code, sizeof code))
        return 0;
    xml_find(body->text, body->length, "Code", code, sizeof code);
    return error_set(err, ERROR_IO, "s3://%s/%s: the server did not put the parts together: %s",
                     upload->s3->bucket, upload->key, code[0] ? code : "no reason given");
}

/* What was sent would be kept, and paid for, until somebody deletes it. */
static void abandon_upload(struct upload *upload)
{
    char query[MAX_UPLOAD_ID + 16];
    snprintf(query, sizeof query, "uploadId=%s", upload->id);
    struct s3_request request = {.method = "DELETE",
                                 .key = upload->key,
                                 .query = query,
                                 .missing_fine = true,
                                 .cleans_up = true};
    s3_perform(upload->s3, &request, &upload->reply, NULL);
}

static int write_parts(struct upload *upload, struct error *err)
{
    if (start_upload(upload, err) < 0)
        return -1;
    strbuf_add(&upload->parts, "<CompleteMultipartUpload>");
    int count = (int)((upload->bytes + upload->part_bytes - 1) / upload->part_bytes), status = 0;
    for (int i = 1; status == 0 && i <= count; i++)
        status = send_part(upload, i, err);
    if (status == 0)
        status = finish_upload(upload, err);
    if (status < 0)
        abandon_upload(upload);
    return status;
}

int s3_write(struct s3 *s3, const char *key, const void *data, size_t bytes, struct error *err)
{
    struct upload upload = {
        .s3 = s3, .key = key, .data = data, .bytes = bytes, .part_bytes = s3->settings.part_bytes};
    while (bytes / upload.part_bytes >= MAX_PARTS)
        upload.part_bytes *= 2;
    strbuf_init(&upload.parts);
    http_reply_init(&upload.reply);
    int status;
    if (bytes > upload.part_bytes) {
        status = write_parts(&upload, err);
    } else {
        struct s3_request request = {
            .method = "PUT", .key = key, .body = bytes ? data : NULL, .body_bytes = bytes};
        status = s3_perform(s3, &request, &upload.reply, err);
    }
    http_reply_release(&upload.reply);
    strbuf_release(&upload.parts);
    return status;
}
