/* Is a cluster ready for a deployment? Each finding with its remedy. */
#include "cli/k8s_doctor.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/output.h"

struct doctor_settings {
    struct k8s_target target;
    const char *json;
};

static const char *const words_of[] = {"ok", "note", "problem"};

static void print_findings(const struct doctor *doctor)
{
    for (int i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        printf("%-8s %s\n", words_of[finding->verdict], finding->what);
        if (*finding->remedy)
            printf("         -> %s\n", finding->remedy);
    }
}

static int write_json(const struct doctor *doctor, const char *target, struct error *err)
{
    struct json *json = json_object_create(), *list = json_array_create();
    for (int i = 0; i < doctor->count; i++) {
        struct json *entry = json_object_create();
        json_set_text(entry, "verdict", words_of[doctor->findings[i].verdict]);
        json_set_text(entry, "finding", doctor->findings[i].what);
        json_set_text(entry, "remedy", doctor->findings[i].remedy);
        json_append(list, entry);
    }
    json_set(json, "findings", list);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static int report(const struct doctor *doctor, const char *json, struct error *err)
{
    int problems = 0;
    if (json && write_json(doctor, json, err) < 0)
        return -1;
    if (!json)
        print_findings(doctor);
    for (int i = 0; i < doctor->count; i++)
        problems += doctor->findings[i].verdict == DOCTOR_PROBLEM;
    return problems ? STATUS_FAILED : 0;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct doctor_settings *settings = given;
    struct k8s_job job = {0};
    if (settings->target.what && k8s_job_open(&settings->target, &job, err) < 0)
        return -1;
    struct doctor doctor = {.target = &settings->target,
                            .deployment = settings->target.what ? &job.deployment : NULL,
                            .manifest = job.manifest,
                            .arena = arena_create(),
                            .err = err};
    int status = doctor.arena ? doctor_examine(&doctor)
                              : error_set(err, ERROR_MEMORY, "no memory for findings");
    if (status == 0)
        status = report(&doctor, settings->json, err);
    arena_destroy(doctor.arena);
    k8s_job_release(&job);
    return status;
}

static const struct option options[] = {
    K8S_TARGET_OPTIONS(doctor_settings, false), K8S_CONTEXT_OPTION(doctor_settings),
    OPTION_SECTION("Results"),
    OPTION_TEXT(doctor_settings, json, "json", .value = "FILE|-",
                .help = "write the findings as JSON to FILE, or to standard output"),
    OPTION_END};

const struct command command_k8s_doctor = {
    .name = "k8s doctor",
    .summary = "check a cluster before it is used",
    .description =
        "Operators and their versions, storage classes, DNS, the namespace with its Pod Security "
        "level and quotas, claims, the image, and what the API server says to the objects. Each "
        "finding comes with its remedy. Status 1 when there is a problem.",
    .examples = "# is everything there for the pipeline?\n"
                "lockstep k8s doctor pipeline -n team\n",
    .options = options,
    .settings_size = sizeof(struct doctor_settings),
    .run = run,
};
