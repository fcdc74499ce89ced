/* The last step of a command: what it found goes to standard output or into a file. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

struct error;
struct json;
struct strbuf;

/* Writes the text to standard output. */
int output_text(const struct strbuf *text, struct error *err);
/* Before the work: finds out whether `target` can be written, and takes away what an earlier run
 * left there, so that a failed run leaves no result that looks like its own. NULL and "-" are
 * fine. */
int output_json_prepare(const char *target, struct error *err);
/* Writes the object, indented, to the file `target`, or to standard output if that is "-". */
int output_json(const struct json *json, const char *target, struct error *err);

#endif
