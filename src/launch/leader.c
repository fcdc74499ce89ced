#include "launch/leader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/child.h"
#include "launch/dial.h"
#include "launch/leader_internal.h"

enum { SAME_STEP_FAILURES = 3 };
static const double group_seconds = 0.5, told_seconds = 10;
static const double last_words_seconds = 5; /* for mpirun to print why ranks ended */
static const double pause_seconds = 10;     /* for ranks to come to a step boundary */

/* --- phases ---------------------------------------------------------------------------------------------------- */

static void enter(struct leader *leader, enum leader_phase phase)
{
    if (phase == LEADER_GATHERS)
        leader_dismiss_leaving(leader);
    leader->phase = phase;
    leader->since = clock_seconds();
    leader->told = leader->since - told_seconds + 2; /* the first line comes soon */
    leader->pause_until = 0;
    leader_tell_group(leader);
}

static void begin_over(struct leader *leader)
{
    struct strbuf *out = leader_begin(leader, MESSAGE_OVER);
    message_number(out, leader->status);
    message_text(out, leader->reason);
}

static void end_over(struct leader *leader, int status, const char *reason)
{
    if (leader->phase == LEADER_IS_OVER)
        return;
    leader->status = status;
    snprintf(leader->reason, sizeof leader->reason, "%s", reason);
    leader_kill_mpirun(leader);
    enter(leader, LEADER_IS_OVER);
    begin_over(leader);
    leader_send_all(leader);
}

void leader_tell_over(struct leader *leader, struct member *member)
{
    begin_over(leader);
    leader_send(leader, member);
}

void leader_fail(struct leader *leader, int status, const char *format, ...)
{
    char reason[LEADER_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    end_over(leader, status, reason);
}

/* This generation is over; the next is formed when what runs is gone. */
static void end_generation(struct leader *leader)
{
    leader_kill_mpirun(leader);
    message_number(leader_begin(leader, MESSAGE_ABANDON), leader->formed);
    leader_send_all(leader);
    enter(leader, LEADER_ENDS);
}

/* A rank failed, not a member: the same step must not fail for ever. */
static void count_failure(struct leader *leader, const char *who, const char *why)
{
    bool again = leader->failures && leader->failed_step == leader->newest;
    leader->failures = again ? leader->failures + 1 : 1;
    leader->failed_step = leader->newest;
    log_line(LOG_WARNING, "%s is lost after step %" PRId64 ": %s", who, leader->newest, why);
    if (leader->failures < SAME_STEP_FAILURES) {
        end_generation(leader);
        return;
    }
    leader_fail(leader, 1, "step %" PRId64 " failed %d times in a row, last on %s: %s",
                leader->newest + 1, leader->failures, who, why);
}

void leader_lost_member(struct leader *leader, struct member *member, const char *why)
{
    if (leader->phase == LEADER_IS_OVER)
        return;
    log_line(LOG_WARNING, "%s is lost: %s", leader_name(leader, member), why);
    leader->failures = 0;
    if (member->taking_part && leader->phase == LEADER_RUNS)
        end_generation(leader);
    else if (member->taking_part && leader->phase == LEADER_PREPARES)
        enter(leader, LEADER_GATHERS);
}

/* --- gathering --------------------------------------------------------------------------------------------------- */

static void say_whom_it_waits_for(struct leader *leader, enum log_level level)
{
    for (int i = 1; i < leader->count; i++)
        if (!leader->members[i].present)
            log_line(level, "waiting for %s: %s", leader_name(leader, &leader->members[i]),
                     leader->members[i].absence[0] ? leader->members[i].absence
                                                   : "not reached yet");
    leader->told = clock_seconds();
}

static void give_up(struct leader *leader)
{
    const struct member *missing = NULL;
    for (int i = leader->count - 1; i > 0; i--)
        if (!leader->members[i].present)
            missing = &leader->members[i];
    leader_fail(leader, 1,
                "gave up after %.0f s (--start-timeout): %d of %d members are here; %s: %s",
                leader->settings.start_timeout, leader_present(leader), leader->count,
                missing ? leader_name(leader, missing) : "", missing ? missing->absence : "");
}

/* Gives this generation's number and ticket to all who take part. */
static void prepare(struct leader *leader)
{
    struct error err = {0};
    char ticket[SECRET_NAME_BYTES];
    if (secret_name(ticket, &err) < 0) {
        leader_fail(leader, 1, "%s", err.message);
        return;
    }
    snprintf(leader->ticket, sizeof leader->ticket, "%s", ticket);
    leader->formed = ++leader->generation;
    leader->ranks = 0;
    leader->lost = NULL;
    for (int i = 0; i < leader->count; i++) {
        struct member *member = &leader->members[i];
        member->taking_part = member->present;
        member->ready = member->done = false;
        member->pid = 0;
        leader->ranks += member->taking_part;
    }
    enter(leader, LEADER_PREPARES);
    struct strbuf *out = leader_begin(leader, MESSAGE_PREPARE);
    message_number(out, leader->formed);
    message_text(out, leader->ticket);
    leader_send_all(leader);
}

static void gather(struct leader *leader)
{
    const struct leader_settings *settings = &leader->settings;
    int present = leader_present(leader);
    double waited = clock_seconds() - leader->since;
    bool enough = settings->min_ranks && present >= settings->min_ranks;
    if (leader->stop_signal)
        end_over(leader, 128 + leader->stop_signal, "");
    else if (present == leader->count ||
             (enough && (leader->formed || waited > settings->start_timeout)))
        prepare(leader);
    else if (leader->held_since > 0 &&
             clock_seconds() - leader->held_since > 2 * settings->peer_timeout)
        leader_fail(leader, 1, "another process leads this group: is %s running twice?",
                    cluster_name(settings->cluster, 0));
    else if (waited > settings->start_timeout)
        give_up(leader);
    else if (clock_seconds() - leader->told > told_seconds)
        say_whom_it_waits_for(leader, LOG_INFO);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void start_when_ready(struct leader *leader)
{
    struct error err = {0};
    bool late = clock_seconds() - leader->since > leader->settings.peer_timeout;
    int waiting = 0;
    if (leader->stop_signal) {
        end_over(leader, 128 + leader->stop_signal, "");
        return;
    }
    for (int i = 0; i < leader->count; i++) {
        struct member *member = &leader->members[i];
        waiting += member->taking_part && !member->ready;
        if (late && member->taking_part && !member->ready)
            log_line(LOG_WARNING, "%s does not get ready", leader_name(leader, member));
    }
    if (waiting && late)
        enter(leader, LEADER_GATHERS);
    if (waiting)
        return;
    if (leader_start_mpirun(leader, &err) < 0) {
        leader_fail(leader, 1, "%s", err.message);
        return;
    }
    log_line(LOG_INFO, "generation %" PRId64 ": %d of %d members train", leader->formed,
             leader->ranks, leader->count);
    enter(leader, LEADER_RUNS);
}

static bool all_done(const struct leader *leader)
{
    for (int i = 0; i < leader->count; i++)
        if (leader->members[i].taking_part && !leader->members[i].done)
            return false;
    return true;
}

/* The first that says why, if any does. */
static const struct member *find_outcome(const struct leader *leader, enum keeper_outcome outcome)
{
    for (int i = 0; i < leader->count; i++)
        if (leader->members[i].taking_part && leader->members[i].done &&
            leader->members[i].outcome == outcome)
            return &leader->members[i];
    return NULL;
}

/* mpirun ends as the rank did that it lost: 128 and the signal. */
static void judge_lost(struct leader *leader, int status)
{
    char how[96] = "its process ended without a last word";
    int number = child_exit_status(status) - 128;
    if (WIFEXITED(status) && number > 0)
        snprintf(how, sizeof how, "its rank was killed by signal %d (%s)", number,
                 strsignal(number));
    count_failure(leader, leader_name(leader, leader->lost), how);
}

/* After mpirun, whose output has all been printed: what did the ranks say? */
static void judge_generation(struct leader *leader, int status)
{
    const struct member *failed = find_outcome(leader, KEEPER_FAILED), *done;
    char text[96];
    if (leader->lost) {
        judge_lost(leader, status);
        return;
    }
    if (failed) {
        leader_fail(leader, failed->status, "%s: %s", leader_name(leader, failed), failed->reason);
        leader->reason[0] = '\0'; /* it told so itself, on this console */
        return;
    }
    done = find_outcome(leader, KEEPER_DONE);
    bool interrupted = done && (done->status == 130 || done->status == 143);
    if (interrupted && !leader->stop_signal) {
        log_line(LOG_INFO, "a member was asked to leave after step %" PRId64, leader->newest);
        end_generation(leader);
    } else if (done && (all_done(leader) || leader->members[0].done)) {
        end_over(leader, leader->members[0].done ? leader->members[0].status : done->status, "");
    } else if (all_done(leader)) { /* paused, or the group was lost: form it anew */
        end_generation(leader);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        end_over(leader, 0, "");
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
        end_over(leader, 2, "");
    } else if (leader->stop_signal) {
        end_over(leader, 128 + leader->stop_signal, "");
    } else {
        count_failure(leader, "a rank", child_end_text(status, text, sizeof text));
    }
}

void leader_mpirun_ended(struct leader *leader, int status)
{
    if (leader->phase == LEADER_RUNS)
        judge_generation(leader, status);
}

/* Ranks that say nothing are stopped or hang, whatever their agents say. */
static void check_silence(struct leader *leader)
{
    for (int i = 0; i < leader->count && leader->phase == LEADER_RUNS; i++) {
        struct member *member = &leader->members[i];
        char why[64];
        if (!member->taking_part || !member->pid || member->done ||
            member->rank_silence <= leader->settings.peer_timeout)
            continue;
        snprintf(why, sizeof why, "its rank said nothing for %.0f s", member->rank_silence);
        count_failure(leader, leader_name(leader, member), why);
    }
}

/* More members are here than take part: at the next step boundary they are taken in. */
static void take_in(struct leader *leader)
{
    double now = clock_seconds();
    if (leader_present(leader) == leader->ranks)
        return;
    if (leader->pause_until == 0) {
        log_line(LOG_INFO, "%d of %d members are here: the group is formed anew",
                 leader_present(leader), leader->count);
        message_number(leader_begin(leader, MESSAGE_PAUSE), leader->formed);
        leader_send_all(leader);
        leader->pause_until = now + pause_seconds;
    } else if (now > leader->pause_until) {
        end_generation(leader);
    }
}

static void watch(struct leader *leader)
{
    if (leader->kill_at > 0) {
        if (clock_seconds() > leader->kill_at)
            leader_kill_mpirun(leader);
        return;
    }
    check_silence(leader);
    if (leader->phase == LEADER_RUNS && !leader->stop_signal)
        take_in(leader);
}

/* --- what members say ----------------------------------------------------------------------------------------------- */

static void hear_report(struct leader *leader, struct member *member, struct message *message)
{
    int64_t generation, pid, step, silence, kept = 0;
    if (!message_next_number(message, &generation) || !message_next_number(message, &pid) ||
        !message_next_number(message, &step) || !message_next_number(message, &silence) ||
        !message_next_text(message, member->doing, sizeof member->doing))
        return;
    message_next_number(message, &kept);
    member->kept_bytes = kept;
    if (generation != leader->formed || !member->taking_part)
        return;
    member->pid = pid;
    member->step = step;
    member->rank_silence = (double)silence / 1000;
    if (step > leader->newest)
        leader->newest = step;
}

/* A failure that will not go away ends the job; mpirun gets a moment to print the rest. */
static void hear_done(struct leader *leader, struct member *member, struct message *message)
{
    int64_t outcome, status;
    if (!message_next_number(message, &outcome) || !message_next_number(message, &status) ||
        !message_next_text(message, member->reason, sizeof member->reason))
        return;
    member->done = true;
    member->outcome = (enum keeper_outcome)outcome;
    member->status = (int)status;
    if (outcome == KEEPER_FAILED || all_done(leader))
        leader->kill_at = clock_seconds() + last_words_seconds;
    else if (outcome == KEEPER_LOST_GROUP && leader->kill_at == 0)
        count_failure(leader, leader_name(leader, member), member->reason);
}

/* Before the job is given up, mpirun may say what ended the rank. */
static void hear_lost(struct leader *leader, struct member *member, struct message *message)
{
    int64_t step;
    char how[128];
    if (!message_next_number(message, &step) || !message_next_text(message, how, sizeof how))
        return;
    if (step > leader->newest)
        leader->newest = step;
    if (leader->lost || find_outcome(leader, KEEPER_FAILED) || find_outcome(leader, KEEPER_DONE))
        return; /* it was ended because another had */
    if (leader->failures == SAME_STEP_FAILURES - 1 && leader->failed_step == leader->newest) {
        leader->lost = member;
        leader->kill_at = clock_seconds() + last_words_seconds;
        return;
    }
    count_failure(leader, leader_name(leader, member), how);
}

void leader_heard(struct leader *leader, struct member *member, struct message *message)
{
    int64_t generation = -1;
    struct message rest = *message;
    message_next_number(&rest, &generation);
    bool current = generation == leader->formed && member->taking_part;
    if (message->kind == MESSAGE_REPORT)
        hear_report(leader, member, message);
    else if (message->kind == MESSAGE_READY && current && leader->phase == LEADER_PREPARES)
        member->ready = true;
    else if (message->kind == MESSAGE_RANK_DONE && current && leader->phase == LEADER_RUNS)
        hear_done(leader, member, &rest);
    else if (message->kind == MESSAGE_RANK_LOST && current && leader->phase == LEADER_RUNS)
        hear_lost(leader, member, &rest);
    else if (message->kind == MESSAGE_LEAVING && member->index > 0) {
        log_line(LOG_INFO, "%s was asked to stop", leader_name(leader, member));
        member->leaving = true;
    }
}

static void hear_own_agent(void *context, const void *bytes, size_t count)
{
    struct leader *leader = context;
    struct message message;
    size_t used;
    if (message_take(bytes, count, &message, &used, NULL) == 1)
        leader_heard(leader, &leader->members[0], &message);
}

/* --- making, ticking, ending ------------------------------------------------------------------------------------------ */

int leader_create(struct loop *loop, struct agent *agent, const struct leader_settings *settings,
                  struct leader **out, struct error *err)
{
    int count = settings->cluster->count;
    struct leader *leader = memory_allocate(sizeof *leader);
    struct member *members = memory_allocate((size_t)count * sizeof *members);
    if (!leader || !members) {
        memory_free(leader);
        memory_free(members);
        return error_set(err, ERROR_MEMORY, "no memory for the group");
    }
    *leader = (struct leader){
        .loop = loop, .agent = agent, .settings = *settings, .members = members, .count = count};
    strbuf_init(&leader->out);
    for (int i = 0; i < count; i++)
        members[i] = (struct member){.leader = leader, .index = i, .present = i == 0};
    if (secret_name(leader->incarnation, err) < 0) {
        leader_destroy(leader);
        return -1;
    }
    agent_set_upstream(agent, hear_own_agent, leader_on_child, leader);
    enter(leader, LEADER_GATHERS);
    *out = leader;
    return 0;
}

void leader_destroy(struct leader *leader)
{
    if (!leader)
        return;
    leader_kill_mpirun(leader);
    agent_set_upstream(leader->agent, NULL, NULL, NULL);
    for (int i = 0; i < leader->count; i++) {
        dial_cancel(leader->members[i].dial);
        link_destroy(leader->members[i].link);
    }
    strbuf_release(&leader->out);
    memory_free(leader->members);
    memory_free(leader);
}

void leader_tick(struct leader *leader)
{
    leader_call_members(leader);
    if (leader->phase != LEADER_IS_OVER)
        leader_check_members(leader);
    if (leader->phase == LEADER_GATHERS)
        gather(leader);
    else if (leader->phase == LEADER_PREPARES)
        start_when_ready(leader);
    else if (leader->phase == LEADER_RUNS)
        watch(leader);
    else if (leader->phase == LEADER_ENDS && !leader->mpirun)
        enter(leader, LEADER_GATHERS);
    if (clock_seconds() - leader->grouped > group_seconds)
        leader_tell_group(leader);
}

void leader_stop(struct leader *leader, int number)
{
    leader->stop_signal = number;
}

/* Who took part would wait for the leader's return if it did not hear that there is none, also when
 * it was lost meanwhile; but who wants to stop does not wait for the lost. */
static bool has_to_hear(const struct leader *leader, const struct member *member)
{
    return !member->heard_over && (member->present || (leader->formed && !leader->stop_signal));
}

bool leader_is_over(const struct leader *leader, int *status, const char **reason)
{
    if (leader->phase != LEADER_IS_OVER || leader->mpirun)
        return false;
    for (int i = 1; i < leader->count; i++)
        if (has_to_hear(leader, &leader->members[i]) &&
            clock_seconds() - leader->since < leader->settings.peer_timeout)
            return false;
    *status = leader->status;
    *reason = leader->reason;
    return true;
}
