/* Field numbers of TensorFlow's messages around a graph, for who reads and who writes them:
 * saved_model.proto, meta_graph.proto, graph.proto, saver.proto, variable.proto. */
#ifndef CONVERT_TF_MESSAGES_H
#define CONVERT_TF_MESSAGES_H

enum { MAP_KEY = 1, MAP_VALUE };
enum { SAVED_MODEL_SCHEMA = 1, SAVED_MODEL_META };
enum {
    META_INFO = 1,
    META_GRAPH,
    META_SAVER,
    META_COLLECTION,
    META_SIGNATURE,
    META_ASSET,
    META_OBJECTS,
};
enum { INFO_MAKER = 1, INFO_TAG = 4, INFO_VERSION };
enum { GRAPH_NODE = 1, GRAPH_LIBRARY, GRAPH_VERSIONS = 4 };
enum { VERSIONS_PRODUCER = 1, VERSIONS_OLDEST_READER };
enum { SAVER_FILE = 1, SAVER_SAVE, SAVER_RESTORE, SAVER_KEEP, SAVER_FORMAT = 7 };
enum { COLLECTION_BYTES = 2 };
enum {
    VARIABLE_NAME = 1,
    VARIABLE_INITIALIZER,
    VARIABLE_SNAPSHOT,
    VARIABLE_IS_RESOURCE = 5,
    VARIABLE_INITIAL,
    VARIABLE_TRAINABLE,
};
enum { SIGNATURE_INPUTS = 1, SIGNATURE_OUTPUTS, SIGNATURE_METHOD };
enum { TENSOR_INFO_NAME = 1, TENSOR_INFO_TYPE, TENSOR_INFO_SHAPE };
enum { ASSET_TENSOR = 1, ASSET_FILE };

#endif
