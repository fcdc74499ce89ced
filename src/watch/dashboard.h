/* A record shown: as a live page with server-sent events, as metrics for Prometheus, and as one
 * file that needs neither server nor network. */
#ifndef WATCH_DASHBOARD_H
#define WATCH_DASHBOARD_H

struct address;
struct dashboard;
struct error;
struct record;

struct dashboard_options {
    const struct address *page;    /* serve the page, its data and the metrics here; NULL: not */
    const struct address *metrics; /* serve the metrics (also) here; NULL: not */
};

/* Starts to serve. Outside the loopback the page wants a token; metrics, which are numbers that a
 * scraper comes for again and again, do not. The record must outlive it. */
int dashboard_create(const struct dashboard_options *options, struct record *record,
                     struct dashboard **out, struct error *err);
/* Tells pages that the run is over, then ends. Accepts NULL. */
void dashboard_destroy(struct dashboard *dashboard);

/* Where to look: "http://127.0.0.1:8080/". NULL when it is not served. */
const char *dashboard_page_url(const struct dashboard *dashboard);
const char *dashboard_metrics_url(const struct dashboard *dashboard);

/* The page with the record in it, at `path`. */
int dashboard_save(struct record *record, const char *path, struct error *err);

#endif
