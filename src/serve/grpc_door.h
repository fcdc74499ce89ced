/* The gRPC way into the server: tensorflow.serving's PredictionService and ModelService,
 * inference.GRPCInferenceService, grpc.health.v1 and server reflection, over HTTP/2 by nghttp2. Each
 * thread of the door has connections of its own and turns them one after the other; when it has read
 * all there is, it computes what is quickly computed itself, and the core's workers do the rest.
 * Whatever a request needs is taken from the arena of its call. */
#ifndef SERVE_GRPC_DOOR_H
#define SERVE_GRPC_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/door.h"
#include "serve/inference.h"
#include "serve/repository.h"

struct arena;
struct error;
struct grpc_door;
struct imported;
struct serve_core;

/* What the door asks of the server behind it; any thread. Tests bring their own. */
struct grpc_backend {
    void *context;
    struct servable *(*hold)(void *context, const struct serve_target *target,
                             enum serve_status *status, struct error *err);
    void (*release)(struct servable *servable);
    const struct imported *(*model)(const struct servable *servable);
    int64_t (*version)(const struct servable *servable);
    void (*ask)(void *context, struct inference *inference);
    /* The calling thread has nothing to do: it may compute something that takes a millisecond or
     * two. True: it did, and there may be more. NULL: it never does. */
    bool (*help)(void *context);
    enum serve_status (*status)(void *context, const struct serve_target *target,
                                struct arena *arena, struct model_status *out, struct error *err);
    int (*configure)(void *context, const struct model_list *models, struct error *err);
    bool (*admits)(void *context, const char *authorization);
    bool (*ready)(void *context);
    /* Told of every request that was answered, and of those without a right token. */
    void (*count)(void *context, enum serve_api api, const char *model, int64_t version,
                  enum serve_status status, double seconds);
    void (*refused)(void *context);
    void (*gone)(void *context); /* a client left before its answer; NULL: who cares */
};

/* Listens and answers from now on. The backend is copied; the options' texts must outlive the
 * door. */
int grpc_door_open(const struct grpc_backend *backend, const struct door_options *options,
                   struct grpc_door **out, struct error *err);
/* The same for the real server. */
int grpc_door_start(struct serve_core *core, const struct door_options *options,
                    struct grpc_door **out, struct error *err);
int grpc_door_port(const struct grpc_door *door);
/* Takes no new connections and calls from now on; does not wait. */
void grpc_door_close(struct grpc_door *door);
/* Closes, lets the calls in flight end within `seconds`, cancels the rest, returns when the core
 * has let go of the last, and tells how many clients did not get the answer that they waited for. */
int grpc_door_drain(struct grpc_door *door, double seconds);
void grpc_door_stop(struct grpc_door *door); /* accepts NULL; drains at once if nobody did */

#endif
