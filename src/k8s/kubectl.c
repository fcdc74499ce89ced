#include "k8s/kubectl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

extern char **environ;

/* Our ends and kubectl's ends; -1 where there is none. */
struct channels {
    int input[2], output[2], errors[2]; /* [0] ours, [1] kubectl's */
};

static void close_one(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

static void close_all(struct channels *channels)
{
    for (int i = 0; i < 2; i++) {
        close_one(&channels->input[i]);
        close_one(&channels->output[i]);
        close_one(&channels->errors[i]);
    }
}

/* A socket, because a write to a pipe that kubectl has closed would end us by a signal. */
static int open_channels(const struct kubectl_call *call, struct channels *out, struct error *err)
{
    *out = (struct channels){{-1, -1}, {-1, -1}, {-1, -1}};
    int status = 0;
    if (call->input)
        status |= socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out->input);
    if (call->output)
        status |= pipe2(out->output, O_CLOEXEC);
    if (call->errors)
        status |= pipe2(out->errors, O_CLOEXEC);
    if (status == 0)
        return 0;
    error_set(err, ERROR_IO, "kubectl: %s", strerror(errno));
    close_all(out);
    return -1;
}

static char **make_words(const struct kubectl_call *call)
{
    int count = 0;
    while (call->words[count])
        count++;
    char **words = memory_allocate(sizeof *words * (size_t)(count + 2));
    if (!words)
        return NULL;
    words[0] = (char *)(uintptr_t)(call->program ? call->program : "kubectl");
    for (int i = 0; i < count; i++)
        words[i + 1] = (char *)(uintptr_t)call->words[i];
    return words;
}

static int start(const struct kubectl_call *call, struct channels *channels, pid_t *pid,
                 struct error *err)
{
    posix_spawn_file_actions_t actions;
    char **words = make_words(call);
    if (!words || posix_spawn_file_actions_init(&actions) != 0) {
        memory_free(words);
        return error_set(err, ERROR_MEMORY, "no memory to start kubectl");
    }
    if (call->input)
        posix_spawn_file_actions_adddup2(&actions, channels->input[1], STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (call->output)
        posix_spawn_file_actions_adddup2(&actions, channels->output[1], STDOUT_FILENO);
    if (call->errors)
        posix_spawn_file_actions_adddup2(&actions, channels->errors[1], STDERR_FILENO);
    int code = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = code == 0 ? 0
                           : error_set(err, ERROR_IO,
                                       "%s cannot be started: %s; it is needed to talk "
                                       "to a cluster (or set KUBECTL)",
                                       words[0], strerror(code));
    memory_free(words);
    return status;
}

/* Sends what can be sent now; closes the channel when all is sent or nobody listens. */
static void send_some(int *descriptor, const char **input)
{
    ssize_t sent = send(*descriptor, *input, strlen(*input), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        *input += sent;
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        *input = "";
    if (!**input)
        close_one(descriptor);
}

static void receive_some(int *descriptor, kubectl_sink *sink, void *context)
{
    char bytes[16384];
    ssize_t got = read(*descriptor, bytes, sizeof bytes);
    if (got > 0)
        sink(context, bytes, (size_t)got);
    else if (got == 0 || errno != EINTR)
        close_one(descriptor);
}

static void talk(const struct kubectl_call *call, struct channels *channels)
{
    const char *input = call->input;
    if (input && !*input)
        close_one(&channels->input[0]);
    while (channels->input[0] >= 0 || channels->output[0] >= 0 || channels->errors[0] >= 0) {
        struct pollfd polled[] = {{channels->input[0], POLLOUT, 0},
                                  {channels->output[0], POLLIN, 0},
                                  {channels->errors[0], POLLIN, 0}};
        if (poll(polled, 3, -1) < 0 && errno != EINTR)
            return;
        if (polled[0].revents)
            send_some(&channels->input[0], &input);
        if (polled[1].revents)
            receive_some(&channels->output[0], call->output, call->output_context);
        if (polled[2].revents)
            receive_some(&channels->errors[0], call->errors, call->errors_context);
    }
}

int kubectl_run(const struct kubectl_call *call, int *status, struct error *err)
{
    struct channels channels;
    pid_t pid;
    if (open_channels(call, &channels, err) < 0)
        return -1;
    int started = start(call, &channels, &pid, err);
    close_one(&channels.input[1]);
    close_one(&channels.output[1]);
    close_one(&channels.errors[1]);
    if (started == 0)
        talk(call, &channels);
    close_all(&channels);
    int code = 0;
    while (started == 0 && waitpid(pid, &code, 0) < 0 && errno == EINTR)
        ;
    if (started == 0)
        *status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    return started;
}
