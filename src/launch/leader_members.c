#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/dial.h"
#include "launch/leader_internal.h"

static const double dial_pause = 0.25, refused_pause = 1;
/* The first try is short, so that a machine that comes back is found soon; the next ones last longer,
 * for a network may be slow. */
static const double dial_least_seconds = 3;

const char *leader_name(const struct leader *leader, const struct member *member)
{
    return cluster_name(leader->settings.cluster, member->index);
}

int leader_present(const struct leader *leader)
{
    int count = 0;
    for (int i = 0; i < leader->count; i++)
        count += leader->members[i].present;
    return count;
}

/* --- saying ------------------------------------------------------------------------------------------------- */

struct strbuf *leader_begin(struct leader *leader, enum message_kind kind)
{
    strbuf_clear(&leader->out);
    message_begin(&leader->out, kind);
    return &leader->out;
}

void leader_send(struct leader *leader, struct member *member)
{
    struct message message;
    size_t used;
    message_end(&leader->out, 0);
    if (leader->out.failed)
        return;
    if (member->index > 0)
        link_send_bytes(member->link, leader->out.text, leader->out.length);
    else if (message_take(leader->out.text, leader->out.length, &message, &used, NULL) == 1)
        agent_order(leader->agent, &message);
}

void leader_send_all(struct leader *leader)
{
    for (int i = leader->count - 1; i >= 0; i--) /* the own agent may answer at once: last */
        if (leader->members[i].present)
            leader_send(leader, &leader->members[i]);
}

/* --- losing ------------------------------------------------------------------------------------------------- */

static void drop_line(struct member *member)
{
    dial_cancel(member->dial);
    link_destroy(member->link);
    member->dial = NULL;
    member->link = NULL;
    member->present = member->leaving = false;
}

static void lose(struct member *member, const char *why)
{
    struct leader *leader = member->leader;
    bool was_there = member->present, was_reached = member->link;
    drop_line(member);
    member->next_dial = clock_seconds() + (was_reached && !was_there ? refused_pause : dial_pause);
    snprintf(member->absence, sizeof member->absence, "%s", why);
    if (was_there)
        leader_lost_member(leader, member, why);
}

void leader_check_members(struct leader *leader)
{
    for (int i = 1; i < leader->count; i++) {
        struct member *member = &leader->members[i];
        char why[64];
        if (!member->link || link_silence(member->link) <= leader->settings.peer_timeout)
            continue;
        snprintf(why, sizeof why, "it said nothing for %g s", leader->settings.peer_timeout);
        lose(member, why);
    }
}

void leader_dismiss_leaving(struct leader *leader)
{
    for (int i = 1; i < leader->count; i++)
        if (leader->members[i].leaving && leader->members[i].present)
            lose(&leader->members[i], "it was asked to stop");
}

/* --- calling ------------------------------------------------------------------------------------------------ */

static void on_opened(void *context, struct link *link)
{
    struct member *member = context;
    const struct leader *leader = member->leader;
    struct hello hello = {
        .role = HELLO_LEADS, .index = member->index, .generation = leader->formed};
    snprintf(hello.group, sizeof hello.group, "%s", leader->settings.cluster->fingerprint);
    snprintf(hello.incarnation, sizeof hello.incarnation, "%s", leader->incarnation);
    link_send_hello(link, &hello);
}

static void hear_refusal(struct member *member, struct message *message)
{
    struct leader *leader = member->leader;
    char why[sizeof member->absence] = "refused";
    int64_t kind = REFUSED_FOR_NOW;
    message_next_text(message, why, sizeof why);
    message_next_number(message, &kind);
    if (strcmp(member->absence, why) != 0)
        log_line(LOG_WARNING, "%s refuses: %s", leader_name(leader, member), why);
    drop_line(member);
    member->next_dial = clock_seconds() + refused_pause;
    snprintf(member->absence, sizeof member->absence, "%s", why);
    if (kind == REFUSED_FOR_GOOD)
        leader_fail(leader, 1, "%s refuses: %s", leader_name(leader, member), why);
    if (kind == REFUSED_FOR_ANOTHER && leader->held_since == 0)
        leader->held_since = clock_seconds();
}

static void hear_welcome(struct member *member, struct message *message)
{
    struct leader *leader = member->leader;
    int64_t generation = 0;
    char incarnation[HELLO_NAME_BYTES];
    if (!message_next_number(message, &generation) ||
        !message_next_text(message, incarnation, sizeof incarnation) ||
        !message_next_text(message, member->host, sizeof member->host))
        return;
    member->present = true;
    member->absence[0] = '\0';
    leader->held_since = 0;
    if (generation > leader->generation) /* what an earlier process of this member led */
        leader->generation = generation;
    log_line(LOG_INFO, "%s is here (%d of %d)", leader_name(leader, member), leader_present(leader),
             leader->count);
    if (leader->phase == LEADER_IS_OVER)
        leader_tell_over(leader, member);
}

static void on_heard(void *context, struct link *link, struct message *message)
{
    struct member *member = context;
    (void)link;
    if (message->kind == MESSAGE_WELCOME)
        hear_welcome(member, message);
    else if (message->kind == MESSAGE_REFUSED)
        hear_refusal(member, message);
    else if (member->present)
        leader_heard(member->leader, member, message);
}

static void on_ended(void *context, struct link *link, const struct error *why)
{
    struct member *member = context;
    (void)link;
    member->heard_over = member->present && member->leader->phase == LEADER_IS_OVER;
    lose(member, why->message);
}

static void on_dialed(void *context, int socket, const struct error *why)
{
    struct member *member = context;
    struct leader *leader = member->leader;
    struct link_owner owner = {
        .opened = on_opened, .heard = on_heard, .ended = on_ended, .context = member};
    struct error err = {0};
    member->dial = NULL;
    member->dial_seconds = socket < 0 ? 2 * member->dial_seconds : 0;
    if (socket < 0)
        lose(member, why->message);
    else if (link_create(leader->loop, socket, secret_key(leader->settings.secret), CHANNEL_ASKS,
                         &owner, &member->link, &err) < 0)
        lose(member, err.message);
}

void leader_call_members(struct leader *leader)
{
    double now = clock_seconds();
    for (int i = 1; i < leader->count; i++) {
        struct member *member = &leader->members[i];
        const struct cluster_member *address = &leader->settings.cluster->members[i];
        if (member->dial || member->link || member->heard_over || now < member->next_dial)
            continue;
        member->dial_seconds = fmin(fmax(member->dial_seconds, dial_least_seconds),
                                    fmax(leader->settings.peer_timeout, dial_least_seconds));
        member->dial = dial_start(leader->loop, address->host, address->port, member->dial_seconds,
                                  on_dialed, member);
        member->next_dial = now + dial_pause;
    }
}
