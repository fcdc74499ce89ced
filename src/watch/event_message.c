#include "watch/event_message.h"

#include <math.h>

#include "base/strbuf.h"
#include "watch/histogram.h"
#include "wire/proto.h"

/* Numbers of the fields, by message. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_FILE_VERSION, EVENT_GRAPH, EVENT_SUMMARY };
enum { EVENT_SESSION_LOG = 7, EVENT_SOURCE_METADATA = 10 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SOURCE_WRITER = 1 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5 };
enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, VERSIONS_PRODUCER = 1 };
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2 }; /* an entry of a map */
enum { ATTRIBUTE_LIST = 1, ATTRIBUTE_TYPE = 6, LIST_SHAPE = 7 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };

enum { GRAPH_VERSION = 22 }; /* of GraphDefs since TensorFlow 1.0: attributes as written here */

void event_begin(struct strbuf *out, double wall_seconds, int64_t step)
{
    uint64_t bits;
    memcpy(&bits, &wall_seconds, sizeof bits);
    proto_add_fixed64(out, EVENT_WALL_TIME, bits);
    proto_add_varint(out, EVENT_STEP, (uint64_t)step);
}

void event_add_version(struct strbuf *out)
{
    proto_add_text(out, EVENT_FILE_VERSION, "brain.Event:2");
    size_t source = proto_begin(out, EVENT_SOURCE_METADATA);
    proto_add_text(out, SOURCE_WRITER, "lockstep");
    proto_end(out, source);
}

void event_add_start(struct strbuf *out)
{
    size_t log = proto_begin(out, EVENT_SESSION_LOG);
    proto_add_varint(out, SESSION_STATUS, SESSION_START);
    proto_end(out, log);
}

/* --- the graph ------------------------------------------------------------------------------ */

/* Begins attribute `key` of a node; `entry` and the result are for proto_end, the result first. */
static size_t begin_attribute(struct strbuf *out, const char *key, size_t *entry)
{
    *entry = proto_begin(out, NODE_ATTRIBUTE);
    proto_add_text(out, ATTRIBUTE_KEY, key);
    return proto_begin(out, ATTRIBUTE_VALUE);
}

static void add_dtype(struct strbuf *out, enum event_dtype dtype)
{
    size_t entry, value = begin_attribute(out, "dtype", &entry);
    proto_add_varint(out, ATTRIBUTE_TYPE, (uint64_t)dtype);
    proto_end(out, value);
    proto_end(out, entry);
}

/* The attribute whose shapes TensorBoard writes along the edges. */
static void add_shape(struct strbuf *out, const struct event_node *node)
{
    size_t entry, value = begin_attribute(out, "_output_shapes", &entry);
    size_t list = proto_begin(out, ATTRIBUTE_LIST);
    size_t shape = proto_begin(out, LIST_SHAPE);
    for (int i = 0; i < node->dim_count; i++) {
        size_t dim = proto_begin(out, SHAPE_DIM);
        proto_add_varint(out, DIM_SIZE, (uint64_t)node->dims[i]);
        proto_end(out, dim);
    }
    proto_end(out, shape);
    proto_end(out, list);
    proto_end(out, value);
    proto_end(out, entry);
}

static void add_node(struct strbuf *out, const struct event_node *node)
{
    size_t start = proto_begin(out, GRAPH_NODE);
    proto_add_text(out, NODE_NAME, node->name);
    proto_add_text(out, NODE_OP, node->op);
    for (int i = 0; i < node->input_count; i++)
        proto_add_text(out, NODE_INPUT, node->inputs[i]);
    add_dtype(out, node->dtype);
    add_shape(out, node);
    proto_end(out, start);
}

void event_add_graph(struct strbuf *out, const struct event_node *nodes, int count)
{
    size_t graph = proto_begin(out, EVENT_GRAPH); /* bytes that hold a message: the same on disk */
    for (int i = 0; i < count; i++)
        add_node(out, &nodes[i]);
    size_t versions = proto_begin(out, GRAPH_VERSIONS);
    proto_add_varint(out, VERSIONS_PRODUCER, GRAPH_VERSION);
    proto_end(out, versions);
    proto_end(out, graph);
}

/* --- summaries ------------------------------------------------------------------------------ */

size_t event_begin_summary(struct strbuf *out)
{
    return proto_begin(out, EVENT_SUMMARY);
}

void event_end_summary(struct strbuf *out, size_t summary)
{
    proto_end(out, summary);
}

void event_add_scalar(struct strbuf *out, const char *tag, double value)
{
    if (isnan(value))
        return;
    size_t start = proto_begin(out, SUMMARY_VALUE);
    proto_add_text(out, VALUE_TAG, tag);
    proto_add_float(out, VALUE_SIMPLE, (float)value);
    proto_end(out, start);
}

void event_add_histogram(struct strbuf *out, const char *tag, const struct histogram *histogram)
{
    size_t start = proto_begin(out, SUMMARY_VALUE);
    proto_add_text(out, VALUE_TAG, tag);
    size_t inner = proto_begin(out, VALUE_HISTOGRAM);
    histogram_encode(histogram, out);
    proto_end(out, inner);
    proto_end(out, start);
}
