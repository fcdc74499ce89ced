#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/libraries.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "exec/dnn.h"

struct doctor_settings {
    const char *json;
};

static const struct option options[] = {
    OPTION_TEXT(doctor_settings, json, "json", .value = "FILE|-",
                .help = "write the findings as JSON to FILE, or to standard output"),
    OPTION_END};

struct feature {
    const char *name;
    bool here;
};
enum { FEATURES = 5 };

static void list_features(const struct processor *processor, struct feature out[FEATURES])
{
    out[0] = (struct feature){"sse4.1", processor->sse41};
    out[1] = (struct feature){"avx2", processor->avx2};
    out[2] = (struct feature){"fma", processor->fma};
    out[3] = (struct feature){"avx512f", processor->avx512f};
    out[4] = (struct feature){"amx", processor->amx};
}

static struct json *describe_processor(const struct machine *machine)
{
    const struct processor *processor = &machine->processor;
    struct json *json = json_object_create(), *features = json_array_create();
    json_set_text(json, "name", processor->name);
    struct feature known[FEATURES];
    list_features(processor, known);
    for (int i = 0; i < FEATURES; i++)
        if (known[i].here)
            json_append_text(features, known[i].name);
    json_set(json, "features", features);
    json_set_text(json, "kernels", machine->instruction_set);
    json_set_integer(json, "sockets", processor->sockets);
    json_set_integer(json, "numa_nodes", machine->numa_nodes);
    json_set_integer(json, "cores", processor->cores);
    json_set_integer(json, "hardware_threads", processor->hardware_threads);
    json_set_integer(json, "allowed_cores", processor->allowed_cores);
    json_set_integer(json, "allowed_hardware_threads", processor->allowed_threads);
    if (processor->quota_cores > 0)
        json_set_number(json, "cgroup_quota_cores", processor->quota_cores);
    json_set_integer(json, "threads", machine->threads);
    return json;
}

static struct json *describe_memory(const struct machine *machine)
{
    struct json *json = json_object_create();
    json_set_integer(json, "total_bytes", (int64_t)machine->memory_total);
    json_set_integer(json, "limit_bytes", (int64_t)machine->memory_limit);
    json_set_integer(json, "free_bytes", (int64_t)machine->memory_free);
    json_set_integer(json, "cgroup_version", machine->cgroup_version);
    json_set_text(json, "transparent_huge_pages", machine->huge_pages);
    return json;
}

static struct json *describe_libraries(void)
{
    struct json *json = json_object_create();
    struct library found[LIBRARIES_MAX];
    int count = libraries_find(found);
    json_set_text(json, "onednn", dnn_version());
    json_set_text(json, "jansson", json_library_version());
    for (int i = 0; i < count; i++)
        json_set_text(json, found[i].name, found[i].version[0] ? found[i].version : NULL);
    return json;
}

static struct json *describe(const struct machine *machine, const struct advice *advice, int count)
{
    struct json *json = json_object_create(), *list = json_array_create();
    json_set_text(json, "version", LOCKSTEP_VERSION);
    json_set_text(json, "device", "cpu");
    json_set(json, "processor", describe_processor(machine));
    json_set(json, "memory", describe_memory(machine));
    json_set(json, "libraries", describe_libraries());
    for (int i = 0; i < count; i++) {
        struct json *entry = json_object_create();
        json_set_text(entry, "problem", advice[i].problem);
        json_set_text(entry, "remedy", advice[i].remedy);
        json_append(list, entry);
    }
    json_set(json, "advice", list);
    return json;
}

static double gibibytes(size_t bytes)
{
    return (double)bytes / (double)((size_t)1 << 30);
}

static void print_processor(const struct machine *machine, struct strbuf *out)
{
    const struct processor *processor = &machine->processor;
    strbuf_addf(out, "processor    %s\n", processor->name);
    strbuf_add(out, "features    ");
    struct feature known[FEATURES];
    list_features(processor, known);
    for (int i = 0; i < FEATURES; i++)
        if (known[i].here)
            strbuf_addf(out, " %s", known[i].name);
    strbuf_addf(out, "\nkernels      %s\n", machine->instruction_set);
    strbuf_addf(out, "cores        %d of the machine (%d hardware threads, %s)\n", processor->cores,
                processor->hardware_threads,
                processor->hardware_threads > processor->cores ? "SMT on" : "no SMT");
    strbuf_addf(out, "             %d allowed by the affinity mask\n", processor->allowed_cores);
    if (processor->quota_cores > 0)
        strbuf_addf(out, "             %.4g allowed by the cgroup's quota\n",
                    processor->quota_cores);
    else
        strbuf_add(out, "             no CPU quota\n");
    strbuf_addf(out, "threads      %d, one per core that this process may use\n", machine->threads);
}

static void print_memory(const struct machine *machine, struct strbuf *out)
{
    strbuf_addf(out, "memory       %.1f GiB in the machine, %.1f GiB free for this process\n",
                gibibytes(machine->memory_total), gibibytes(machine->memory_free));
    if (machine->memory_limit < machine->memory_total)
        strbuf_addf(out, "             the cgroup (version %d) allows %.1f GiB\n",
                    machine->cgroup_version, gibibytes(machine->memory_limit));
    else
        strbuf_add(out, "             no cgroup limit\n");
    strbuf_addf(out, "huge pages   %s\n", machine->huge_pages[0] ? machine->huge_pages : "unknown");
}

static void print_libraries(struct strbuf *out)
{
    struct library found[LIBRARIES_MAX];
    int count = libraries_find(found);
    strbuf_addf(out, "libraries    oneDNN %s, jansson %s\n", dnn_version(), json_library_version());
    for (int i = 0; i < count; i++)
        strbuf_addf(out, "             %s %s (%s)\n", found[i].name,
                    found[i].version[0] ? found[i].version : "NOT FOUND", found[i].use);
}

static void print_advice(const struct advice *advice, int count, struct strbuf *out)
{
    if (count == 0)
        strbuf_add(out, "\nNothing found that would make training faster here.\n");
    else
        strbuf_add(out, "\nWhat would make training faster here:\n");
    for (int i = 0; i < count; i++)
        strbuf_addf(out, "  - %s\n    %s\n", advice[i].problem, advice[i].remedy);
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    (void)parsed;
    const struct doctor_settings *wanted = settings;
    struct machine machine;
    struct advice advice[ADVICE_MAX];
    machine_describe(&machine);
    int count = machine_advise(&machine, getenv, advice);
    if (wanted->json) {
        struct json *json = describe(&machine, advice, count);
        int status = output_json(json, wanted->json, err);
        json_release(json);
        return status;
    }
    struct strbuf text;
    strbuf_init(&text);
    strbuf_addf(&text,
                "lockstep %s computes on CPUs only; a GPU is not used even if there is "
                "one.\n\n",
                LOCKSTEP_VERSION);
    print_processor(&machine, &text);
    print_memory(&machine, &text);
    print_libraries(&text);
    print_advice(advice, count, &text);
    int status = output_text(&text, err);
    strbuf_release(&text);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .order = 120,
    .summary = "show what training will use here, and what slows it down",
    .description = "Shows the processor and the instructions the kernels will use, the cores and "
                   "the memory that this process may have (a container's limits, not the "
                   "host's), huge pages and libraries; then what would make training faster, each "
                   "with its remedy.",
    .examples = "# for a person\n"
                "lockstep doctor\n"
                "# how many threads training will use, for a script\n"
                "lockstep doctor --json - | jq .processor.threads\n",
    .options = options,
    .settings_size = sizeof(struct doctor_settings),
    .run = run,
};
