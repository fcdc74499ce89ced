/* Is a value what its parameter's type wants? */
#ifndef K8S_CHECKS_H
#define K8S_CHECKS_H

#include <stdbool.h>

#include "k8s/parameters.h"

struct arena;
struct error;

/* Fails with ERROR_USAGE: "SPELLING=VALUE: why, and what is expected". Empty values pass where the
 * default is empty. */
int check_value(enum parameter parameter, const char *spelling, const char *value,
                struct arena *memory, struct error *err);

/* The parts, for those that check more. */
bool check_is_label(const char *text);     /* a DNS label, 63 letters at most */
bool check_is_subdomain(const char *text); /* labels separated by dots */
bool check_is_quantity(const char *text);
/* A quantity as a number: 500m is 0.5, 1Ki is 1024. It must be one. */
double check_quantity(const char *text);

#endif
