/* Embeddings in TensorFlow's words: texts to buckets to rows of the table. */
#include "base/arena.h"
#include "convert/tf_network_parts.h"
#include "exec/known_ops.h"

static bool equal_buckets(const struct embedding_attributes *a)
{
    for (int i = 1; i < a->columns; i++)
        if (a->buckets[i] != a->buckets[0])
            return false;
    return true;
}

static void write_hash(struct tf_network *network, const char *name, const char *texts,
                       int64_t buckets)
{
    tf_begin(network->nodes, "StringToHashBucketFast", name);
    tf_input(network->nodes, texts);
    tf_attr_int(network->nodes, "num_buckets", buckets);
    tf_end(network->nodes);
}

/* Each column has its own number of buckets: taken apart, hashed, put together. */
static void write_hash_by_column(struct tf_network *network, const struct embedding_attributes *a,
                                 const char *stem, const char *texts, const char *name)
{
    const char *apart = tf_join(network, stem, "columns");
    tf_begin(network->nodes, "Unpack", apart);
    tf_input(network->nodes, texts);
    tf_attr_type(network->nodes, "T", TF_STRING);
    tf_attr_int(network->nodes, "num", a->columns);
    tf_attr_int(network->nodes, "axis", 1);
    tf_end(network->nodes);
    for (int i = 0; i < a->columns; i++) {
        const char *column = arena_format(network->arena, "%s:%d", apart, i);
        const char *hashed = arena_format(network->arena, "%s/hash_%d", stem, i);
        network->failed |= !column || !hashed;
        if (!network->failed)
            write_hash(network, hashed, column, a->buckets[i]);
    }
    tf_begin(network->nodes, "Pack", name);
    for (int i = 0; i < a->columns; i++) {
        const char *hashed = arena_format(network->arena, "%s/hash_%d", stem, i);
        network->failed |= !hashed;
        tf_input(network->nodes, hashed ? hashed : "");
    }
    tf_attr_type(network->nodes, "T", TF_INT64);
    tf_attr_int(network->nodes, "N", a->columns);
    tf_attr_int(network->nodes, "axis", 1);
    tf_end(network->nodes);
}

/* The rows of the table, [N, columns]: a column's bucket behind the rows of the columns before. */
static const char *write_rows(struct tf_network *network, const struct embedding_attributes *a,
                              const char *stem, const char *texts)
{
    const char *bucket = tf_join(network, stem, "bucket"),
               *first = tf_join(network, stem, "first_row");
    const char *name = tf_join(network, stem, "row");
    int64_t *rows = ARENA_ARRAY(network->arena, int64_t, a->columns);
    network->failed |= !rows;
    if (network->failed)
        return "";
    for (int i = 1; i < a->columns; i++)
        rows[i] = rows[i - 1] + a->buckets[i - 1];
    if (equal_buckets(a))
        write_hash(network, bucket, texts, a->buckets[0]);
    else
        write_hash_by_column(network, a, stem, texts, bucket);
    tf_const(network->nodes, first, &(struct tensor){DTYPE_I64, SHAPE(a->columns), rows});
    tf_node(network->nodes, "AddV2", name, TF_INT64, TF_INPUTS(bucket, first));
    return name;
}

/* 1 where there is a text, 0 where it is missing: [N, columns, 1]. */
static const char *write_presence(struct tf_network *network, const char *stem, const char *texts)
{
    const char *empty = tf_join(network, stem, "missing"),
               *present = tf_join(network, stem, "NotEqual");
    const char *number = tf_join(network, stem, "Cast"), *axis = tf_join(network, stem, "last");
    const char *name = tf_join(network, stem, "ExpandDims");
    tf_const_texts(network->nodes, empty, (const char *const[]){""}, 1);
    tf_node(network->nodes, "NotEqual", present, TF_STRING, TF_INPUTS(texts, empty));
    tf_begin(network->nodes, "Cast", number);
    tf_input(network->nodes, present);
    tf_attr_type(network->nodes, "SrcT", TF_BOOL);
    tf_attr_type(network->nodes, "DstT", TF_FLOAT);
    tf_end(network->nodes);
    tf_const_int(network->nodes, axis, -1);
    tf_begin(network->nodes, "ExpandDims", name);
    tf_input(network->nodes, number);
    tf_input(network->nodes, axis);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_type(network->nodes, "Tdim", TF_INT32);
    tf_end(network->nodes);
    return name;
}

static const char *write_gather(struct tf_network *network, const char *stem, const char *table,
                                const char *rows)
{
    const char *axis = tf_join(network, stem, "axis"), *name = tf_join(network, stem, "GatherV2");
    tf_const_int(network->nodes, axis, 0);
    tf_begin(network->nodes, "GatherV2", name);
    tf_input(network->nodes, table);
    tf_input(network->nodes, rows);
    tf_input(network->nodes, axis);
    tf_attr_type(network->nodes, "Tparams", TF_FLOAT);
    tf_attr_type(network->nodes, "Tindices", TF_INT64);
    tf_attr_type(network->nodes, "Taxis", TF_INT32);
    tf_end(network->nodes);
    return name;
}

static const char *write_sum(struct tf_network *network, const struct node *node, const char *rows)
{
    const char *stem = tf_stem(network, node);
    const char *axis = tf_join(network, stem, "columns_axis"),
               *name = tf_join(network, stem, "Sum");
    tf_const_int(network->nodes, axis, 1);
    tf_begin(network->nodes, "Sum", name);
    tf_input(network->nodes, rows);
    tf_input(network->nodes, axis);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_type(network->nodes, "Tidx", TF_INT32);
    tf_end(network->nodes);
    return tf_write_bias(network, node, name, EMBEDDING_EXTRA);
}

const char *tf_write_embedding(struct tf_network *network, const struct node *node)
{
    const struct embedding_attributes *a = node->attributes;
    const char *stem = tf_stem(network, node), *texts = tf_tensor(network, node, EMBEDDING_X);
    const char *rows = write_rows(network, a, stem, texts);
    const char *found =
        write_gather(network, stem, tf_tensor(network, node, EMBEDDING_TABLE), rows);
    const char *name = tf_join(network, stem, "Mul");
    tf_node(network->nodes, "Mul", name, TF_FLOAT,
            TF_INPUTS(found, write_presence(network, stem, texts)));
    if (a->sum)
        return write_sum(network, node, name);
    name = tf_write_reshape(network, stem, name, (int32_t[]){-1, a->columns * a->dim}, 2);
    if (node->input_count <= EMBEDDING_EXTRA)
        return name;
    return tf_write_concat(network, stem,
                           TF_INPUTS(name, tf_tensor(network, node, EMBEDDING_EXTRA)), 2, 1);
}
