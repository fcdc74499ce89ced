#include "cli/k8s_parts.h"

static const struct option options[] = {OPTION_END};

static const struct command *const parts[] = {
    &command_k8s_list,   &command_k8s_params, &command_k8s_init,    &command_k8s_render,
    &command_k8s_apply,  &command_k8s_status, &command_k8s_logs,    &command_k8s_wait,
    &command_k8s_delete, &command_k8s_doctor, &command_k8s_package, NULL,
};

const struct command command_k8s = {
    .name = "k8s",
    .order = 108,
    .summary = "render, apply, follow and delete deployments on Kubernetes",
    .description =
        "Kinds of deployments (`lockstep k8s list`) take parameters (`lockstep k8s params KIND`), "
        "from flags, a file or the environment. What is rendered passes Pod Security's level "
        "restricted. Values that are wrong, or contradict each other, are refused before anything "
        "is printed or sent.\n\n"
        "Installed as kubectl-lockstep, too: `kubectl lockstep render ...`.",
    .examples = "# what would be sent?\n"
                "lockstep k8s render single-node -p PVC_NAME=workdisk\n"
                "# send it, follow it, remove it\n"
                "lockstep k8s apply multi-node -n team -p WORKERS=4\n"
                "lockstep k8s logs multi-node -n team -f\n"
                "lockstep k8s delete multi-node -n team\n"
                "# is the cluster ready for it?\n"
                "lockstep k8s doctor multi-node -n team\n",
    .options = options,
    .parts = parts,
};
