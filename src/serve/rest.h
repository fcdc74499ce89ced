/* The REST door: TF Serving's /v1 and the Open Inference Protocol's /v2 over HTTP/1.1, health, metrics
 * and the status page. */
#ifndef SERVE_REST_H
#define SERVE_REST_H

#include <stdbool.h>
#include <stddef.h>

struct door_options;
struct error;
struct rest_door;
struct serve_core;

int rest_door_start(struct serve_core *core, const struct door_options *options,
                    struct rest_door **out, struct error *err);
int rest_door_port(const struct rest_door *door);
const char *rest_door_url(const struct rest_door *door, char *text, size_t bytes);
/* No new connections from now on; does not wait. Accepts NULL. */
void rest_door_close(struct rest_door *door);
/* Closes; waits until what was asked is answered, at most so long. */
void rest_door_drain(struct rest_door *door, double seconds);
/* Drops what still waits, waits for what is being computed. Accepts NULL. */
void rest_door_stop(struct rest_door *door);

#endif
