/* TF_CONFIG and --peers. */
#include "base/error.h"
#include "base/memory.h"
#include "launch/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = memory_allocate(bytes + 1);
    struct cluster cluster = {0};
    struct error err;
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    if (cluster_from_tf_config(text, &cluster, &err) == 0 && cluster.index >= cluster.count &&
        cluster.count)
        abort();
    for (int i = 0; i < cluster.count; i++)
        cluster_name(&cluster, i);
    cluster_release(&cluster);
    if (cluster_from_peers(text, 0, &cluster, &err) == 0 && !cluster.count)
        abort();
    cluster_release(&cluster);
    memory_free(text);
    return 0;
}
