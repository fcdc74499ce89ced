/* Measured runs: whatever the bytes, numbers from which a prediction can be made, or an error. */
#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "predict/forecast.h"
#include "predict/measurement.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void predict(const struct measurement *run)
{
    static const size_t sizes[] = {1, 4 << 20};
    struct forecast_question question = {.work = &run->work,
                                         .batch = run->batch,
                                         .network = {.bandwidth = 1e9,
                                                     .payload = 0.95,
                                                     .latency = 1e-5,
                                                     .rank_bandwidth = 1e9,
                                                     .host_bandwidth = 1e9,
                                                     .add_bandwidth = 1e9,
                                                     .pack_bandwidth = 1e9},
                                         .sharing = {0.1, 0.1},
                                         .per_host = 3,
                                         .bucket_sizes = sizes,
                                         .bucket_count = 2};
    struct forecast out;
    forecast(&question, 7, &out);
    assert(isfinite(out.times.step) && out.times.step >= run->work.compute);
    assert(out.efficiency > 0 && out.efficiency <= 1 + 1e-9);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct measurement run;
    struct error err = {0};
    if (measurement_parse("input", (const char *)bytes, count, arena, &run, &err) == 0)
        predict(&run);
    else
        assert(err.code == ERROR_FORMAT && err.message[0]);
    arena_destroy(arena);
    return 0;
}
