/* What the control groups of this process allow (versions 1 and 2): a container's limits, which
 * the machine's own totals do not show. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stddef.h>

struct cgroup_limits {
    int version;              /* 0: none found */
    size_t memory_bytes;      /* SIZE_MAX: no limit */
    size_t memory_free_bytes; /* of the tightest group; page cache it can drop counts as free */
    double cpu_cores;         /* of the CPU quota; 0: none */
};

/* Looks at this process's groups and all above them, the tightest limit wins. `proc_self` is
 * "/proc/self" and `root` "" except in tests, which bring a tree of their own. What cannot be
 * read limits nothing. */
void cgroup_read(const char *proc_self, const char *root, struct cgroup_limits *out);

#endif
