/* What mpirun wants ssh to run on another host is a line for a shell. There is no shell here: the
 * line is taken apart, and what is not one plain command is refused. */
#ifndef LAUNCH_WORDS_H
#define LAUNCH_WORDS_H

struct arena;
struct error;

enum { WORDS_MOST = 4096 };

/* The command of the line, NULL-terminated, in the arena. Quotes are understood. Settings before it
 * ("PATH=/opt/bin:$PATH ; export PATH ;", which mpirun adds when it was called by its whole path)
 * are passed over: the agent knows better where its own programs are. Anything else that means
 * something to a shell (variables, pipes, redirections, several commands) is refused. */
int words_parse(struct arena *arena, const char *line, char ***out, struct error *err);

/* ssh's words: options, [USER@]HOST, and the command, which ssh joins with blanks into a line. Options
 * that only concern ssh are passed over; -p sets the port; a user, by -l or before the host, is refused
 * unless it is this one. */
struct words_ssh {
    const char *host;
    int port; /* 0: not told */
    char *line;
};
int words_parse_ssh(struct arena *arena, int count, char *const *words, struct words_ssh *out,
                    struct error *err);

#endif
