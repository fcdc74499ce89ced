#include "watch/page.h"

#include "base/embed.h"

EMBED(page_html, "web/dashboard.html");
EMBED(page_style, "web/dashboard.css");
EMBED(page_text, "web/text.js");
EMBED(page_charts, "web/charts.js");
EMBED(page_layers, "web/layers.js");
EMBED(page_ranks, "web/ranks.js");
EMBED(page_script, "web/dashboard.js");

static struct page_file make(const char *path, const char *type, const char *from, const char *end)
{
    return (struct page_file){path, type, from, (size_t)(end - from)};
}

void page_files(struct page_file out[PAGE_FILES])
{
    static const char javascript[] = "text/javascript; charset=utf-8";
    out[0] = make("/", "text/html; charset=utf-8", page_html, page_html_end);
    out[1] = make("/dashboard.css", "text/css; charset=utf-8", page_style, page_style_end);
    out[2] = make("/text.js", javascript, page_text, page_text_end);
    out[3] = make("/charts.js", javascript, page_charts, page_charts_end);
    out[4] = make("/layers.js", javascript, page_layers, page_layers_end);
    out[5] = make("/ranks.js", javascript, page_ranks, page_ranks_end);
    out[6] = make("/dashboard.js", javascript, page_script, page_script_end);
}
