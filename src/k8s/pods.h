/* Parts of pods that many kinds share. Every pod made here passes Pod Security's level `restricted`
 * (unless the user asked for root), may not write but to its volumes, says what it needs, and is
 * given time to save. */
#ifndef K8S_PODS_H
#define K8S_PODS_H

#include "k8s/manifest.h"

struct pod_settings {
    const char *container; /* its name */
    const char *image;     /* pattern */
    const char *role;      /* the label app.kubernetes.io/component */
    const char *restart;   /* Never, OnFailure; NULL: the owner's own rule */
    enum parameter cpu, memory;
    bool foreign;        /* not our program: its root stays writable */
    bool gpus;           /* it gets as many as GPU says */
    const char *account; /* pattern of a service account's name; NULL: the namespace's default */
    bool token;          /* with its token: it talks to the API server */
};

/* A pod that is being made; fill its lists. */
struct pod {
    struct node *metadata, *spec, *container;
    struct node *command, *env, *env_from, *ports, *mounts, *volumes;
};

/* Adds metadata (labels) and spec to `owner`, which is a Pod or a template. */
struct pod pod_begin(struct node *owner, const struct deployment *deployment,
                     const struct pod_settings *settings);
/* The same without metadata, for what puts it elsewhere; `spec` is a map that is there. */
void pod_fill_spec(struct pod *pod, const struct deployment *deployment,
                   const struct pod_settings *settings);
/* Restricted, and read-only unless foreign. */
void pod_container_security(struct node *container, bool foreign);
void pod_security(struct node *spec, const struct deployment *deployment);
void pod_resources(struct node *container, const char *cpu, const char *memory);

void pod_env(struct pod *pod, const char *name, const char *pattern);
void pod_env_from(struct pod *pod, const char *type, const char *name);
void pod_port(struct pod *pod, const char *name, enum parameter port);
/* Names and paths are patterns. */
void pod_mount_claim(struct pod *pod, const char *volume, const char *claim, const char *path,
                     bool read_only);
/* A volume that is there already, in a second place. */
void pod_mount_again(struct pod *pod, const char *volume, const char *path, bool read_only);
void pod_mount_secret(struct pod *pod, const char *volume, const char *secret, const char *path);
void pod_mount_memory(struct pod *pod, const char *volume, const char *path);

/* Labels that choose pods of this deployment; `role` NULL: all of them. */
void pod_selector(struct node *map, const char *role);
/* The queue of whoever admits the job, on the object that is admitted. */
void pod_queue(struct node *object, const struct deployment *deployment);
/* The comment about the identity, where nobody gave one. */
void pod_identity_comment(struct manifest *manifest, const struct deployment *deployment);

#endif
