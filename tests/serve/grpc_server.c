/* A gRPC door with a fake core behind it, for clients in other languages: prints its port, serves
 * until its standard input ends; an n there makes it not ready, a y ready again. Arguments: delay=SECONDS, token=TEXT, limit=N, threads=N, message=BYTES,
 * certificate=FILE, key=FILE, client-ca=FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "support/fake_core.h"

static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                           : NULL;
}

static char *read_text(const char *path)
{
    char *text;
    size_t bytes;
    struct error err;
    if (file_read(path, 1 << 20, &text, &bytes, &err) == 0)
        return text;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static void take(const char *argument, struct fake_core *core, struct door_options *options)
{
    const char *value;
    if ((value = value_of(argument, "delay")))
        fake_core_set_delay(core, strtod(value, NULL));
    else if ((value = value_of(argument, "token")))
        fake_core_set_token(core, value);
    else if ((value = value_of(argument, "limit")))
        fake_core_set_limit(core, (int)strtol(value, NULL, 10));
    else if ((value = value_of(argument, "threads")))
        options->threads = (int)strtol(value, NULL, 10);
    else if ((value = value_of(argument, "message")))
        options->message_limit = (size_t)strtoll(value, NULL, 10);
    else if ((value = value_of(argument, "certificate")))
        options->tls.certificate = read_text(value);
    else if ((value = value_of(argument, "key")))
        options->tls.key = read_text(value);
    else if ((value = value_of(argument, "client-ca")))
        options->tls.client_ca = read_text(value);
}

static void print_line(void *context, enum log_level level, const char *line)
{
    (void)context, (void)level;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    struct fake_core *core = fake_core_create();
    struct door_options options = {.address = {.host = "127.0.0.1", .loopback = true},
                                   .message_limit = 64 << 20};
    struct grpc_door *door;
    struct error err = {0};
    char byte;
    log_set_sink(print_line, NULL);
    for (int i = 1; i < argc; i++)
        take(argv[i], core, &options);
    struct grpc_backend backend = fake_core_backend(core);
    if (grpc_door_open(&backend, &options, &door, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%d\n", grpc_door_port(door));
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        if (byte == 'n' || byte == 'y')
            fake_core_set_ready(core, byte == 'y');
    grpc_door_drain(door, 5);
    grpc_door_stop(door);
    fake_core_destroy(core);
    return 0;
}
