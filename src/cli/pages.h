/* What the tables say, as pages: for a terminal, for man, and for a shell. Pure: the same tables
 * give the same bytes. */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

struct command;
struct strbuf;

void help_overview(struct strbuf *out);
void help_command(const struct command *command, struct strbuf *out);
/* roff; `command` NULL: the page of the program itself. */
void manual_page(const struct command *command, struct strbuf *out);
void completion_bash(struct strbuf *out);
/* Markdown: every spelling known from other programs, honoured, mapped or refused. */
void compatibility_page(struct strbuf *out);

/* Words of `text` in lines of at most `width` columns; lines after the first start with `indent`
 * blanks, and the first is taken to start at column `column`. */
void wrap_text(struct strbuf *out, const char *text, int column, int indent, int width);

#endif
