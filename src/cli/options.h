/* One table per command says everything about its options: parsing, --help, the manual page,
 * shell completion, environment variables and the message for a misspelt name all come from it.
 *
 *     struct train_settings { const char *model; int batch; bool fresh; };
 *
 *     static const struct option options[] = {
 *         OPTION_ARGUMENT(train_settings, model, "MODEL", .required = true, .aliases = "model",
 *                         .help = "network to train"),
 *         OPTION_SECTION("Training"),
 *         OPTION_INT(train_settings, batch, "batch-size", .letter = 'b', .initial = "32",
 *                    OPTION_AT_LEAST(1), .environment = "BATCH_SIZE", .aliases = "batch",
 *                    .help = "examples per rank and step"),
 *         OPTION_FLAG(train_settings, fresh, "fresh", .help = "start over"),
 *         OPTION_REFUSED("use-fp16", .accepts = "false",
 *                        .help = "computes in float32 only"),
 *         OPTION_END
 *     };
 *
 * On the command line - and _ in a name are the same, "--name value" and "--name=value" too; a
 * flag also takes "--no-name" and "--name=false"; behind "--" stand arguments and "name=value". What
 * is given last wins, but a list gets longer. A flag beats the environment, which beats a recipe, which beats the table's
 * initial value. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct nearest;

enum { OPTIONS_MAX = 160 }; /* rows in one table */

enum { OPTION_LIST_MAX = 64 };
struct option_list {
    const char *items[OPTION_LIST_MAX]; /* as OPTION_IS_TEXT's */
    int count;
};

enum option_type {
    OPTION_IS_END,
    OPTION_IS_SECTION,  /* a heading of the help page */
    OPTION_IS_FLAG,     /* bool */
    OPTION_IS_INT,      /* int */
    OPTION_IS_LONG,     /* int64_t */
    OPTION_IS_NUMBER,   /* double */
    OPTION_IS_TEXT,     /* const char *, pointing into the arguments or the environment */
    OPTION_IS_LIST,     /* struct option_list: may be given several times, all of them count */
    OPTION_IS_CHOICE,   /* const char *, as `choices` or `choice_at` spell it */
    OPTION_IS_BYTES,    /* size_t; "4M" is 4 times 1024 squared */
    OPTION_IS_SECONDS,  /* double; "90", "500ms", "15m", "2h", "1d" */
    OPTION_IS_ARGUMENT, /* const char *: a word without a name, in the table's order */
    OPTION_IS_REFUSED,  /* known from other programs, not done here; `help` says why */
};

struct option {
    enum option_type type;
    const char *name;           /* of a section: its heading */
    char letter;                /* -x; 0: none */
    size_t offset;              /* of the field in the command's settings */
    const char *value;          /* what help calls the value; NULL: by type. A refused option
                                 * without it is a flag */
    const char *initial;        /* value unless given, read like one that is given; NULL: zero */
    const char *initial_note;   /* what help shows instead: "all cores" */
    double min, max;            /* inclusive; min < max, else there is no range */
    const char *const *choices; /* NULL-terminated, or... */
    const char *(*choice_at)(int index); /* ...NULL behind the last */
    bool open;               /* beside the choices a path (with . or / in it) is fine too */
    bool required;           /* of an argument */
    const char *aliases;     /* other names, separated by blanks */
    const char *environment; /* variables, separated by blanks; the first that is set counts */
    const char *accepts;     /* of a refused option: values that ask for what is done anyway */
    const char *help;        /* of a refused option: the reason */
};

/* The field's offset; does not compile when the field has another type than the option needs. */
#define OPTION_FIELD(settings, field, ctype)                                                       \
    offsetof(struct settings, field) +                                                             \
        0 * sizeof(char[_Generic(&((struct settings *)0)->field, ctype * : 1)])
#define OPTION_ROW(kind, settings, field, ctype, spelling, ...)                                    \
    {                                                                                              \
        .type = kind, .offset = OPTION_FIELD(settings, field, ctype), .name = spelling,            \
        __VA_ARGS__                                                                                \
    }

#define OPTION_FLAG(settings, field, ...)                                                          \
    OPTION_ROW(OPTION_IS_FLAG, settings, field, bool, __VA_ARGS__)
#define OPTION_INT(settings, field, ...)                                                           \
    OPTION_ROW(OPTION_IS_INT, settings, field, int, __VA_ARGS__)
#define OPTION_LONG(settings, field, ...)                                                          \
    OPTION_ROW(OPTION_IS_LONG, settings, field, int64_t, __VA_ARGS__)
#define OPTION_NUMBER(settings, field, ...)                                                        \
    OPTION_ROW(OPTION_IS_NUMBER, settings, field, double, __VA_ARGS__)
#define OPTION_TEXT(settings, field, ...)                                                          \
    OPTION_ROW(OPTION_IS_TEXT, settings, field, const char *, __VA_ARGS__)
#define OPTION_LIST(settings, field, ...)                                                          \
    OPTION_ROW(OPTION_IS_LIST, settings, field, struct option_list, __VA_ARGS__)
#define OPTION_CHOICE(settings, field, ...)                                                        \
    OPTION_ROW(OPTION_IS_CHOICE, settings, field, const char *, __VA_ARGS__)
#define OPTION_BYTES(settings, field, ...)                                                         \
    OPTION_ROW(OPTION_IS_BYTES, settings, field, size_t, __VA_ARGS__)
#define OPTION_SECONDS(settings, field, ...)                                                       \
    OPTION_ROW(OPTION_IS_SECONDS, settings, field, double, __VA_ARGS__)
#define OPTION_ARGUMENT(settings, field, ...)                                                      \
    OPTION_ROW(OPTION_IS_ARGUMENT, settings, field, const char *, __VA_ARGS__)
#define OPTION_REFUSED(spelling, ...)                                                              \
    {                                                                                              \
        .type = OPTION_IS_REFUSED, .name = spelling, __VA_ARGS__                                   \
    }
#define OPTION_SECTION(heading)                                                                    \
    {                                                                                              \
        .type = OPTION_IS_SECTION, .name = heading                                                 \
    }
#define OPTION_END                                                                                 \
    {                                                                                              \
        .type = OPTION_IS_END                                                                      \
    }
#define OPTION_AT_LEAST(low) .min = (low), .max = INFINITY

enum option_source {
    OPTION_FROM_NOTHING,
    OPTION_FROM_TABLE, /* its initial value */
    OPTION_FROM_RECIPE,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_ARGUMENTS,
};

/* One command line, read. Borrows the table, the settings, the arguments and the environment. */
struct options {
    const struct option *table;
    void *settings;
    bool help;                          /* --help or -h was given; nothing was checked then */
    unsigned char sources[OPTIONS_MAX]; /* by row: enum option_source */
};

/* `argv` has the words behind the command's name. `environment` looks a variable up (getenv, or
 * a test's own). Fails with ERROR_USAGE, naming option and value. */
int options_parse(const struct option *table, int argc, char *const *argv,
                  char *(*environment)(const char *name), void *settings, struct options *out,
                  struct error *err);

/* Sets what `recipe` ("--optimizer=adam --lr=1e-3") names and the user did not. The words are
 * copied into `memory`, which must live as long as the settings. */
struct arena;
int options_apply_recipe(struct options *options, const char *recipe, struct arena *memory,
                         struct error *err);

/* Where an option's value came from; `name` must be in the table. */
enum option_source options_source(const struct options *options, const char *name);

/* The parts below are for the pages made from a table, and for tests. */

/* The row of this name or alias (- and _ alike), or NULL. */
const struct option *option_find(const struct option *table, const char *name, size_t length);
bool option_takes_value(const struct option *option);
const char *option_value_name(const struct option *option);        /* "N", "FILE", ... */
const char *option_choice(const struct option *option, int index); /* NULL behind the last */
/* The next blank-separated word of a list; *list moves behind it. Its length, 0 at the end. */
size_t option_next_word(const char **list, const char **word);

/* Reads `text` into the option's field, checking range and choices. `where` is how the user wrote
 * it: "--batch-size". */
int option_set(const struct option *option, const char *where, const char *text, void *settings,
               struct error *err);
/* The other way: appends the field's value as option_set would read it; nothing for a NULL text. */
struct strbuf;
void option_text(const struct option *option, const void *settings, struct strbuf *out);

#endif
