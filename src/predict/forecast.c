#include "predict/forecast.h"

#include "tensor/random.h"

double forecast_slowest(int ranks, double spread, uint64_t seed)
{
    enum { ROUNDS = 64 };
    double sum = 0;
    if (!(spread > 0) || ranks == 1)
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct random random = {.key = random_key(seed, (uint64_t)round)};
        float most = random_normal(&random);
        for (int r = 1; r < ranks; r++) {
            float draw = random_normal(&random);
            most = draw > most ? draw : most;
        }
        sum += most;
    }
    double slowest = 1 + spread * sum / ROUNDS;
    return slowest > 1 ? slowest : 1;
}

void forecast(const struct forecast_question *question, int ranks, struct forecast *out)
{
    struct group group = group_of(ranks, question->per_host);
    struct step_setting setting = {.network = &question->network,
                                   .group = &group,
                                   .sharing = question->sharing,
                                   .half = question->half,
                                   .slowest =
                                       forecast_slowest(ranks, question->spread, question->seed)};
    *out = (struct forecast){.ranks = ranks, .hosts = group.hosts};
    for (int i = 0; i < question->bucket_count; i++) {
        struct step_times times;
        setting.bucket_bytes = (double)question->bucket_sizes[i];
        step_simulate(question->work, &setting, &times);
        if (i > 0 && times.step >= out->times.step)
            continue;
        out->times = times;
        out->bucket_bytes = question->bucket_sizes[i];
    }
    double alone = question->work->compute + question->work->update;
    out->efficiency = alone / out->times.step;
    out->examples_per_second = (double)question->batch * ranks / out->times.step;
}
