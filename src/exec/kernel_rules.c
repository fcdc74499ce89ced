#include "exec/kernel_rules.h"

#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "exec/known_ops.h"
#include "exec/op.h"
#include "tensor/random.h"

enum { FILE_LIMIT = 1 << 20, MOST_RULES = 4096, MOST_WORDS = 32 };

struct rule {
    const char *key;
    const char *kernel;
};

struct kernel_rules {
    struct arena *arena;
    const char *name, *processor;
    int threads;
    struct rule rules[MOST_RULES];
    int count;
};

/* Those whose kernels are ways to compute the same; each describes its nodes. */
static const struct op *const ruled_ops[] = {&op_conv2d};

/* --- Reading --- */

struct parser {
    struct kernel_rules *rules;
    int line;
    bool begun; /* the version was seen */
    int words;
    const char *word[MOST_WORDS]; /* of this line, in the arena */
};

__attribute__((format(printf, 3, 4))) static int
complain(const struct parser *parser, struct error *err, const char *format, ...)
{
    char text[300];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return error_set(err, ERROR_FORMAT, "%s: line %d: %s", parser->rules->name, parser->line, text);
}

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the rules about kernels");
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int take_words(struct parser *parser, const char *at, const char *end, struct error *err)
{
    const char *comment = memchr(at, '#', (size_t)(end - at));
    end = comment ? comment : end;
    parser->words = 0;
    if (memchr(at, '\0', (size_t)(end - at)))
        return complain(parser, err, "a NUL character; this is no file of rules about kernels");
    for (;;) {
        while (at < end && is_blank(*at))
            at++;
        if (at == end)
            return 0;
        const char *start = at;
        while (at < end && !is_blank(*at))
            at++;
        if (parser->words == MOST_WORDS || at - start >= KERNEL_KEY_BYTES)
            return complain(parser, err, "more than %d words, or one of more than %d bytes",
                            MOST_WORDS, KERNEL_KEY_BYTES - 1);
        const char *word = arena_format(parser->rules->arena, "%.*s", (int)(at - start), start);
        if (!word)
            return no_memory(err);
        parser->word[parser->words++] = word;
    }
}

/* Words [first, end) with one blank between them. */
static const char *join(const struct parser *parser, int first, int end)
{
    const char *text = parser->word[first];
    for (int i = first + 1; text && i < end; i++)
        text = arena_format(parser->rules->arena, "%s %s", text, parser->word[i]);
    return text;
}

static int begin(struct parser *parser, struct error *err)
{
    if (parser->words != 2 || strcmp(parser->word[0], "kernels") != 0)
        return complain(parser, err,
                        "'kernels 1' was expected first: `lockstep bench MODEL --tune FILE` writes "
                        "such files");
    if (strcmp(parser->word[1], "1") != 0)
        return complain(parser, err, "version '%.20s' of these files is not known here, only 1",
                        parser->word[1]);
    parser->begun = true;
    return 0;
}

static int take_threads(struct parser *parser, struct error *err)
{
    char *end;
    long threads = parser->words == 2 ? strtol(parser->word[1], &end, 10) : 0;
    if (threads < 1 || threads > 4096 || *end)
        return complain(parser, err, "threads and one number from 1 to 4096 were expected");
    if (parser->rules->threads)
        return complain(parser, err, "threads a second time");
    parser->rules->threads = (int)threads;
    return 0;
}

static int take_processor(struct parser *parser, struct error *err)
{
    if (parser->words < 2 || *parser->rules->processor)
        return complain(parser, err, "processor and its name were expected, once");
    parser->rules->processor = join(parser, 1, parser->words);
    return parser->rules->processor ? 0 : no_memory(err);
}

static const struct op *ruled_op(const char *name)
{
    for (size_t i = 0; i < sizeof ruled_ops / sizeof *ruled_ops; i++)
        if (strcmp(ruled_ops[i]->name, name) == 0)
            return ruled_ops[i];
    return NULL;
}

static int check_kernel(const struct parser *parser, const struct op *op, const char *name,
                        struct error *err)
{
    struct nearest nearest;
    char names[128] = "";
    nearest_start(&nearest, name);
    for (const struct op_kernel *const *kernel = op->kernels; *kernel; kernel++) {
        size_t used = strlen(names);
        if (strcmp((*kernel)->name, name) == 0)
            return 0;
        nearest_offer(&nearest, (*kernel)->name);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", (*kernel)->name);
    }
    return complain(parser, err, "%s has no kernel '%.60s'%s%s%s", op->name, name,
                    nearest.best ? "; did you mean '" : "; it has ",
                    nearest.best ? nearest.best : names, nearest.best ? "'?" : "");
}

static const struct rule *find(const struct kernel_rules *rules, const char *key)
{
    for (int i = 0; i < rules->count; i++)
        if (strcmp(rules->rules[i].key, key) == 0)
            return &rules->rules[i];
    return NULL;
}

static int take_rule(struct parser *parser, struct error *err)
{
    struct kernel_rules *rules = parser->rules;
    const struct op *op = ruled_op(parser->word[0]);
    int use = parser->words - 2;
    if (!op)
        return complain(parser, err, "'%.60s' where processor, threads or conv2d was expected",
                        parser->word[0]);
    if (use < 2 || strcmp(parser->word[use], "use") != 0)
        return complain(parser, err, "%s, its shapes or *, `use` and a kernel were expected",
                        op->name);
    if (check_kernel(parser, op, parser->word[use + 1], err) < 0)
        return -1;
    struct rule rule = {join(parser, 0, use), parser->word[use + 1]};
    if (!rule.key)
        return no_memory(err);
    if (find(rules, rule.key))
        return complain(parser, err, "a second rule for the same shapes");
    if (rules->count == MOST_RULES)
        return complain(parser, err, "more than %d rules", MOST_RULES);
    rules->rules[rules->count++] = rule;
    return 0;
}

static int take_line(struct parser *parser, const char *at, const char *end, struct error *err)
{
    if (take_words(parser, at, end, err) < 0)
        return -1;
    if (parser->words == 0)
        return 0;
    if (!parser->begun)
        return begin(parser, err);
    if (strcmp(parser->word[0], "threads") == 0)
        return take_threads(parser, err);
    if (strcmp(parser->word[0], "processor") == 0)
        return take_processor(parser, err);
    return take_rule(parser, err);
}

static int take_lines(struct kernel_rules *rules, const char *text, size_t bytes, struct error *err)
{
    struct parser parser = {.rules = rules};
    for (const char *at = text, *all = text + bytes; at < all;) {
        const char *end = memchr(at, '\n', (size_t)(all - at));
        end = end ? end : all;
        parser.line++;
        if (take_line(&parser, at, end, err) < 0)
            return -1;
        at = end + 1;
    }
    if (!parser.begun)
        return error_set(err, ERROR_FORMAT,
                         "%s: empty; `lockstep bench MODEL --tune FILE` writes such files",
                         rules->name);
    return 0;
}

int kernel_rules_parse(const char *name, const char *text, size_t bytes, struct kernel_rules **out,
                       struct error *err)
{
    struct arena *arena = arena_create();
    struct kernel_rules *rules = arena ? ARENA_NEW(arena, struct kernel_rules) : NULL;
    int status = -1;
    if (rules) {
        *rules = (struct kernel_rules){.arena = arena, .processor = ""};
        rules->name = arena_copy_text(arena, name);
    }
    if (!rules || !rules->name)
        no_memory(err);
    else if (bytes > FILE_LIMIT)
        error_set(err, ERROR_FORMAT, "%s: more than %d bytes", name, FILE_LIMIT);
    else
        status = take_lines(rules, text, bytes, err);
    if (status == 0)
        *out = rules;
    else
        arena_destroy(arena);
    return status;
}

int kernel_rules_read(const char *path, struct kernel_rules **out, struct error *err)
{
    char *text;
    size_t bytes;
    if (file_read(path, FILE_LIMIT, &text, &bytes, err) < 0)
        return -1;
    int status = kernel_rules_parse(path, text, bytes, out, err);
    memory_free(text);
    return status;
}

void kernel_rules_destroy(struct kernel_rules *rules)
{
    if (rules)
        arena_destroy(rules->arena);
}

/* --- Asking --- */

const char *kernel_rules_name(const struct kernel_rules *rules)
{
    return rules->name;
}

const char *kernel_rules_processor(const struct kernel_rules *rules)
{
    return rules->processor;
}

int kernel_rules_threads(const struct kernel_rules *rules)
{
    return rules->threads;
}

uint64_t kernel_rules_fingerprint(const struct kernel_rules *rules)
{
    uint64_t key = 0;
    for (int i = 0; i < rules->count; i++)
        key = random_key_text(random_key_text(key, rules->rules[i].key), rules->rules[i].kernel);
    return key;
}

const char *kernel_rules_key(const struct graph *graph, const struct node *node, int batch,
                             char key[KERNEL_KEY_BYTES])
{
    if (!ruled_op(node->op->name) || !node->op->describe)
        return NULL;
    int length = snprintf(key, KERNEL_KEY_BYTES, "%s ", node->op->name);
    node->op->describe(graph, node, batch, key + length, (size_t)(KERNEL_KEY_BYTES - length));
    return key;
}

const char *kernel_rules_find(const struct kernel_rules *rules, const char *key)
{
    char all[KERNEL_KEY_BYTES];
    const struct rule *rule = find(rules, key);
    if (!rule) {
        snprintf(all, sizeof all, "%.*s *", (int)strcspn(key, " "), key);
        rule = find(rules, all);
    }
    return rule ? rule->kernel : NULL;
}
