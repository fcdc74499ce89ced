#include "launch/cluster.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"

static int parse_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits])
        return -1;
    long port = strtol(text, NULL, 10);
    return port >= 1 && port <= 65535 ? (int)port : -1;
}

int cluster_parse_address(const char *text, const char *what, struct cluster_member *out,
                          struct error *err)
{
    const char *colon = strrchr(text, ':');
    int port = colon ? parse_port(colon + 1) : -1;
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    } else if (length && memchr(text, ':', length)) {
        length = 0; /* an address of IPv6 needs brackets */
    }
    if (port < 0 || length == 0 || length >= sizeof out->host ||
        strcspn(text, " \t\r\n,/") < length)
        return error_set(err, ERROR_USAGE,
                         "%s: '%s' is no HOST:PORT, as 10.0.0.7:5000, tf-worker-0:5000 or "
                         "[fd00::7]:5000",
                         what, text);
    memcpy(out->host, text, length);
    out->host[length] = '\0';
    out->port = port;
    return 0;
}

/* --- putting together ---------------------------------------------------------------------------------- */

void cluster_release(struct cluster *cluster)
{
    memory_free(cluster->members);
    *cluster = (struct cluster){0};
}

static int add(struct cluster *cluster, const char *address, const char *type, int number,
               const char *what, struct error *err)
{
    if (cluster->count == CLUSTER_MOST_MEMBERS)
        return error_set(err, ERROR_USAGE, "%s names more than %d members", what,
                         CLUSTER_MOST_MEMBERS);
    struct cluster_member *members =
        memory_resize(cluster->members, (size_t)(cluster->count + 1) * sizeof *members);
    if (!members)
        return error_set(err, ERROR_MEMORY, "no memory for a list of members");
    cluster->members = members;
    struct cluster_member *member = &members[cluster->count];
    if (cluster_parse_address(address, what, member, err) < 0)
        return -1;
    snprintf(member->task, sizeof member->task, "%s %d", type, number);
    for (int i = 0; i < cluster->count; i++)
        if (members[i].port == member->port && !strcmp(members[i].host, member->host))
            return error_set(err, ERROR_USAGE, "%s names %s for %s and for %s", what, address,
                             members[i].task, member->task);
    cluster->count++;
    return 0;
}

/* FNV-1a: tells lists apart that were written differently; nobody has a reason to forge one. */
static void take_fingerprint(struct cluster *cluster)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < cluster->count; i++) {
        char line[CLUSTER_HOST_BYTES + 40];
        int length = snprintf(line, sizeof line, "%s:%d %s\n", cluster->members[i].host,
                              cluster->members[i].port, cluster->members[i].task);
        for (int at = 0; at < length; at++)
            hash = (hash ^ (unsigned char)line[at]) * 0x100000001b3;
    }
    snprintf(cluster->fingerprint, sizeof cluster->fingerprint, "%016" PRIx64, hash);
}

/* --- TF_CONFIG ----------------------------------------------------------------------------------------- */

static const char *const known_types[] = {"chief", "master", "worker", "ps", "evaluator"};

static bool is_known(const char *type)
{
    for (size_t i = 0; i < sizeof known_types / sizeof *known_types; i++)
        if (!strcmp(type, known_types[i]))
            return true;
    return false;
}

static int add_type(struct cluster *cluster, const struct json *types, const char *type,
                    struct error *err)
{
    const struct json *list = json_get(types, type);
    int count = list ? json_count(list) : 0;
    for (int i = 0; i < count; i++) {
        const char *address = json_as_text(json_at(list, i), NULL);
        if (!address)
            return error_set(err, ERROR_USAGE,
                             "TF_CONFIG: %s %d of the cluster has no \"HOST:PORT\"", type, i);
        if (add(cluster, address, type, i, "TF_CONFIG", err) < 0)
            return -1;
    }
    return count;
}

static int read_members(struct cluster *cluster, const struct json *types, struct error *err)
{
    void *state = NULL;
    const char *type;
    while (json_next(types, &state, &type))
        if (!is_known(type))
            return error_set(err, ERROR_USAGE,
                             "TF_CONFIG: no task is called %s; there are chief, worker, evaluator "
                             "and ps",
                             type);
    if (json_get(types, "ps") && json_count(json_get(types, "ps")) > 0)
        return error_set(err, ERROR_USAGE,
                         "TF_CONFIG names parameter servers (ps), but here workers add their "
                         "gradients themselves: leave them out");
    int chiefs = add_type(cluster, types, "chief", err);
    int masters = chiefs < 0 ? -1 : add_type(cluster, types, "master", err);
    if (masters < 0)
        return -1;
    if (chiefs + masters > 1)
        return error_set(err, ERROR_USAGE, "TF_CONFIG names %d chiefs; there can be one",
                         chiefs + masters);
    return add_type(cluster, types, "worker", err) < 0 ? -1 : 0;
}

static int find_self(struct cluster *cluster, const struct json *task, struct error *err)
{
    const char *type = task ? json_get_text(task, "type", NULL) : NULL;
    const char *digits = task ? json_get_text(task, "index", NULL) : NULL;
    int64_t index = digits ? strtoll(digits, NULL, 10)
                    : task ? json_get_integer(task, "index", -1)
                           : -1;
    char name[40];
    if (!type || index < 0)
        return error_set(err, ERROR_USAGE,
                         "TF_CONFIG names %d members, but not which of them this is: "
                         "\"task\": {\"type\": \"worker\", \"index\": 0}",
                         cluster->count);
    if (!strcmp(type, "evaluator")) {
        cluster->role = CLUSTER_EVALUATES;
        cluster->index = -1;
        return 0;
    }
    snprintf(name, sizeof name, "%s %" PRId64, type, index);
    for (int i = 0; i < cluster->count; i++)
        if (!strcmp(cluster->members[i].task, name)) {
            cluster->index = i;
            return 0;
        }
    return error_set(err, ERROR_USAGE, "TF_CONFIG says that this is %s, whom its cluster lacks",
                     name);
}

int cluster_from_tf_config(const char *text, struct cluster *out, struct error *err)
{
    struct json *config = NULL;
    struct cluster cluster = {0};
    if (json_parse(text, strlen(text), &config, err) < 0) {
        if (err)
            err->code = ERROR_USAGE;
        return error_wrap(err, "TF_CONFIG");
    }
    const struct json *types = json_get(config, "cluster");
    int status = types ? read_members(&cluster, types, err) : 0;
    if (status == 0 && cluster.count > 0)
        status = find_self(&cluster, json_get(config, "task"), err);
    json_release(config);
    if (status < 0) {
        cluster_release(&cluster);
        return -1;
    }
    take_fingerprint(&cluster);
    *out = cluster;
    return 0;
}

/* --- --peers -------------------------------------------------------------------------------------------- */

static int read_peers(struct cluster *cluster, const char *peers, struct error *err)
{
    char address[CLUSTER_HOST_BYTES + 16];
    for (const char *at = peers; *at;) {
        size_t length = strcspn(at, ",");
        snprintf(address, sizeof address, "%.*s", (int)length, at);
        if (add(cluster, address, "member", cluster->count, "--peers", err) < 0)
            return -1;
        at += length + (at[length] == ',');
    }
    return cluster->count ? 0 : error_set(err, ERROR_USAGE, "--peers names nobody");
}

int cluster_from_peers(const char *peers, int index, struct cluster *out, struct error *err)
{
    struct cluster cluster = {.index = index};
    int status = read_peers(&cluster, peers, err);
    if (status == 0 && (index < 0 || index >= cluster.count))
        status =
            error_set(err, ERROR_USAGE, "--index=%d: --peers names %d members, so it is 0 to %d",
                      index, cluster.count, cluster.count - 1);
    if (status < 0) {
        cluster_release(&cluster);
        return -1;
    }
    take_fingerprint(&cluster);
    *out = cluster;
    return 0;
}

/* --- questions -------------------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (!strcmp(host, "localhost"))
        return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool cluster_is_loopback(const struct cluster *cluster)
{
    for (int i = 0; i < cluster->count; i++)
        if (!is_loopback(cluster->members[i].host))
            return false;
    return true;
}

const char *cluster_name(const struct cluster *cluster, int index)
{
    static _Thread_local char text[CLUSTER_HOST_BYTES + 48];
    const struct cluster_member *member = &cluster->members[index];
    snprintf(text, sizeof text, strchr(member->host, ':') ? "%s ([%s]:%d)" : "%s (%s:%d)",
             member->task, member->host, member->port);
    return text;
}
