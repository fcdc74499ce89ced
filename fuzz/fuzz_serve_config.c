/* Configuration files of the server: whatever they hold, they are read or refused. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "serve/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const char *text = (const char *)bytes;
    struct arena *arena = arena_create();
    struct error err = {0};
    struct model_list models;
    struct batching_config batching;
    struct ssl_config ssl;
    struct monitoring_config monitoring;
    if (config_read_models("f", text, count, arena, &models, &err) == 0) {
        assert(config_check_models(&models, &err) == 0);
        for (int i = 0; i < models.count; i++)
            assert(*models.models[i].name && *models.models[i].base_path &&
                   models.models[i].latest >= 1);
    } else {
        assert(err.message[0]);
    }
    if (config_read_batching("f", text, count, &batching, &err) == 0)
        assert(batching.max_batch_size >= 0 && batching.batch_timeout_micros >= 0);
    if (config_read_ssl("f", text, count, arena, &ssl, &err) == 0)
        assert(strlen(ssl.server_key) <= count && strlen(ssl.server_cert) <= count);
    if (config_read_monitoring("f", text, count, arena, &monitoring, &err) == 0)
        assert(!monitoring.path || monitoring.path[0] == '/');
    arena_destroy(arena);
    return 0;
}
