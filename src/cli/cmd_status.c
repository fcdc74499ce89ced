#include <inttypes.h>
#include <signal.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/members.h"
#include "cli/output.h"
#include "launch/cluster.h"
#include "launch/errand.h"
#include "launch/secret.h"

struct status_settings {
    const char *address, *secret_file, *json;
    bool insecure;
    double timeout;
};

static const struct option options[] = {
    OPTION_ARGUMENT(status_settings, address, "HOST:PORT", .required = true, .help = "any member"),
    OPTION_SECTION("Options"),
    MEMBERS_SECRET_OPTIONS(status_settings, ),
    OPTION_SECONDS(status_settings, timeout, "timeout", OPTION_AT_LEAST(0.1), .initial = "5",
                   .help = "how long an answer is waited for"),
    OPTION_TEXT(status_settings, json, "json", .value = "FILE|-",
                .help = "write what is known as JSON instead; - is standard output"),
    OPTION_END};

static void print_member(const struct json *member, struct strbuf *out)
{
    int64_t rank = json_get_integer(member, "rank", -1);
    char number[16] = "-", step[24] = "-";
    if (rank >= 0) {
        snprintf(number, sizeof number, "%" PRId64, rank);
        snprintf(step, sizeof step, "%" PRId64, json_get_integer(member, "step", 0));
    }
    strbuf_addf(out, "%-12s %-28s %-10s %4s %9s  %s\n", json_get_text(member, "task", "?"),
                json_get_text(member, "address", "?"), json_get_text(member, "state", "?"), number,
                step, json_get_text(member, "absence", json_get_text(member, "doing", "")));
}

static int print(const struct json *group, struct error *err)
{
    const struct json *members = json_get(group, "members");
    struct strbuf out;
    strbuf_init(&out);
    if (!members) {
        strbuf_add(&out,
                   "No group: its leader has not come, or this agent serves anyone's mpirun\n");
    } else {
        strbuf_addf(&out, "Generation %" PRId64 ": %s for %.0f s, %" PRId64 " steps finished\n\n",
                    json_get_integer(group, "generation", 0), json_get_text(group, "phase", "?"),
                    json_get_number(group, "phase_seconds", 0), json_get_integer(group, "step", 0));
        strbuf_add(&out, "Task         Address                      State      Rank      Step\n");
        for (int i = 0; i < json_count(members); i++)
            print_member(json_at(members, i), &out);
    }
    int status =
        out.failed ? error_set(err, ERROR_MEMORY, "no memory for a table") : output_text(&out, err);
    strbuf_release(&out);
    return status;
}

static int show(const struct status_settings *settings, const char *text, struct error *err)
{
    struct json *group = NULL;
    if (json_parse(text, strlen(text), &group, err) < 0)
        return -1;
    int status = settings->json ? output_json(group, settings->json, err) : print(group, err);
    json_release(group);
    return status;
}

static int run(struct options *parsed, void *opaque, struct error *err)
{
    const struct status_settings *settings = opaque;
    struct cluster_member member = {0};
    struct secret secret;
    char *text = NULL;
    (void)parsed;
    signal(SIGPIPE, SIG_IGN);
    if (cluster_parse_address(settings->address, "HOST:PORT", &member, err) < 0)
        return -1;
    struct cluster cluster = {.members = &member, .count = 1};
    if (secret_load(settings->secret_file, settings->insecure, cluster_is_loopback(&cluster),
                    &secret, err) < 0)
        return -1;
    struct errand errand = {.host = member.host,
                            .port = member.port,
                            .key = secret_key(&secret),
                            .patience = settings->timeout};
    int status = errand_ask(&errand, &text, err);
    if (status == 0)
        status = show(settings, text, err);
    memory_free(text);
    return status;
}

const struct command command_status = {
    .name = "status",
    .order = 74,
    .summary = "ask a member how its group is",
    .description = "Asks the member that listens on HOST:PORT who is in the group, who is missing "
                   "and why, and at which step they are.",
    .examples = "lockstep status tf-learning-worker-0:5000 --secret-file /etc/lockstep/secret\n",
    .options = options,
    .settings_size = sizeof(struct status_settings),
    .run = run,
};
