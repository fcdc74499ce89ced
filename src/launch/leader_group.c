#include <inttypes.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "launch/leader_internal.h"

static const char *const phase_names[] = {"waiting", "preparing", "training", "ending", "over"};

static const char *state_of(const struct member *member)
{
    if (!member->present)
        return "absent";
    return member->taking_part ? member->pid ? "training" : "starting" : "present";
}

static struct json *describe_member(const struct leader *leader, const struct member *member,
                                    int rank)
{
    struct json *out = json_object_create();
    const struct cluster_member *address = &leader->settings.cluster->members[member->index];
    char text[CLUSTER_HOST_BYTES + 16];
    snprintf(text, sizeof text, strchr(address->host, ':') ? "[%s]:%d" : "%s:%d", address->host,
             address->port);
    json_set_text(out, "task", address->task);
    json_set_text(out, "address", text);
    json_set_text(out, "host", member->host);
    json_set_text(out, "state", state_of(member));
    if (member->taking_part) {
        json_set_integer(out, "rank", rank);
        json_set_integer(out, "process", member->pid);
        json_set_integer(out, "step", member->step);
        json_set_text(out, "doing", member->doing);
    }
    json_set_integer(out, "kept_bytes", member->kept_bytes);
    if (member->absence[0])
        json_set_text(out, "absence", member->absence);
    return out;
}

static char *describe(const struct leader *leader)
{
    struct json *out = json_object_create(), *members = json_array_create();
    int rank = 0;
    json_set_text(out, "phase", phase_names[leader->phase]);
    json_set_integer(out, "generation", leader->formed);
    json_set_integer(out, "ranks", leader->ranks);
    json_set_integer(out, "step", leader->newest);
    json_set_number(out, "phase_seconds", clock_seconds() - leader->since);
    for (int i = 0; i < leader->count; i++) {
        const struct member *member = &leader->members[i];
        json_append(members, describe_member(leader, member, rank));
        rank += member->taking_part;
    }
    json_set(out, "members", members);
    char *text = json_text(out, true);
    json_release(out);
    return text;
}

void leader_tell_group(struct leader *leader)
{
    char *text = describe(leader);
    if (text) {
        message_text(leader_begin(leader, MESSAGE_GROUP), text);
        leader_send_all(leader);
    }
    memory_free(text);
    leader->grouped = clock_seconds();
}
