/* What must hold for every command's table, whoever wrote it. */
#include "support/test.h"

#include <ctype.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/pages.h"

/* Groups and their parts too; NULL behind the last. */
static const struct command *any_command(int index)
{
    for (const struct command *const *at = command_list(); *at; at++) {
        if (index-- == 0)
            return *at;
        for (const struct command *const *part = (*at)->parts; part && *part; part++)
            if (index-- == 0)
                return *part;
    }
    return NULL;
}

#define EACH_COMMAND(command)                                                                      \
    for (int at_ = 0, go_ = 1; go_; go_ = 0)                                                       \
        for (const struct command *command; (command = any_command(at_)); at_++)
#define EACH_ROW(row, command)                                                                     \
    for (const struct option *row = (command)->options; row->type != OPTION_IS_END; row++)

TEST(commands, each_explains_itself)
{
    EACH_COMMAND(command)
    {
        if (!command->summary || !command->description || !command->examples ||
            !command->run == !command->parts)
            FAIL("%s lacks a part", command->name);
        ASSERT_TRUE(command_find(command->name) == command);
        ASSERT_TRUE(command->summary[strlen(command->summary) - 1] != '.');
        EACH_ROW(row, command)
        if (row->type != OPTION_IS_SECTION && (!row->help || !*row->help))
            FAIL("%s: --%s has no help", command->name, row->name);
    }
    ASSERT_TRUE(command_find("nothing") == NULL);
}

TEST(commands, appear_once_each_in_the_overview)
{
    int count = 0;
    while (command_list()[count])
        count++;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(command_in_order(i) != command_in_order(j));
    ASSERT_TRUE(command_in_order(count) == NULL);
}

/* Every name, alias and letter leads back to its own row: none is hidden by one before it. */
TEST(tables, have_no_name_twice)
{
    EACH_COMMAND(command)
    EACH_ROW(row, command)
    {
        ASSERT_INT(row - command->options, <, OPTIONS_MAX);
        if (row->type == OPTION_IS_SECTION)
            continue;
        if (row->type != OPTION_IS_ARGUMENT &&
            option_find(command->options, row->name, strlen(row->name)) != row)
            FAIL("%s: --%s stands twice", command->name, row->name);
        const char *list = row->aliases, *word;
        for (size_t length; list && (length = option_next_word(&list, &word)) > 0;)
            if (option_find(command->options, word, length) != row)
                FAIL("%s: --%.*s stands twice", command->name, (int)length, word);
        EACH_ROW(other, command)
        if (other < row && row->letter && other->letter == row->letter)
            FAIL("%s: -%c stands twice", command->name, row->letter);
    }
}

TEST(tables, have_initial_values_that_pass_their_own_checks)
{
    EACH_COMMAND(command)
    {
        void *settings = memory_allocate(command->settings_size);
        EACH_ROW(row, command)
        {
            struct error err = {0};
            ASSERT_INT(row->offset, <, command->settings_size + 1);
            if (row->initial && option_set(row, row->name, row->initial, settings, &err) < 0)
                FAIL("%s: %s", command->name, err.message);
        }
        memory_free(settings);
    }
}

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

/* Splits at blanks; ends at a shell's | > < or ;. */
static int split(char *line, char **words, int most)
{
    int count = 0;
    for (char *word; (word = strsep(&line, " ")) && count < most;) {
        if (*word && strchr("|<>;&", *word))
            break;
        if (*word)
            words[count++] = word;
    }
    return count;
}

static void check_example(const char *line, size_t length)
{
    char text[256], *words[32];
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    int count = split(text, words, 32);
    const struct command *command = command_find(words[1]);
    int used = 2;
    if (command && command->parts) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", words[1], words[2]);
        command = command_find(name);
        used = 3;
    }
    if (!command)
        FAIL("'%.*s': no such command", (int)length, line);
    void *settings = memory_allocate(command->settings_size);
    struct options options;
    struct error err = {0};
    if (options_parse(command->options, count - used, words + used, no_environment, settings,
                      &options, &err) < 0)
        FAIL("'%.*s': %s", (int)length, line, err.message);
    memory_free(settings);
}

TEST(commands, have_examples_that_can_be_run_as_they_stand)
{
    EACH_COMMAND(command)
    for (const char *line = command->examples; *line;
         line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, "lockstep ", 9) == 0)
            check_example(line, strcspn(line, "\n"));
}

static void check_page(const char *name, const struct strbuf *page, int width)
{
    int column = 0;
    const char *examples = strstr(page->text, "\nExamples:\n"); /* command lines may be long */
    ASSERT_FALSE(page->failed);
    for (size_t i = 0; i < page->length; i++) {
        unsigned char c = (unsigned char)page->text[i];
        if (c != '\n' && !isprint(c))
            FAIL("%s: character 0x%02x", name, c);
        if (c == '\n' && i > 0 && page->text[i - 1] == ' ')
            FAIL("%s: a line ends in a blank: ...%.20s", name, page->text + (i > 20 ? i - 20 : 0));
        column = c == '\n' ? 0 : column + 1;
        if (column > width && (!examples || page->text + i < examples))
            FAIL("%s: a line of more than %d columns: ...%.60s", name, width,
                 page->text + (i > 60 ? i - 60 : 0));
    }
    ASSERT_TRUE(page->length > 0 && page->text[page->length - 1] == '\n');
}

TEST(help, fits_a_terminal_and_names_every_option)
{
    EACH_COMMAND(command)
    {
        struct strbuf page;
        strbuf_init(&page);
        help_command(command, &page);
        check_page(command->name, &page, 80);
        EACH_ROW(row, command)
        if (row->type != OPTION_IS_SECTION && row->type != OPTION_IS_REFUSED)
            ASSERT_CONTAINS(page.text, row->name);
        strbuf_release(&page);
    }
}

TEST(manual, names_every_option_and_every_refusal)
{
    EACH_COMMAND(command)
    {
        struct strbuf page;
        strbuf_init(&page);
        manual_page(command, &page);
        check_page(command->name, &page, 4096);
        EACH_ROW(row, command)
        {
            char escaped[128];
            size_t used = 0;
            for (const char *c = row->name; *c && used + 2 < sizeof escaped; c++) {
                if (*c == '-')
                    escaped[used++] = '\\';
                escaped[used++] = *c;
            }
            escaped[used] = '\0';
            ASSERT_CONTAINS(page.text, escaped);
        }
        strbuf_release(&page);
    }
}

TEST(wrap, keeps_every_word_and_the_width)
{
    struct strbuf out;
    strbuf_init(&out);
    wrap_text(&out, "one two  three\nfour averyveryverylongword five", 4, 2, 12);
    ASSERT_TEXT(out.text, "one two\n  three four\n  averyveryverylongword\n  five");
    strbuf_release(&out);
}
