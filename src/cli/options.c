#include "cli/options.h"

#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/nearest.h"

enum { NAME_MAX_LETTERS = 64 };

size_t option_next_word(const char **list, const char **word)
{
    *word = *list + strspn(*list, " ");
    size_t length = strcspn(*word, " ");
    *list = *word + length;
    return length;
}

/* - and _ are the same. */
static bool same_letters(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char x = a[i] == '_' ? '-' : a[i], y = b[i] == '_' ? '-' : b[i];
        if (x != y)
            return false;
    }
    return true;
}

static bool row_is_named(const struct option *row, const char *name, size_t length)
{
    if (row->type == OPTION_IS_SECTION)
        return false;
    if (row->type != OPTION_IS_ARGUMENT && strlen(row->name) == length &&
        same_letters(row->name, name, length))
        return true;
    const char *list = row->aliases, *word;
    for (size_t letters; list && (letters = option_next_word(&list, &word)) > 0;)
        if (letters == length && same_letters(word, name, length))
            return true;
    return false;
}

const struct option *option_find(const struct option *table, const char *name, size_t length)
{
    for (; table->type != OPTION_IS_END; table++)
        if (row_is_named(table, name, length))
            return table;
    return NULL;
}

bool option_takes_value(const struct option *option)
{
    return option->type != OPTION_IS_FLAG &&
           (option->type != OPTION_IS_REFUSED || option->value != NULL);
}

const char *option_value_name(const struct option *option)
{
    if (option->value)
        return option->value;
    switch (option->type) {
    case OPTION_IS_INT:
    case OPTION_IS_LONG:
        return "N";
    case OPTION_IS_NUMBER:
        return "X";
    case OPTION_IS_BYTES:
        return "SIZE";
    case OPTION_IS_SECONDS:
        return "TIME";
    case OPTION_IS_CHOICE:
        return "NAME";
    case OPTION_IS_ARGUMENT:
        return option->name;
    default:
        return "TEXT";
    }
}

/* The words of one command line while they are read. */
struct reader {
    int argc, at;
    char *const *argv;
    enum option_source source; /* what this reading counts as */
    struct options *out;
    struct error *err;
};

static int set(struct reader *in, const struct option *row, const char *where, const char *text)
{
    unsigned char *source = &in->out->sources[row - in->out->table];
    if (*source > in->source)
        return 0; /* a recipe does not overrule the user */
    if (option_set(row, where, text, in->out->settings, in->err) < 0)
        return -1;
    *source = (unsigned char)in->source;
    return 0;
}

static void offer_words(struct nearest *nearest, const char *list, char (*kept)[NAME_MAX_LETTERS])
{
    const char *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;) {
        char name[NAME_MAX_LETTERS];
        const char *before = nearest->best;
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        nearest_offer(nearest, name);
        if (nearest->best != before) {
            memcpy(*kept, name, sizeof name);
            nearest->best = *kept;
        }
    }
}

static int unknown_option(struct reader *in, const char *name, size_t length)
{
    char word[NAME_MAX_LETTERS], kept[NAME_MAX_LETTERS];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    struct nearest nearest;
    nearest_start(&nearest, word);
    nearest_offer(&nearest, "help");
    for (const struct option *row = in->out->table; row->type != OPTION_IS_END; row++) {
        if (row->type == OPTION_IS_SECTION)
            continue;
        if (row->type != OPTION_IS_ARGUMENT)
            nearest_offer(&nearest, row->name);
        offer_words(&nearest, row->aliases, &kept);
    }
    if (nearest.best)
        return error_set(in->err, ERROR_USAGE, "unknown option --%s: did you mean --%s?", word,
                         nearest.best);
    return error_set(in->err, ERROR_USAGE, "unknown option --%s: see --help", word);
}

/* "--no-fresh" and "--nofresh", as other programs' flags can be written. */
static const struct option *find_negated(const struct option *table, const char *name,
                                         size_t length)
{
    if (length < 3 || strncmp(name, "no", 2) != 0)
        return NULL;
    size_t skip = name[2] == '-' || name[2] == '_' ? 3 : 2;
    const struct option *row = option_find(table, name + skip, length - skip);
    return row && !option_takes_value(row) ? row : NULL;
}

/* The value behind `where`: what stands behind =, or else the next word. */
static const char *take_value(struct reader *in, const struct option *row, const char *where,
                              const char *behind)
{
    if (behind)
        return behind;
    const char *next = in->at < in->argc ? in->argv[in->at] : NULL;
    if (next && !(next[0] == '-' && next[1] == '-')) {
        in->at++;
        return next;
    }
    error_set(in->err, ERROR_USAGE, "%s needs a value: %s %s", where, where,
              option_value_name(row));
    return NULL;
}

static int read_long(struct reader *in, const char *name)
{
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *behind = equals ? equals + 1 : NULL;
    const char *initial = "true";
    const struct option *row = option_find(in->out->table, name, length);
    if (!row) {
        row = find_negated(in->out->table, name, length);
        initial = "false";
        if (row && behind)
            return error_set(in->err, ERROR_USAGE, "--%.*s takes no value", (int)length, name);
    }
    if (!row)
        return unknown_option(in, name, length);
    char where[NAME_MAX_LETTERS + 2];
    snprintf(where, sizeof where, "--%.*s", (int)length, name);
    if (row->type == OPTION_IS_ARGUMENT &&
        in->out->sources[row - in->out->table] >= OPTION_FROM_ARGUMENTS)
        return error_set(in->err, ERROR_USAGE, "%s: %s is given already", where, row->name);
    const char *text = option_takes_value(row) ? take_value(in, row, where, behind)
                       : behind                ? behind
                                               : initial;
    return text ? set(in, row, where, text) : -1;
}

/* "-b 32", "-b32", and several flags in one word: "-xy". */
static int read_letters(struct reader *in, const char *letters)
{
    for (; *letters; letters++) {
        const struct option *row = in->out->table;
        while (row->type != OPTION_IS_END && row->letter != *letters)
            row++;
        if (row->type == OPTION_IS_END)
            return error_set(in->err, ERROR_USAGE, "unknown option -%c: see --help", *letters);
        char where[3] = {'-', *letters, '\0'};
        if (!option_takes_value(row)) {
            if (set(in, row, where, "true") < 0)
                return -1;
            continue;
        }
        const char *behind = letters[1] == '=' ? letters + 2 : letters[1] ? letters + 1 : NULL;
        const char *text = take_value(in, row, where, behind);
        return text ? set(in, row, where, text) : -1;
    }
    return 0;
}

static int read_argument(struct reader *in, const char *text)
{
    for (const struct option *row = in->out->table; row->type != OPTION_IS_END; row++)
        if (row->type == OPTION_IS_ARGUMENT &&
            in->out->sources[row - in->out->table] < OPTION_FROM_ARGUMENTS)
            return set(in, row, row->name, text);
    return error_set(in->err, ERROR_USAGE, "unexpected argument '%s': see --help", text);
}

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Behind -- launch_benchmark has the model's own arguments as words like steps=50; here they are
 * options. Everything else there is an argument. */
static int read_behind_dashes(struct reader *in, const char *word)
{
    const char *equals = strchr(word, '=');
    if (equals && option_find(in->out->table, word, (size_t)(equals - word)))
        return read_long(in, word);
    return read_argument(in, word);
}

static int read_words(struct reader *in)
{
    bool only_arguments = false;
    while (in->at < in->argc) {
        const char *word = in->argv[in->at++];
        int status;
        if (only_arguments)
            status = read_behind_dashes(in, word);
        else if (word[0] != '-' || !word[1])
            status = read_argument(in, word);
        else if (word[1] != '-')
            status = read_letters(in, word + 1);
        else if (word[2])
            status = read_long(in, word + 2);
        else
            status = 0, only_arguments = true;
        if (status < 0)
            return -1;
    }
    return 0;
}

/* The first variable that is set and not empty gives the value. */
static int read_environment(struct reader *in, const struct option *row,
                            char *(*environment)(const char *name))
{
    const char *list = row->environment, *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;) {
        char name[NAME_MAX_LETTERS];
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        const char *text = environment(name);
        if (!text || !*text)
            continue;
        if (set(in, row, name, text) < 0)
            return error_wrap(in->err, "environment");
        return 0;
    }
    return 0;
}

static int read_initials(struct reader *in)
{
    for (const struct option *row = in->out->table; row->type != OPTION_IS_END; row++)
        if (row->initial && set(in, row, row->name, row->initial) < 0)
            return -1;
    return 0;
}

static int check_required(struct reader *in)
{
    for (const struct option *row = in->out->table; row->type != OPTION_IS_END; row++)
        if (row->required && in->out->sources[row - in->out->table] == OPTION_FROM_NOTHING)
            return error_set(in->err, ERROR_USAGE, "%s is missing: see --help", row->name);
    return 0;
}

int options_parse(const struct option *table, int argc, char *const *argv,
                  char *(*environment)(const char *name), void *settings, struct options *out,
                  struct error *err)
{
    *out = (struct options){.table = table, .settings = settings};
    if (asks_for_help(argc, argv)) {
        out->help = true;
        return 0;
    }
    struct reader in = {.argc = argc, .argv = argv, .out = out, .err = err};
    in.source = OPTION_FROM_TABLE;
    if (read_initials(&in) < 0)
        return -1;
    /* Arguments first: a bad value in the environment is no failure where a flag replaces it. */
    in.source = OPTION_FROM_ARGUMENTS;
    if (read_words(&in) < 0)
        return -1;
    in.source = OPTION_FROM_ENVIRONMENT;
    for (const struct option *row = table; row->type != OPTION_IS_END; row++)
        if (read_environment(&in, row, environment) < 0)
            return -1;
    return check_required(&in);
}

enum { RECIPE_MAX_WORDS = 64 };

int options_apply_recipe(struct options *options, const char *recipe, struct arena *memory,
                         struct error *err)
{
    char *words[RECIPE_MAX_WORDS];
    int count = 0;
    const char *word;
    for (size_t length; (length = option_next_word(&recipe, &word)) > 0; count++) {
        char *copy = count < RECIPE_MAX_WORDS ? arena_take(memory, length + 1) : NULL;
        if (!copy)
            return error_set(err, ERROR_MEMORY, "the recipe has too many words");
        words[count] = memcpy(copy, word, length);
    }
    struct reader in = {
        .argc = count, .argv = words, .out = options, .err = err, .source = OPTION_FROM_RECIPE};
    return read_words(&in) < 0 ? error_wrap(err, "recipe") : 0;
}

enum option_source options_source(const struct options *options, const char *name)
{
    const struct option *row = options->table;
    while (row->type != OPTION_IS_END && strcmp(row->name, name) != 0)
        row++;
    assert(row->type != OPTION_IS_END);
    return (enum option_source)options->sources[row - options->table];
}
