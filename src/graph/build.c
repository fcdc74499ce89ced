/* The public building calls that belong to no operation. */
#include "graph/graph.h"

value_id lockstep_input(struct graph *graph, const char *name, enum dtype dtype, struct shape shape)
{
    return graph_input(graph, name, dtype, shape);
}

value_id lockstep_image_input(struct graph *graph, int channels, int height, int width)
{
    value_id image =
        graph_input(graph, "image", DTYPE_F32, SHAPE(SHAPE_BATCH, channels, height, width));
    graph_mark_channels_last(graph, image);
    return image;
}
