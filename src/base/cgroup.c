#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "base/proc.h"

/* Where one hierarchy is mounted, and the names of its files. */
struct hierarchy {
    char mount[PATH_MAX]; /* of the root of the hierarchy that we can see */
    char group[PATH_MAX]; /* our group's directory, below or equal to `mount` */
    bool version_2;
};

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ",\n"), at += *at == ',') {
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
        if (*at == '\n')
            break;
    }
    return false;
}

/* /proc/self/cgroup has lines "ID:CONTROLLERS:PATH"; version 2 has no controllers there. */
static bool find_group_path(const char *cgroups, const char *controller, char *out, size_t capacity)
{
    for (const char *line = cgroups; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *names = memchr(line, ':', strcspn(line, "\n"));
        const char *path = names ? memchr(names + 1, ':', strcspn(names + 1, "\n")) : NULL;
        if (!path)
            continue;
        char list[256];
        snprintf(list, sizeof list, "%.*s", (int)(path - names - 1), names + 1);
        if (controller ? has_word(list, controller) : !*list) {
            snprintf(out, capacity, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
            return true;
        }
    }
    return false;
}

/* A line of /proc/self/mountinfo: "36 35 98:0 ROOT MOUNT OPTIONS [TAGS] - TYPE SOURCE SUPER". */
static bool find_mount(const char *mounts, const char *controller, char *root, char *mount)
{
    for (const char *line = mounts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char text[3 * PATH_MAX], type[32], super[256];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        const char *tail = strstr(text, " - ");
        if (!tail || sscanf(text, "%*s %*s %*s %4095s %4095s", root, mount) != 2 ||
            sscanf(tail, " - %31s %*s %255s", type, super) != 2)
            continue;
        if (controller ? strcmp(type, "cgroup") == 0 && has_word(super, controller)
                       : strcmp(type, "cgroup2") == 0)
            return true;
    }
    return false;
}

/* `controller` NULL: the one hierarchy of version 2. */
static bool find_hierarchy(const char *cgroups, const char *mounts, const char *prefix,
                           const char *controller, struct hierarchy *out)
{
    char root[PATH_MAX], mount[PATH_MAX], path[PATH_MAX];
    if (!find_group_path(cgroups, controller, path, sizeof path) ||
        !find_mount(mounts, controller, root, mount))
        return false;
    /* Paths are relative to the hierarchy's root, of which a container may see only a part. */
    size_t seen = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const char *below = strncmp(path, root, seen) == 0 ? path + seen : "";
    out->version_2 = controller == NULL;
    int used = snprintf(out->mount, sizeof out->mount, "%s%s", prefix, mount);
    int more = snprintf(out->group, sizeof out->group, "%s%s%s", prefix, mount,
                        strcmp(below, "/") == 0 ? "" : below);
    if (used >= (int)sizeof out->mount || more >= (int)sizeof out->group)
        return false;
    if (access(out->group, R_OK) != 0)
        memcpy(out->group, out->mount, sizeof out->group);
    return true;
}

static bool read_group_file(const char *group, const char *name, char *text, size_t capacity)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return proc_read(path, text, capacity) > 0;
}

static size_t read_group_bytes(const char *group, const char *name, size_t missing)
{
    char text[64];
    uint64_t value;
    if (!read_group_file(group, name, text, sizeof text) || !proc_find_number(text, "", &value))
        return missing; /* "max" is not a number: no limit */
    return (size_t)value;
}

static void limit_memory(const struct hierarchy *in, struct cgroup_limits *limits)
{
    size_t limit = read_group_bytes(
        in->group, in->version_2 ? "memory.max" : "memory.limit_in_bytes", SIZE_MAX);
    if (limit >= SIZE_MAX / 4) /* version 1 writes "no limit" as a huge number */
        return;
    size_t used =
        read_group_bytes(in->group, in->version_2 ? "memory.current" : "memory.usage_in_bytes", 0);
    char stat[8192];
    uint64_t cache = 0;
    if (read_group_file(in->group, "memory.stat", stat, sizeof stat))
        proc_find_number(stat, in->version_2 ? "inactive_file " : "total_inactive_file ", &cache);
    used -= cache < used ? (size_t)cache : used;
    size_t free_bytes = used < limit ? limit - used : 0;
    if (limit < limits->memory_bytes)
        limits->memory_bytes = limit;
    if (free_bytes < limits->memory_free_bytes)
        limits->memory_free_bytes = free_bytes;
}

static void limit_cpu(const struct hierarchy *in, struct cgroup_limits *limits)
{
    char text[64];
    double quota = 0, period = 0;
    if (in->version_2) {
        if (!read_group_file(in->group, "cpu.max", text, sizeof text) ||
            sscanf(text, "%lf %lf", &quota, &period) != 2)
            return; /* "max 100000" */
    } else {
        if (!read_group_file(in->group, "cpu.cfs_quota_us", text, sizeof text))
            return;
        quota = strtod(text, NULL);
        period = (double)read_group_bytes(in->group, "cpu.cfs_period_us", 0);
    }
    if (quota <= 0 || period <= 0)
        return;
    if (limits->cpu_cores == 0 || quota / period < limits->cpu_cores)
        limits->cpu_cores = quota / period;
}

/* Applies `limit` to our group and to every group above it that we can see. */
static void walk_up(struct hierarchy *in, struct cgroup_limits *limits,
                    void (*limit)(const struct hierarchy *, struct cgroup_limits *))
{
    for (;;) {
        limit(in, limits);
        char *slash = strrchr(in->group, '/');
        if (!slash || strlen(in->group) <= strlen(in->mount))
            return;
        *slash = '\0';
    }
}

void cgroup_read(const char *proc_self, const char *root, struct cgroup_limits *out)
{
    *out = (struct cgroup_limits){.memory_bytes = SIZE_MAX, .memory_free_bytes = SIZE_MAX};
    char cgroups[4096], mounts[64 * 1024];
    if (!read_group_file(proc_self, "cgroup", cgroups, sizeof cgroups) ||
        !read_group_file(proc_self, "mountinfo", mounts, sizeof mounts))
        return;
    /* With version 1 a controller is in one of the two hierarchies only, so asking both is safe. */
    struct hierarchy found;
    if (find_hierarchy(cgroups, mounts, root, "memory", &found)) {
        out->version = 1;
        walk_up(&found, out, limit_memory);
    }
    if (find_hierarchy(cgroups, mounts, root, "cpu", &found)) {
        out->version = 1;
        walk_up(&found, out, limit_cpu);
    }
    if (find_hierarchy(cgroups, mounts, root, NULL, &found)) {
        if (out->version == 0)
            out->version = 2;
        walk_up(&found, out, limit_memory);
        if (find_hierarchy(cgroups, mounts, root, NULL, &found))
            walk_up(&found, out, limit_cpu);
    }
}
