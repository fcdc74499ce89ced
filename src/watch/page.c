#include "watch/page.h"

/* The assembler puts the files in as they are, with a NUL behind; the Makefile knows that this
 * object depends on them. */
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".hidden page_" #name "\n.hidden page_" #name "_end\n"                                 \
            ".globl page_" #name "\n.globl page_" #name "_end\n"                                   \
            "page_" #name ":\n.incbin \"" file "\"\npage_" #name "_end:\n.byte 0\n"                \
            ".popsection\n");                                                                      \
    extern const char page_##name[], page_##name##_end[]

EMBED(html, "web/dashboard.html");
EMBED(style, "web/dashboard.css");
EMBED(text, "web/text.js");
EMBED(charts, "web/charts.js");
EMBED(layers, "web/layers.js");
EMBED(ranks, "web/ranks.js");
EMBED(script, "web/dashboard.js");

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
