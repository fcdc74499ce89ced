/* tensorflow.serving.ModelSpec: which model, version and signature a request is for; and the pieces
 * that the readers of all requests share. */
#ifndef SERVE_MODEL_SPEC_H
#define SERVE_MODEL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"
#include "wire/proto.h"

struct arena;
struct error;
struct strbuf;

struct model_spec {
    bool present;          /* the message was there, be it empty */
    const char *name;      /* never NULL behind model_spec_read */
    const char *label;     /* NULL: none */
    const char *signature; /* never NULL; "" is the default one */
    bool has_version;
    int64_t version;
};

/* The spec that a field of `outer` holds; a second one is merged into the first, as protobuf has
 * it. Texts are in the arena. */
int model_spec_read(const struct proto_reader *outer, const struct proto_field *field,
                    struct arena *arena, struct model_spec *spec, struct error *err);
/* As field `number` of a reply. `signature` NULL: left out. */
void model_spec_write(uint32_t number, const char *name, const char *signature, int64_t version,
                      struct strbuf *out);

/* The text of a field, in the arena. Fails when there is a NUL in it, which no name has. */
int field_text(const struct proto_reader *reader, const struct proto_field *field,
               struct arena *arena, const char **out, struct error *err);

/* An entry of a map from texts to messages. */
struct message_entry {
    struct text_view key;
    struct proto_reader value;
};
int message_entry_read(const struct proto_reader *outer, const struct proto_field *field,
                       struct message_entry *out, struct error *err);

/* How many fields of this number a message has; -1 when it is malformed or has more than `most`. */
int message_count(struct proto_reader reader, uint32_t number, int most, struct error *err);

bool text_view_is(const struct text_view *view, const char *text);

#endif
