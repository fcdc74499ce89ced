/* What a client found: as text with a plot, as JSON and as a page. */
#ifndef CLI_CLIENT_REPORT_H
#define CLI_CLIENT_REPORT_H

#include "cli/client_load.h"

struct error;
struct json;
struct strbuf;

struct client_report {
    const char *server, *protocol, *model, *data;
    int batch, connections, streams;
    double rate; /* 0: closed loop */
    const struct load_result *result;
};

void client_report_text(const struct client_report *report, bool plot, struct strbuf *out);
/* One page without anything from elsewhere. */
void client_report_html(const struct client_report *report, struct strbuf *out);
void client_report_json(const struct client_report *report, struct json *out);

#endif
