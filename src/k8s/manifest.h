/* Objects for the API server, as a tree that is then written: types stay what they are, and texts
 * are quoted where YAML needs it. Where a value comes from parameters the tree remembers it, so
 * that a package can carry kustomize's setters. */
#ifndef K8S_MANIFEST_H
#define K8S_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/parameters.h"

struct deployment;
struct error;
struct json;
struct manifest;
struct node; /* a map or a list; owned by its manifest */
struct strbuf;

struct manifest *manifest_create(const struct deployment *deployment); /* NULL: no memory */
/* For objects inside an Argo workflow: where a parameter's value would stand, there stands Argo's
 * {{workflow.parameters.NAME}}. */
struct manifest *manifest_create_template(const struct deployment *deployment);
void manifest_destroy(struct manifest *manifest); /* accepts NULL */

/* A new object with name (a pattern, see deployment_expand), our labels, and the namespace if one
 * was given and the object has one. Objects keep their order. */
struct node *manifest_object(struct manifest *manifest, const char *api_version, const char *kind,
                             const char *name);
struct node *manifest_cluster_object(struct manifest *manifest, const char *api_version,
                                     const char *kind, const char *name);
/* A document that is no object of the API server's: no metadata is added. */
struct node *manifest_document(struct manifest *manifest, const char *api_version,
                               const char *kind);
/* Something that the objects need is not there: writing them will fail. */
void manifest_fail(struct manifest *manifest);
/* A line in front of the newest object. */
void manifest_comment(struct manifest *manifest, const char *line);

/* Inside a list `key` is NULL. A failed allocation is remembered, and reported when the manifest is
 * written; until then every node may be used. */
struct node *node_map(struct node *parent, const char *key);
struct node *node_list(struct node *parent, const char *key);
struct node *node_child(const struct node *map, const char *key); /* that is there, or NULL */
struct node *node_first(const struct node *list);                 /* its first, or NULL */
void node_text(struct node *parent, const char *key, const char *text);
void node_integer(struct node *parent, const char *key, int64_t value);
void node_bool(struct node *parent, const char *key, bool value);
/* A text with ${PARAMETER} in it. */
void node_pattern(struct node *parent, const char *key, const char *pattern);
/* The parameter as a number. */
void node_number(struct node *parent, const char *key, enum parameter parameter);
/* A number made of parameters; `parameter` when one alone decides it, else PARAMETER_COUNT. In a
 * list of words it is a text. */
void node_word_number(struct node *list, int64_t value, enum parameter parameter);
/* Copies a value that the user gave as JSON. */
void node_json(struct node *parent, const char *key, const struct json *value);
/* The objects of a template, written as YAML, as the text of `key`: what a step of a workflow
 * creates. */
void node_embed(struct node *parent, const char *key, const struct manifest *inner);

int manifest_count(const struct manifest *manifest);
const char *manifest_kind(const struct manifest *manifest, int index);
int manifest_write(const struct manifest *manifest, bool setters, struct strbuf *out,
                   struct error *err);
/* The objects from `first` to before `end`, with or without the setters' comments. */
int manifest_write_some(const struct manifest *manifest, int first, int end, bool setters,
                        struct strbuf *out, struct error *err);

/* What the objects were made from: calls back once for each parameter, and once for each pattern of
 * several or with more around it, in the order of the table and of first use. */
typedef void manifest_setter(void *context, enum parameter parameter);
typedef void manifest_substitution(void *context, const char *name, const char *pattern);
void manifest_origins(const struct manifest *manifest, manifest_setter *setter,
                      manifest_substitution *substitution, void *context);

#endif
