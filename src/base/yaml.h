/* YAML: a writer that quotes, and a reader with limits (libyaml behind both). */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json;
struct strbuf;
struct yaml_writer;

/* Writes documents in block style to the end of `out`, which must outlive the writer. A text is
 * written plain only where no reader, of YAML 1.1 or 1.2, could take it for anything else; a text
 * of several lines as a block. Failures are remembered: yaml_writer_close reports the first. */
int yaml_writer_open(struct strbuf *out, struct yaml_writer **writer, struct error *err);
int yaml_writer_close(struct yaml_writer *writer, struct error *err); /* accepts NULL; frees it */

/* A document is one map. `comment` (or NULL) has lines that stand in front of it, without #. */
void yaml_document_open(struct yaml_writer *writer, const char *comment);
void yaml_document_close(struct yaml_writer *writer);

/* `key` is NULL inside a list. */
void yaml_open_map(struct yaml_writer *writer, const char *key);
void yaml_close_map(struct yaml_writer *writer);
void yaml_open_list(struct yaml_writer *writer, const char *key);
void yaml_close_list(struct yaml_writer *writer);
/* `comment` (or NULL) is one line and stands behind the value. */
void yaml_text(struct yaml_writer *writer, const char *key, const char *value, const char *comment);
void yaml_integer(struct yaml_writer *writer, const char *key, int64_t value, const char *comment);
void yaml_bool(struct yaml_writer *writer, const char *key, bool value, const char *comment);

/* How plain values are read: as texts, or as YAML 1.1 has them (on is true, 1e3 a number), which is
 * what Kubernetes' reader does. Quoted values are always texts. */
enum yaml_reading { YAML_TEXTS, YAML_TYPES };
enum { YAML_MAX_DEPTH = 64 };

/* All documents, as one array. Keys that occur twice, aliases, and nesting beyond YAML_MAX_DEPTH
 * are refused, with the line. */
int yaml_read(const char *text, size_t bytes, enum yaml_reading reading, struct json **out,
              struct error *err);

#endif
