/* Rules about kernels: a file that names known kernels only, or an error with a line. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "exec/kernel_rules.h"
#include "exec/known_ops.h"
#include "exec/op.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static int is_known(const char *name)
{
    for (const struct op_kernel *const *kernel = op_conv2d.kernels; *kernel; kernel++)
        if (strcmp((*kernel)->name, name) == 0)
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kernel_rules *rules = NULL;
    struct error err = {0};
    if (kernel_rules_parse("file", (const char *)bytes, count, &rules, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0] && !rules);
        return 0;
    }
    const char *kernel = kernel_rules_find(rules, "conv2d 1x2");
    assert(!kernel || is_known(kernel));
    assert(kernel_rules_threads(rules) >= 0 && kernel_rules_processor(rules));
    kernel_rules_fingerprint(rules);
    kernel_rules_destroy(rules);
    return 0;
}
