#include "k8s/needs.h"

#include "k8s/checks.h"
#include "k8s/deployment.h"

static bool takes(const struct deployment *deployment, enum parameter parameter)
{
    return kind_spelling(deployment->kind, parameter) != NULL;
}

static void add(struct needs *needs, const struct deployment *deployment, enum parameter cpu,
                enum parameter memory, int count)
{
    needs->cpu += count * check_quantity(deployment_text(deployment, cpu));
    needs->memory_bytes += count * check_quantity(deployment_text(deployment, memory));
    needs->pods += count;
}

/* A workflow trains first and serves then: the larger of both. */
struct needs needs_of(const struct deployment *deployment)
{
    struct needs needs = {0};
    int count = 1;
    if (takes(deployment, P_WORKERS))
        count = (int)deployment_integer(deployment, P_WORKERS);
    else if (takes(deployment, P_REPLICAS))
        count = (int)deployment_integer(deployment, P_REPLICAS);
    if (takes(deployment, P_CPU))
        add(&needs, deployment, P_CPU, P_MEMORY, count);
    if (takes(deployment, P_LAUNCHER_CPU) && !takes(deployment, P_SCRIPT))
        add(&needs, deployment, P_LAUNCHER_CPU, P_LAUNCHER_MEMORY, 1);
    return needs;
}
