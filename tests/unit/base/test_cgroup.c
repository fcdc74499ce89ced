/* Trees as containers of either version see them, below the test's own directory. */
#include "support/test.h"

#include "base/cgroup.h"
#include "base/files.h"

static const char *tree;

static void start(const char *name)
{
    struct error err = {0};
    tree = test_path("%s", name);
    ASSERT_OK(directory_make(tree, &err), err);
}

static void put(const char *path, const char *text)
{
    struct error err = {0};
    char full[512];
    snprintf(full, sizeof full, "%s/%s", tree, path);
    char *slash = strrchr(full, '/');
    *slash = '\0';
    ASSERT_OK(directory_make(full, &err), err);
    *slash = '/';
    ASSERT_OK(file_write_atomic(full, text, strlen(text), &err), err);
}

static struct cgroup_limits look(void)
{
    struct cgroup_limits limits;
    char proc[512];
    snprintf(proc, sizeof proc, "%s/proc", tree);
    cgroup_read(proc, tree, &limits);
    return limits;
}

TEST(cgroup, version_2_takes_the_tightest_of_all_levels)
{
    start("v2");
    put("proc/cgroup", "0::/pods/mine\n");
    put("proc/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    put("sys/fs/cgroup/pods/memory.max", "1000000\n");
    put("sys/fs/cgroup/pods/memory.current", "100000\n");
    put("sys/fs/cgroup/pods/cpu.max", "400000 100000\n");
    put("sys/fs/cgroup/pods/mine/memory.max", "max\n");
    put("sys/fs/cgroup/pods/mine/cpu.max", "150000 100000\n");
    struct cgroup_limits limits = look();
    ASSERT_INT(limits.version, ==, 2);
    ASSERT_INT(limits.memory_bytes, ==, 1000000);
    ASSERT_INT(limits.memory_free_bytes, ==, 900000);
    ASSERT_NUMBER(limits.cpu_cores, ==, 1.5);
}

TEST(cgroup, counts_droppable_page_cache_as_free)
{
    start("cache");
    put("proc/cgroup", "0::/\n");
    put("proc/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/memory.max", "1000\n");
    put("sys/fs/cgroup/memory.current", "800\n");
    put("sys/fs/cgroup/memory.stat", "anon 300\nactive_file 50\ninactive_file 450\n");
    ASSERT_INT(look().memory_free_bytes, ==, 650);
}

TEST(cgroup, version_1_finds_each_controller_where_it_is_mounted)
{
    start("v1");
    put("proc/cgroup", "5:memory:/job\n4:cpu,cpuacct:/other\n0::/\n");
    put("proc/mountinfo", "1 2 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n"
                          "3 2 0:2 / /cg/cpu rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n");
    put("cg/memory/job/memory.limit_in_bytes", "5000\n");
    put("cg/memory/job/memory.usage_in_bytes", "1000\n");
    put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cg/cpu/other/cpu.cfs_quota_us", "50000\n");
    put("cg/cpu/other/cpu.cfs_period_us", "100000\n");
    put("cg/cpu/cpu.cfs_quota_us", "-1\n");
    struct cgroup_limits limits = look();
    ASSERT_INT(limits.version, ==, 1);
    ASSERT_INT(limits.memory_bytes, ==, 5000);
    ASSERT_INT(limits.memory_free_bytes, ==, 4000);
    ASSERT_NUMBER(limits.cpu_cores, ==, 0.5);
}

TEST(cgroup, sees_its_part_of_the_tree_from_inside_a_container)
{
    start("part");
    put("proc/cgroup", "0::/docker/abc/inner\n");
    put("proc/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/inner/memory.max", "700\n");
    ASSERT_INT(look().memory_bytes, ==, 700);
    /* A path from outside the namespace does not exist in here: the mount itself is our group. */
    put("proc/cgroup", "0::/docker/other\n");
    put("sys/fs/cgroup/memory.max", "800\n");
    ASSERT_INT(look().memory_bytes, ==, 800);
}

TEST(cgroup, limits_nothing_where_there_is_none)
{
    start("none");
    struct cgroup_limits limits = look();
    ASSERT_INT(limits.version, ==, 0);
    ASSERT_TRUE(limits.memory_bytes == SIZE_MAX);
    ASSERT_NUMBER(limits.cpu_cores, ==, 0);
}
