/* A training of several members without mpirun: TF_CONFIG or --peers say who they are, and each of
 * them runs the same command. This process then is not a rank: it is the member's agent, and the
 * first member's also leads (launch/); they start mpirun, whose ranks run the same command again. */
#ifndef CLI_MEMBERS_H
#define CLI_MEMBERS_H

#include "cli/options.h"

struct error;
struct training_settings;

struct members_settings {
    const char *peers, *secret_file;
    int index, min_ranks;
    bool insecure;
    double start_timeout, peer_timeout;
};

#define MEMBERS_SECRET_OPTIONS(settings, field)                                                    \
    OPTION_TEXT(settings, field secret_file, "secret-file", .value = "FILE",                       \
                .environment = "LOCKSTEP_SECRET_FILE",                                             \
                .initial_note =                                                                    \
                    "the MPI Operator's key pair; on one machine a file of the user's",            \
                .help = "what all members know and nobody else: a file, or a directory that has "  \
                        "one called secret, id_rsa or ssh-privatekey"),                            \
        OPTION_FLAG(settings, field insecure, "insecure", .environment = "LOCKSTEP_INSECURE",      \
                    .help = "no secret: whoever reaches a member's port may run programs there")

#define MEMBERS_OPTIONS(settings)                                                                  \
    OPTION_TEXT(settings, members.peers, "peers", .value = "HOST:PORT,...",                        \
                .initial_note = "those of TF_CONFIG",                                              \
                .help = "the members that train together; the first leads"),                       \
        OPTION_INT(settings, members.index, "index", .min = 0, .max = 1023, .value = "N",          \
                   .help = "which of --peers this is, from 0"),                                    \
        MEMBERS_SECRET_OPTIONS(settings, members.),                                                \
        OPTION_SECONDS(settings, members.start_timeout, "start-timeout", OPTION_AT_LEAST(1),       \
                       .initial = "10m", .help = "give up when members are missing for so long"),  \
        OPTION_SECONDS(settings, members.peer_timeout, "peer-timeout", .min = 1, .max = 3600,      \
                       .initial = "10",                                                            \
                       .help = "a member or rank that is silent for so long is "                   \
                               "lost"),                                                            \
        OPTION_INT(settings, members.min_ranks, "min-ranks", .min = 0, .max = 1024,                \
                   .initial = "0", .initial_note = "all", .value = "N",                            \
                   .help = "go on with so many members while others are missing; they are taken "  \
                           "back when they come")

/* True when this process is a member (not a rank of one, and not alone): it has done the member's
 * part, and *status is an exit status, or -1 with `err` filled. Otherwise *status is left alone. */
bool members_take_over(const struct options *options, const struct training_settings *settings,
                       int *status, struct error *err);

/* This program's path, for others to start it again. */
int members_program(char *path, size_t bytes, struct error *err);

#endif
