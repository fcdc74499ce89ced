/* What `k8s doctor` finds out about a cluster. */
#ifndef CLI_K8S_DOCTOR_H
#define CLI_K8S_DOCTOR_H

#include "cli/k8s_parts.h"

enum { DOCTOR_FINDINGS_MAX = 48 };

enum doctor_verdict { DOCTOR_FINE, DOCTOR_NOTE, DOCTOR_PROBLEM };

struct doctor_finding {
    enum doctor_verdict verdict;
    const char *what, *remedy; /* in the arena; a remedy only where something is to be done */
};

struct doctor {
    const struct k8s_target *target;
    const struct deployment *deployment; /* NULL: the cluster in general */
    const struct manifest *manifest;
    struct arena *arena;
    struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
    int count;
    bool denied; /* the last question: by the user's rights, so the answer is unknown */
    struct error *err;
};

/* Asks the cluster everything that the deployment needs. Fails when kubectl cannot be started; an API
 * server that does not answer is a finding. */
int doctor_examine(struct doctor *doctor);

#endif
