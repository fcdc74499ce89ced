#include "convert/tf_picture.h"

#include "convert/tf_write.h"
#include "data/pictures.h"
#include "wire/proto.h"

const char tf_picture_function[] = "lockstep_picture";

/* function.proto, op_def.proto */
enum { LIBRARY_FUNCTION = 1 };
enum { FUNCTION_SIGNATURE = 1, FUNCTION_RESULT = 4 };
enum { OP_NAME = 1, OP_INPUT, OP_OUTPUT };
enum { ARGUMENT_NAME = 1, ARGUMENT_TYPE = 3 };

static void put_argument(struct strbuf *out, uint32_t field, const char *name, int type)
{
    size_t argument = proto_begin(out, field);
    proto_add_text(out, ARGUMENT_NAME, name);
    proto_add_varint(out, ARGUMENT_TYPE, (uint64_t)type);
    proto_end(out, argument);
}

static void put_signature(struct strbuf *out)
{
    size_t signature = proto_begin(out, FUNCTION_SIGNATURE);
    proto_add_text(out, OP_NAME, tf_picture_function);
    put_argument(out, OP_INPUT, "encoded", TF_STRING);
    put_argument(out, OP_OUTPUT, "pixels", TF_FLOAT);
    proto_end(out, signature);
}

static void put_result(struct strbuf *out, const char *name, const char *tensor)
{
    size_t entry = proto_begin(out, FUNCTION_RESULT);
    proto_add_text(out, 1, name);
    proto_add_text(out, 2, tensor);
    proto_end(out, entry);
}

static void cast(struct tf_nodes *nodes, const char *name, const char *x, int from, int to)
{
    tf_begin(nodes, "Cast", name);
    tf_input(nodes, x);
    tf_attr_type(nodes, "SrcT", from);
    tf_attr_type(nodes, "DstT", to);
    tf_end(nodes);
}

static void slice(struct tf_nodes *nodes, const char *name, int type, const char *const *inputs)
{
    tf_begin(nodes, "Slice", name);
    for (; *inputs; inputs++)
        tf_input(nodes, *inputs);
    tf_attr_type(nodes, "T", type);
    tf_attr_type(nodes, "Index", TF_INT32);
    tf_end(nodes);
}

/* [height, width] of the picture as it is stored. */
static void write_decoding(struct tf_nodes *nodes)
{
    tf_begin(nodes, "DecodeJpeg", "decoded"); /* takes PNG, too */
    tf_input(nodes, "encoded");
    tf_attr_int(nodes, "channels", 3);
    tf_end(nodes);
    tf_begin(nodes, "Shape", "shape");
    tf_input(nodes, "decoded:image:0");
    tf_attr_type(nodes, "T", TF_UINT8);
    tf_attr_type(nodes, "out_type", TF_INT32);
    tf_end(nodes);
    tf_const_ints(nodes, "from_height", (int32_t[]){0}, 1);
    tf_const_ints(nodes, "both_sides", (int32_t[]){2}, 1);
    slice(nodes, "sides", TF_INT32,
          TF_INPUTS("shape:output:0", "from_height:output:0", "both_sides:output:0"));
}

/* The short side becomes side * 256 / 224, in single precision and rounded down, but not below
 * `side`. */
static void write_new_sides(struct tf_nodes *nodes, int side)
{
    cast(nodes, "float_sides", "sides:output:0", TF_INT32, TF_FLOAT);
    tf_const_int(nodes, "first_axis", 0);
    tf_begin(nodes, "Min", "shorter");
    tf_input(nodes, "float_sides:y:0");
    tf_input(nodes, "first_axis:output:0");
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "Tidx", TF_INT32);
    tf_end(nodes);
    tf_const_float(nodes, "enlarged", (float)((int64_t)side * 256 / 224));
    tf_node(nodes, "RealDiv", "ratio", TF_FLOAT,
            TF_INPUTS("enlarged:output:0", "shorter:output:0"));
    tf_node(nodes, "Mul", "scaled", TF_FLOAT, TF_INPUTS("float_sides:y:0", "ratio:z:0"));
    cast(nodes, "rounded", "scaled:z:0", TF_FLOAT, TF_INT32);
    tf_const_int(nodes, "side", side);
    tf_node(nodes, "Maximum", "new_sides", TF_INT32, TF_INPUTS("rounded:y:0", "side:output:0"));
}

static void write_resizing(struct tf_nodes *nodes)
{
    tf_begin(nodes, "ExpandDims", "one_picture");
    tf_input(nodes, "decoded:image:0");
    tf_input(nodes, "first_axis:output:0");
    tf_attr_type(nodes, "T", TF_UINT8);
    tf_attr_type(nodes, "Tdim", TF_INT32);
    tf_end(nodes);
    tf_begin(nodes, "ResizeBilinear", "resized");
    tf_input(nodes, "one_picture:output:0");
    tf_input(nodes, "new_sides:z:0");
    tf_attr_type(nodes, "T", TF_UINT8);
    tf_end(nodes);
}

static void write_cutting(struct tf_nodes *nodes, int side)
{
    tf_node(nodes, "Sub", "beyond", TF_INT32, TF_INPUTS("new_sides:z:0", "side:output:0"));
    tf_const_int(nodes, "two", 2);
    tf_node(nodes, "FloorDiv", "before", TF_INT32, TF_INPUTS("beyond:z:0", "two:output:0"));
    tf_begin(nodes, "ConcatV2", "corner");
    tf_input(nodes, "from_height:output:0");
    tf_input(nodes, "before:z:0");
    tf_input(nodes, "from_height:output:0");
    tf_input(nodes, "first_axis:output:0");
    tf_attr_type(nodes, "T", TF_INT32);
    tf_attr_type(nodes, "Tidx", TF_INT32);
    tf_attr_int(nodes, "N", 3);
    tf_end(nodes);
    tf_const_ints(nodes, "cut_shape", (int32_t[]){1, side, side, 3}, 4);
    slice(nodes, "cut", TF_FLOAT,
          TF_INPUTS("resized:resized_images:0", "corner:output:0", "cut_shape:output:0"));
    tf_const_ints(nodes, "pixels_shape", (int32_t[]){side, side, 3}, 3);
    tf_begin(nodes, "Reshape", "picture");
    tf_input(nodes, "cut:output:0");
    tf_input(nodes, "pixels_shape:output:0");
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "Tshape", TF_INT32);
    tf_end(nodes);
}

static void write_numbers(struct tf_nodes *nodes)
{
    struct picture_numbers numbers = picture_numbers_imagenet; /* whose scale is 1 */
    tf_const(nodes, "mean", &(struct tensor){DTYPE_F32, SHAPE(3), numbers.mean});
    tf_node(nodes, "Sub", "centred", TF_FLOAT, TF_INPUTS("picture:output:0", "mean:output:0"));
}

void tf_picture_write(int side, struct strbuf *library)
{
    struct tf_nodes nodes;
    tf_nodes_init(&nodes, TF_FUNCTION_NODE);
    write_decoding(&nodes);
    write_new_sides(&nodes, side);
    write_resizing(&nodes);
    write_cutting(&nodes, side);
    write_numbers(&nodes);
    size_t function = proto_begin(library, LIBRARY_FUNCTION);
    put_signature(library);
    strbuf_add_bytes(library, nodes.bytes.text, nodes.bytes.length);
    put_result(library, "pixels", "centred:z:0");
    proto_end(library, function);
    library->failed |= nodes.bytes.failed;
    tf_nodes_release(&nodes);
}
