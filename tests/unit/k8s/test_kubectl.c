#include "support/test.h"

#include <signal.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "k8s/kubectl.h"

/* A script that stands in for kubectl. */
static const char *script(const char *name, const char *text)
{
    const char *path = test_file(name, text, strlen(text));
    chmod(path, 0700);
    return path;
}

static void take(void *context, const char *bytes, size_t count)
{
    strbuf_add_bytes(context, bytes, count);
}

static const char *const no_words[] = {NULL};

TEST(kubectl, gets_its_words_as_they_are_and_its_status_comes_back)
{
    const char *program =
        script("words", "#!/bin/sh\nfor word; do echo \"[$word]\"; done\nexit 3\n");
    struct strbuf out;
    struct error err = {0};
    int status = 0;
    strbuf_init(&out);
    ASSERT_OK(kubectl_run(&(struct kubectl_call){.program = program,
                                                 .words = (const char *const[]){"get", "a b",
                                                                                "$HOME", "", NULL},
                                                 .output = take,
                                                 .output_context = &out},
                          &status, &err),
              err);
    ASSERT_TEXT(out.text, "[get]\n[a b]\n[$HOME]\n[]\n");
    ASSERT_INT(status, ==, 3);
    strbuf_release(&out);
}

TEST(kubectl, large_inputs_and_outputs_pass_each_other)
{
    enum { BYTES = 1 << 20 };
    const char *program = script("echo", "#!/bin/sh\necho problem >&2\nexec cat\n");
    struct strbuf out, errors;
    struct error err = {0};
    int status = -1;
    char *input = memory_allocate(BYTES + 1);
    memset(input, 'x', BYTES);
    strbuf_init(&out);
    strbuf_init(&errors);
    ASSERT_OK(kubectl_run(&(struct kubectl_call){.program = program,
                                                 .words = no_words,
                                                 .input = input,
                                                 .output = take,
                                                 .output_context = &out,
                                                 .errors = take,
                                                 .errors_context = &errors},
                          &status, &err),
              err);
    ASSERT_INT(status, ==, 0);
    ASSERT_INT(out.length, ==, BYTES);
    ASSERT_BYTES(out.text, input, BYTES);
    ASSERT_TEXT(errors.text, "problem\n");
    memory_free(input);
    strbuf_release(&out);
    strbuf_release(&errors);
}

TEST(kubectl, one_that_does_not_listen_or_is_killed_harms_nobody)
{
    enum { BYTES = 1 << 20 };
    const char *deaf = script("deaf", "#!/bin/sh\nexec <&-\nexit 0\n");
    const char *killed = script("killed", "#!/bin/sh\nkill -KILL $$\n");
    struct error err = {0};
    int status = -1;
    char *input = memory_allocate(BYTES + 1);
    memset(input, 'x', BYTES);
    ASSERT_OK(
        kubectl_run(&(struct kubectl_call){.program = deaf, .words = no_words, .input = input},
                    &status, &err),
        err);
    ASSERT_INT(status, ==, 0);
    ASSERT_OK(
        kubectl_run(&(struct kubectl_call){.program = killed, .words = no_words}, &status, &err),
        err);
    ASSERT_INT(status, ==, 128 + SIGKILL);
    memory_free(input);
}

TEST(kubectl, that_is_missing_is_named)
{
    struct error err = {0};
    int status;
    ASSERT_FAILS(
        kubectl_run(&(struct kubectl_call){.program = "/nowhere/kubectl", .words = no_words},
                    &status, &err),
        err, ERROR_IO, "/nowhere/kubectl cannot be started");
}
