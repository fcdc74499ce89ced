#include "predict/step.h"

#include <math.h>

enum { STATUS_BYTES = 128 }; /* of struct rank_status, which ranks exchange at the end of a step */

/* Where the simulation stands. Work is counted in the seconds it would take alone. */
struct model {
    const struct step_work *work;
    const struct step_setting *setting;
    double now, computed;
    double all;    /* of the computation */
    double beside; /* of the talking, that was done meanwhile */
    struct step_times times;
};

/* Lets the computation go on alone until it has done `until`. */
static void compute_until(struct model *model, double until)
{
    if (until > model->computed) {
        model->now += until - model->computed;
        model->computed = until;
    }
}

/* A reduction of so many seconds, beside the computation as long as there is any, and there at such a
 * part of its speed. */
static void talk(struct model *model, double seconds, double talk_rate)
{
    double compute_rate = 1 - model->setting->sharing.compute_loss;
    double beside = (model->all - model->computed) / compute_rate; /* until computation ends */
    if (seconds / talk_rate <= beside)
        beside = seconds / talk_rate;
    model->computed += beside * compute_rate;
    model->beside += beside * talk_rate;
    model->times.hidden += beside;
    model->times.talk += seconds;
    model->now += beside;
    double rest = seconds - beside * talk_rate;
    model->now += rest > 0 ? rest : 0;
}

static void talk_alone(struct model *model, double seconds)
{
    talk(model, seconds, 1);
}

/* A sum, whose bytes may go more slowly beside the computation than the link lets them. */
static void talk_of_sum(struct model *model, double bytes)
{
    const struct step_setting *setting = model->setting;
    const struct step_sharing *sharing = &setting->sharing;
    double seconds = network_sum(setting->network, setting->group, bytes, setting->half);
    double rate = 1 - sharing->talk_loss;
    if (seconds > 0 && sharing->talk_limit > 0 &&
        sharing->talk_limit < setting->network->rank_bandwidth) {
        struct network slower = *setting->network;
        slower.rank_bandwidth = sharing->talk_limit;
        rate *= seconds / network_sum(&slower, setting->group, bytes, setting->half);
    }
    talk(model, seconds, rate);
}

/* As exec/plan.c cuts buckets: closed by the gradient that fills one, final with its latest. */
static void talk_of_gradients(struct model *model)
{
    const struct step_work *work = model->work;
    const struct step_setting *setting = model->setting;
    double open = 0, ready = 0;
    for (int i = 0; i < work->count; i++) {
        double seconds = work->gradients[i].seconds * setting->slowest;
        ready = seconds > ready ? seconds : ready;
        open += work->gradients[i].bytes;
        bool full = setting->bucket_bytes > 0 && open >= setting->bucket_bytes;
        if (!full && i + 1 < work->count)
            continue;
        compute_until(model, ready < model->all ? ready : model->all);
        talk_of_sum(model, open);
        model->times.buckets++;
        open = 0;
    }
}

static void talk_at_the_end(struct model *model)
{
    const struct step_work *work = model->work;
    const struct step_setting *setting = model->setting;
    compute_until(model, model->all);
    talk_alone(model, network_sum(setting->network, setting->group, work->statistic_bytes, false));
    if (work->row_bytes > 0) {
        /* All ranks' rows are added up by every rank. */
        talk_alone(model, network_gather(setting->network, setting->group, work->row_bytes));
        if (setting->group->ranks > 1)
            talk_alone(model,
                       work->row_bytes * setting->group->ranks / setting->network->add_bandwidth);
    }
    talk_alone(model, network_gather(setting->network, setting->group, STATUS_BYTES));
}

void step_simulate(const struct step_work *work, const struct step_setting *setting,
                   struct step_times *out)
{
    struct model model = {
        .work = work, .setting = setting, .all = work->compute * setting->slowest};
    if (setting->group->ranks > 1) {
        talk_of_gradients(&model);
        talk_at_the_end(&model);
    }
    compute_until(&model, model.all);
    model.times.step = model.now + work->update;
    model.times.exposed = model.times.talk - model.beside;
    if (model.times.exposed < 0)
        model.times.exposed = 0;
    *out = model.times;
}
