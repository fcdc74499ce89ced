/* What a training leaves behind: its weights, its scores for people and for scripts. */
#ifndef CLI_RESULTS_H
#define CLI_RESULTS_H

#include <stdio.h>

struct error;
struct json;
struct training;

/* Into --output-dir; a no-op without one. Weights that are not finite are ERROR_NUMERIC. */
int results_save_weights(const struct training *training, struct error *err);
/* As the next version in --export-dir; a no-op without one. For a training that passed its gate. */
int results_export(struct training *training, struct error *err);
/* Of the run that was made last: steps, speed, loss, accuracy. */
void results_print_scores(const struct training *training, FILE *out);
/* The places of weights, checkpoint and export, as far as there are any. */
void results_print_places(const struct training *training, FILE *out);
/* Everything a script could want of the run that was made last. */
void results_describe(const struct training *training, struct json *out);

#endif
