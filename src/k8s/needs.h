/* What a deployment asks of a cluster at once, for comparing with a quota. */
#ifndef K8S_NEEDS_H
#define K8S_NEEDS_H

struct deployment;

struct needs {
    double cpu, memory_bytes;
    int pods;
};

struct needs needs_of(const struct deployment *deployment);

#endif
