/* A parameter file: whatever the bytes, a deployment whose values are texts, or an error; one that
 * passes all checks is rendered, and what is rendered can be read again. */
#include <assert.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/deployment.h"
#include "k8s/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void render(const struct deployment *deployment)
{
    struct manifest *manifest = manifest_create(deployment);
    struct strbuf text;
    struct json *documents;
    struct error err = {0};
    strbuf_init(&text);
    deployment->kind->render(deployment, manifest);
    assert(manifest_write(manifest, true, &text, &err) == 0);
    assert(yaml_read(text.text, text.length, YAML_TYPES, &documents, &err) == 0);
    assert(json_count(documents) == manifest_count(manifest));
    json_release(documents);
    strbuf_release(&text);
    manifest_destroy(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *memory = arena_create();
    struct deployment deployment;
    struct error err = {0};
    if (deployment_read(&deployment, (const char *)bytes, count, memory, &err) < 0)
        assert(err.message[0]);
    else if (deployment_finish(&deployment, memory, &err) == 0 &&
             deployment_integer(&deployment, P_WORKERS) <= 100)
        render(&deployment);
    arena_destroy(memory);
    return 0;
}
