#include "launch/agent.h"

#include <inttypes.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/agent_internal.h"
#include "launch/child.h"
#include "launch/loop.h"
#include "launch/secret.h"

static const double report_seconds = 0.5;

/* --- to the leader ----------------------------------------------------------------------------------------- */

static struct strbuf *begin(struct agent *agent, enum message_kind kind)
{
    strbuf_clear(&agent->out);
    message_begin(&agent->out, kind);
    return &agent->out;
}

static void send_up(struct agent *agent)
{
    message_end(&agent->out, 0);
    if (agent->out.failed)
        return;
    if (agent->upstream)
        agent->upstream(agent->upstream_context, agent->out.text, agent->out.length);
    else if (agent->leader)
        link_send_bytes(agent->leader->link, agent->out.text, agent->out.length);
}

static void report(struct agent *agent)
{
    struct vault_rank rank = vault_look(agent->vault);
    struct strbuf *out = begin(agent, MESSAGE_REPORT);
    message_number(out, agent->generation);
    message_number(out, rank.pid);
    message_number(out, rank.step);
    message_number(out, (int64_t)(rank.silence * 1000));
    message_text(out, rank.doing);
    message_number(out, (int64_t)vault_bytes(agent->vault));
    send_up(agent);
    agent->reported = clock_seconds();
}

static void on_rank_gone(void *context, const struct vault_end *end)
{
    struct agent *agent = context;
    if (agent->ending) /* as was wanted */
        return;
    struct strbuf *out = begin(agent, end->finished ? MESSAGE_RANK_DONE : MESSAGE_RANK_LOST);
    message_number(out, agent->generation);
    message_number(out, end->finished ? (int64_t)end->outcome : end->step);
    if (end->finished)
        message_number(out, end->status);
    message_text(out, end->finished ? end->reason : "its process ended without a last word");
    send_up(agent);
}

/* --- ending ------------------------------------------------------------------------------------------------- */

bool agent_is_idle(const struct agent *agent)
{
    return !agent->runs && (!agent->vault || !vault_look(agent->vault).pid);
}

/* `why`: the leader is lost; NULL: it is the one who wants it. */
void agent_end_all(struct agent *agent, const char *why)
{
    if (why && agent->settings.cluster)
        log_line(LOG_WARNING, "%s is lost: %s; %s until it is back",
                 cluster_name(agent->settings.cluster, 0), why,
                 agent->generation ? "this member's rank is ended and its state kept" : "waiting");
    agent->ticket[0] = '\0';
    agent->preparing = false;
    if (agent->vault)
        vault_admit(agent->vault, 0);
    agent->ending = !agent_is_idle(agent);
    if (agent->ending)
        agent_kill_runs(agent);
}

/* --- what the leader orders ----------------------------------------------------------------------------------- */

static void become_ready(struct agent *agent)
{
    agent->preparing = false;
    agent->ending = false;
    vault_admit(agent->vault, agent->generation);
    if (!agent->upstream)
        log_line(LOG_INFO, "generation %" PRId64 ": this member's rank starts", agent->generation);
    message_number(begin(agent, MESSAGE_READY), agent->generation);
    send_up(agent);
}

static void prepare(struct agent *agent, struct message *order)
{
    int64_t generation;
    char ticket[HELLO_NAME_BYTES];
    if (!message_next_number(order, &generation) ||
        !message_next_text(order, ticket, sizeof ticket) || generation <= agent->generation) {
        log_line(LOG_WARNING, "an order for a generation that is over was not heeded");
        return;
    }
    agent_end_all(agent, NULL);
    agent->generation = generation;
    snprintf(agent->ticket, sizeof agent->ticket, "%s", ticket);
    agent->preparing = true;
    if (agent_is_idle(agent))
        become_ready(agent);
}

static void take_over_notice(struct agent *agent, struct message *order)
{
    int64_t status;
    if (!message_next_number(order, &status) ||
        !message_next_text(order, agent->over_reason, sizeof agent->over_reason))
        return;
    agent->over = true;
    agent->over_status = (int)status;
}

static void take_group(struct agent *agent, struct message *order)
{
    const void *json;
    size_t count;
    if (!message_next_bytes(order, &json, &count))
        return;
    char *copy = memory_allocate(count + 1);
    if (!copy)
        return;
    memcpy(copy, json, count);
    memory_free(agent->group);
    agent->group = copy;
}

void agent_order(struct agent *agent, struct message *order)
{
    int64_t generation = 0;
    switch (order->kind) {
    case MESSAGE_PREPARE:
        prepare(agent, order);
        break;
    case MESSAGE_ABANDON:
        agent_end_all(agent, NULL);
        break;
    case MESSAGE_PAUSE:
        if (message_next_number(order, &generation) && generation == agent->generation)
            vault_wish(agent->vault, KEEPER_PAUSE);
        break;
    case MESSAGE_GROUP:
        take_group(agent, order);
        break;
    case MESSAGE_OVER:
        take_over_notice(agent, order);
        break;
    default:
        log_line(LOG_DEBUG, "an order of kind %d is not understood", (int)order->kind);
    }
}

void agent_heard_leader(void *context, struct link *link, struct message *message)
{
    (void)link;
    agent_order(context, message);
}

/* Once to each rank: the second would kill it. */
static void pass_signal(struct agent *agent)
{
    struct vault_rank rank = vault_look(agent->vault);
    if (!agent->signal || !rank.pid || rank.pid == agent->signalled)
        return;
    agent->signalled = rank.pid;
    kill(rank.pid, agent->signal);
}

void agent_pass_signal(struct agent *agent, int number)
{
    agent->signal = number;
    message_number(begin(agent, MESSAGE_LEAVING), 128 + number);
    send_up(agent);
    pass_signal(agent);
}

/* --- making, ticking, ending ------------------------------------------------------------------------------------ */

int agent_create(struct loop *loop, const struct agent_settings *settings, struct agent **out,
                 struct error *err)
{
    struct agent *agent = memory_allocate(sizeof *agent);
    if (!agent)
        return error_set(err, ERROR_MEMORY, "no memory for the agent");
    *agent = (struct agent){
        .loop = loop, .settings = *settings, .listener = -1, .unled_since = clock_seconds()};
    strbuf_init(&agent->out);
    struct vault_owner owner = {.gone = on_rank_gone, .context = agent};
    if (secret_name(agent->incarnation, err) < 0 || agent_open_door(agent, err) < 0 ||
        vault_create(loop, &owner, settings->words, settings->words_bytes, &agent->vault, err) <
            0) {
        agent_destroy(agent);
        return -1;
    }
    child_adopt();
    *out = agent;
    return 0;
}

void agent_destroy(struct agent *agent)
{
    enum { TURNS = 100 };
    if (!agent)
        return;
    agent->ending = true;
    for (int i = 0; i < TURNS && agent->vault && !agent_is_idle(agent); i++) {
        agent_kill_runs(agent);
        loop_turn(agent->loop, 0.02);
        agent_reap(agent);
    }
    agent_close_door(agent);
    vault_destroy(agent->vault);
    strbuf_release(&agent->out);
    memory_free(agent->group);
    memory_free(agent);
}

int agent_port(const struct agent *agent)
{
    return agent->port;
}

void agent_tick(struct agent *agent)
{
    agent_reap(agent);
    agent_check_visitors(agent);
    if (agent->ending && agent_is_idle(agent))
        agent->ending = false;
    else if (agent->ending)
        agent_kill_runs(agent);
    if (agent->preparing && agent_is_idle(agent))
        become_ready(agent);
    pass_signal(agent);
    if (agent->settings.cluster && clock_seconds() - agent->reported > report_seconds)
        report(agent);
}

void agent_set_upstream(struct agent *agent, agent_upstream *upstream, agent_stranger *stranger,
                        void *context)
{
    agent->upstream = upstream;
    agent->stranger = stranger;
    agent->upstream_context = context;
}

void agent_know(struct agent *agent, pid_t pid)
{
    agent->known = pid;
}

bool agent_is_led(const struct agent *agent)
{
    return agent->leader != NULL;
}

double agent_unled_seconds(const struct agent *agent)
{
    return agent->leader ? 0 : clock_seconds() - agent->unled_since;
}

bool agent_is_over(const struct agent *agent, int *status, const char **reason)
{
    *status = agent->over_status;
    *reason = agent->over_reason;
    return agent->over;
}
