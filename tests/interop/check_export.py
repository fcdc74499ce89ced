#!/usr/bin/env python3
"""What we export is what others compute: TensorFlow loads the SavedModel (tf.saved_model.load, a
session, and the C loader that TensorFlow Serving uses) and runs its signatures, onnxruntime runs the
ONNX file after ONNX's own checker, and both agree with `lockstep eval --as-served`. And the other
way: a SavedModel that TensorFlow made is read by us.

usage: check_export.py LOCKSTEP DATA    (EXPORT_CHECKS=mnist,resnet50,... picks some)
ONNX and onnxruntime come from their own environment (tools/venv onnxruntime ...)."""
import base64
import ctypes
import glob
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
import numpy as np
import tensorflow as tf

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
DATA = pathlib.Path((sys.argv + [""])[2]).resolve()
TREE = pathlib.Path(__file__).resolve().parents[2]
ONNX = ["onnx==1.16.2", "onnxruntime==1.22.1", "numpy==2.2.6"]
TIGHT, LOOSE = 1e-5, 1e-4  # of the largest output

ONNX_RUN = """
import sys, numpy, onnx, onnxruntime
model, given, taken = sys.argv[1:4]
onnx.checker.check_model(model, full_check=True)
loaded = onnx.load(model, load_external_data=False)
assert loaded.ir_version == 8 and [(o.domain, o.version) for o in loaded.opset_import] == [("", 17)]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
inputs = dict(numpy.load(given))
names = [output.name for output in session.get_outputs()]
numpy.savez(taken, **dict(zip(names, session.run(names, inputs))))
"""


def run(*words):
    done = subprocess.run([str(PROGRAM), *map(str, words)], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"
    return done.stdout


def export(folder, *words):
    """Trains for a moment and exports; the version's directory."""
    run("train", *words, "--export-dir", folder / "export", "--json", folder / "train.json",
        "--eval-data", "none", "--quiet")
    path = pathlib.Path(json.loads((folder / "train.json").read_text())["export"])
    assert path == folder / "export" / "1", path
    return path


def ours(folder, path, inputs, signature="serving_default", batch=4):
    """The answers of `eval --as-served`."""
    request, reply = folder / "request.json", folder / "reply.json"
    columns = {key: plain(values) for key, values in inputs.items()}
    request.write_text(json.dumps({"inputs": columns}))
    run("eval", path, "--as-served", "--signature", signature, "--inputs", request,
        "--outputs", reply, "--batch-size", batch)
    answers = json.loads(reply.read_text())["outputs"]
    return {key: np.array(value, np.float32 if is_float(value) else None)
            for key, value in answers.items()}


def is_float(value):
    while isinstance(value, list):
        value = value[0]
    return isinstance(value, float)


def plain(values):
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.tolist()
    return [{"b64": base64.b64encode(value).decode()} for value in values]


def theirs_onnx(folder, path, inputs):
    python = subprocess.run([TREE / "tools/venv", "onnxruntime", *ONNX], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    np.savez(folder / "given.npz", **inputs)
    done = subprocess.run([python, "-c", ONNX_RUN, path / "model.onnx", folder / "given.npz",
                           folder / "taken.npz"], check=False, text=True, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(folder / "taken.npz"))


def as_tensors(inputs):
    return {key: tf.constant(value if value.dtype != object else list(value))
            for key, value in inputs.items()}


def theirs_tensorflow(path, inputs, signature="serving_default"):
    loaded = tf.saved_model.load(str(path))
    answers = loaded.signatures[signature](**as_tensors(inputs))
    return {key: value.numpy() for key, value in answers.items()}


def theirs_session(path, inputs, signature):
    """As programs for TensorFlow 1 do it."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        found = meta.signature_def[signature]
        feeds = {found.inputs[key].name: value if value.dtype != object else list(value)
                 for key, value in inputs.items()}
        return session.run({key: info.name for key, info in found.outputs.items()}, feeds)


def load_as_serving(path):
    """The C loader: it restores the variables, too."""
    library = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(tf.__file__),
                                                 "libtensorflow_cc.so.*"))[0])
    for name in ("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions",
                 "TF_LoadSessionFromSavedModel"):
        getattr(library, name).restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    status, graph = library.TF_NewStatus(), library.TF_NewGraph()
    tags = (ctypes.c_char_p * 1)(b"serve")
    session = library.TF_LoadSessionFromSavedModel(
        ctypes.c_void_p(library.TF_NewSessionOptions()), None, str(path).encode(), tags, 1,
        ctypes.c_void_p(graph), None, ctypes.c_void_p(status))
    code = library.TF_GetCode(ctypes.c_void_p(status))
    assert code == 0 and session, library.TF_Message(ctypes.c_void_p(status))


def assert_close(what, got, expected, limit):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, (what, got.shape, expected.shape)
    if expected.dtype.kind in "OSU" or got.dtype.kind in "OSU":
        as_text = [[v if isinstance(v, str) else v.decode() for v in x.ravel().tolist()]
                   for x in (got, expected)]
        assert as_text[0] == as_text[1], (what, as_text)
        return
    if expected.dtype.kind in "iu":
        assert (got == expected).all(), (what, got, expected)
        return
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert np.isfinite(got).all() and error <= limit, (what, error, limit)


def compare(got, expected, limit, keys=None):
    assert keys is not None or set(got) == set(expected), (set(got), set(expected))
    for key in keys or expected:
        assert_close(key, got[key], expected[key], limit)


def three_ways(folder, path, inputs, limit, signature="serving_default"):
    mine = ours(folder, path, inputs, signature)
    compare(mine, theirs_tensorflow(path, inputs, signature), limit)
    compare(mine, theirs_session(path, inputs, signature), limit)
    load_as_serving(path)
    return mine


def classifier(folder, path, pixels, limit):
    """Pixels N, H, W, C by every way there is."""
    mine = three_ways(folder, path, {"input_tensor": pixels}, limit)
    onnx = theirs_onnx(folder, path, {"input_tensor": np.moveaxis(pixels, 3, 1)})
    assert list(onnx) == ["logits", "probabilities"], list(onnx)
    compare(onnx, mine, limit, ["probabilities"])
    assert onnx["logits"].argmax(1).tolist() == mine["classes"].tolist()
    return mine


def pictures_of(count):
    files = sorted(glob.glob(str(DATA / "imagenette/val/*/*.JPEG")))[::37][:count]
    odd = [DATA / "odd-images" / name for name in ("made_png_named.JPEG",)]
    read = [pathlib.Path(name).read_bytes() for name in [*files, *odd] if os.path.exists(name)]
    return np.array(read + [None], object)[:-1]


def pixels_of(path, pictures):
    """What the graph makes of encoded pictures."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        return session.run("input_tensor:0", {"image_bytes:0": list(pictures)})


def real_digits(count):
    path = DATA / "mnist/t10k-images-idx3-ubyte.gz"
    if not path.exists():
        return np.zeros((0, 28, 28, 1), np.float32)
    raw = np.frombuffer(gzip.decompress(path.read_bytes())[16:], np.uint8)
    return (raw.reshape(-1, 28, 28, 1)[:count] / 255).astype(np.float32)


def mnist(folder):
    random = np.random.default_rng(1)
    digits = np.concatenate([random.random((3, 28, 28, 1), np.float32), real_digits(20)])
    for model in ("mnist_custom", "mnist_keras"):
        place = folder / model
        place.mkdir()
        path = export(place, model, "--steps", 20, "--examples", 640)
        mine = classifier(place, path, digits, TIGHT)
        assert mine["probabilities"].shape == (len(digits), 10)
    scores = json.loads(run("eval", folder / "mnist_custom/export", "--examples", 200, "--json", "-"))
    assert scores["examples"] == 200 and scores["accuracy"] > 0.1, scores


def resnet50(folder):
    labels = folder / "labels.txt"
    labels.write_text("".join(f"class {i}\n" for i in range(1001)))
    path = export(folder, "resnet50", "--data", "synthetic", "--steps", 2, "--batch-size", 4,
                  "--labels", labels)
    random = np.random.default_rng(2)
    classifier(folder, path, random.normal(0, 60, (3, 224, 224, 3)).astype(np.float32), LOOSE)
    pictures = pictures_of(6)
    if not len(pictures):
        print("      (no pictures in", DATA, "- none were compared)")
        return
    mine = three_ways(folder, path, {"image_bytes": pictures}, LOOSE, "image_bytes")
    compare(classifier(folder, path, pixels_of(path, pictures), LOOSE), mine, LOOSE)
    assert mine["labels"].tolist() == [f"class {i}" for i in mine["classes"]], mine["labels"]
    assert (path / "assets/labels.txt").read_text() == labels.read_text()


def bytes_by_default(folder):
    """A checkpoint of a small ResNet-50, exported so that clients send pictures."""
    run("train", "resnet50", "--data", "synthetic", "--steps", 1, "--batch-size", 2,
        "--image-size", 64, "--classes", 10, "--checkpoint-dir", folder / "run", "--quiet",
        "--eval-data", "none")
    path = folder / "export/1"
    run("export", folder / "run", "--export-dir", path.parent, "--image-bytes-as-serving-input")
    pictures = pictures_of(3)
    if not len(pictures):
        print("      (no pictures in", DATA, "- none were compared)")
        return
    three_ways(folder, path, {"image_bytes": pictures}, LOOSE)
    pixels = np.random.default_rng(6).normal(0, 60, (2, 64, 64, 3)).astype(np.float32)
    three_ways(folder, path, {"input_tensor": pixels}, LOOSE, "predict")


def vgg16(folder):
    path = export(folder, "vgg16", "--data", "synthetic", "--steps", 1, "--batch-size", 1)
    random = np.random.default_rng(3)
    classifier(folder, path, random.normal(0, 60, (2, 224, 224, 3)).astype(np.float32), LOOSE)


TORCH = """
import sys, warnings, torch
from torch import nn
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import onnx_networks as networks
warnings.filterwarnings("ignore")

class Functions(nn.Module):
    "Every function of one number that there is, each on channels of its own, and a softmax of them."
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 17, 3, 2, 1)
        self.parts = nn.ModuleList([nn.Conv2d(17, 1, 1) for _ in range(17)])
        self.scale = nn.Parameter(torch.rand(17, 1, 1) + 0.5)
        self.last = nn.Linear(34 * 32 * 4, 6)

    def forward(self, x):
        x = torch.tanh(self.conv(x)) / self.scale
        kinds = [torch.tanh, nn.LeakyReLU(0.1), nn.ELU(0.7), nn.ELU(), nn.Softplus(), nn.Softsign(),
                 nn.Hardsigmoid(), nn.Hardswish(), nn.SiLU(), nn.GELU(), torch.erf, torch.exp,
                 lambda v: torch.log(torch.exp(v) + 1), lambda v: torch.sqrt(torch.abs(v) + 0.1),
                 lambda v: -v, lambda v: torch.reciprocal(torch.exp(v)), lambda v: torch.exp(v) ** 1.5]
        x = torch.cat([kind(part(x)) for kind, part in zip(kinds, self.parts)], 1)
        x = torch.softmax(x, 1) + torch.clamp(x, -0.5, 0.75)
        x = torch.log_softmax(x.reshape(-1, 34, 32, 4), 3)
        return self.last(torch.flatten(x, 1))

makers = {"mobilenet_v2": (lambda: networks.MobileNetV2(20), (3, 64, 64)),
          "cnn": (networks.cnn, (1, 28, 28)), "mlp": (networks.mlp, (1, 28, 28)),
          "views": (networks.Views, (1, 28, 28)), "mixed": (networks.Mixed, (3, 64, 64)),
          "resnet18": (lambda: networks.resnet18(12), (3, 64, 64)),
          "functions": (Functions, (3, 32, 32))}
torch.manual_seed(3)
for name, (make, shape) in makers.items():
    torch.onnx.export(networks.draw(make(), 3), torch.randn(2, *shape), f"{sys.argv[2]}/{name}.onnx",
                      opset_version=13, input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
"""


def read_from_onnx(folder):
    """Networks that PyTorch wrote, trained for a moment by us, and exported again."""
    done = subprocess.run(["/usr/bin/python3", "-c", TORCH, TREE / "tests/reference", folder],
                          check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr[-2000:]
    random = np.random.default_rng(8)
    for file in sorted(folder.glob("*.onnx")):
        place = folder / file.stem
        place.mkdir()
        path = export(place, file, "--data", "synthetic", "--steps", 3, "--batch-size", 4,
                      "--lr", 0.001)
        size, channels = {"functions": (32, 3)}.get(
            file.stem, (28, 1) if file.stem in ("cnn", "mlp", "views") else (64, 3))
        pixels = random.normal(0, 1, (5, size, size, channels)).astype(np.float32)
        mine = three_ways(place, path, {"input_tensor": pixels}, LOOSE)
        onnx = theirs_onnx(place, path, {"input_tensor": np.moveaxis(pixels, 3, 1)})
        compare(onnx, mine, LOOSE, [key for key in mine if key in onnx])
        assert set(onnx) & set(mine), (file.stem, set(onnx), set(mine))
        print("       ", file.stem, "as", ", ".join(sorted(mine)))


def rows_of_criteo(count):
    """Inputs of the signature, as the original client makes them."""
    lines = (DATA / "criteo/eval.csv").read_text().splitlines()[:count]
    fields = [line.split(",") for line in lines]
    inputs = {f"I{i}": np.array([float(row[i] or 0) for row in fields], np.float32)
              for i in range(1, 14)}
    for i in range(1, 27):
        texts = [(row[13 + i] or " ").encode() for row in fields]
        inputs[f"C{i}"] = np.array(texts + [None], object)[:-1]
    return inputs


def missing_some(inputs):
    inputs["C3"][1] = b""
    inputs["C26"][4] = b""
    return inputs


def buckets_of(inputs, buckets=1000):
    columns = []
    for i in range(1, 27):
        texts = list(inputs[f"C{i}"])
        hashed = tf.strings.to_hash_bucket_fast(texts, buckets).numpy()
        columns.append(np.where([text == b"" for text in texts], -1, hashed))
    return {"numeric": np.stack([inputs[f"I{i}"] for i in range(1, 14)], 1),
            "category": np.stack(columns, 1).astype(np.int64)}


def examples_of(inputs):
    """tf.Examples; what is missing is left out."""
    messages = []
    for row in range(len(inputs["I1"])):
        features = {}
        for key, values in inputs.items():
            if key[0] == "I":
                features[key] = tf.train.Feature(
                    float_list=tf.train.FloatList(value=[values[row]]))
            elif values[row] != b" ":
                features[key] = tf.train.Feature(
                    bytes_list=tf.train.BytesList(value=[values[row]]))
        example = tf.train.Example(features=tf.train.Features(feature=features))
        messages.append(example.SerializeToString())
    return np.array(messages + [None], object)[:-1]


def wide_deep(folder):
    path = export(folder, "wide_deep", "--data", f"criteo:{DATA / 'criteo'}", "--steps", 30)
    inputs = missing_some(rows_of_criteo(50))
    mine = three_ways(folder, path, inputs, TIGHT, "predict")
    assert set(mine) == {"logits", "logistic", "probabilities", "class_ids", "classes",
                         "all_class_ids", "all_classes"}, set(mine)
    assert mine["probabilities"].shape == (50, 2) and mine["class_ids"].shape == (50, 1)
    compare(theirs_onnx(folder, path, buckets_of(inputs)), mine, TIGHT,
            ["logits", "logistic", "probabilities"])
    examples = {"inputs": examples_of(inputs)}
    scores = three_ways(folder, path, examples, TIGHT, "classification")
    assert_close("scores", scores["scores"], mine["probabilities"], TIGHT)
    compare(three_ways(folder, path, examples, TIGHT, "regression"),
            {"outputs": mine["logistic"]}, TIGHT)


def table(folder):
    """Named columns, unlike buckets, a logarithm; the SavedModel knows them all."""
    (folder / "rows.csv").write_text("".join(
        f"{i % 2},{i * 3},{-i},{'red' if i % 3 else ''},{'abc'[i % 3]}\n" for i in range(200)))
    (folder / "columns.txt").write_text(COLUMNS)
    path = export(folder, "wide_deep", "--data", f"table:{folder}", "--steps", 20,
                  "--batch-size", 32, "--hidden", "16,8")
    inputs = {"age": np.array([1, 50, 7], np.float32), "income": np.array([-3, 9, 100], np.float32),
              "colour": np.array([b"red", b"", b"blue"], object),
              "letter": np.array([b"a", b"b", b"z"], object)}
    three_ways(folder, path, inputs, TIGHT, "predict")


COLUMNS = """file train rows.csv
file eval rows.csv
label clicked
column age numeric
column income numeric log
column colour categorical 10
column letter categorical 7
"""


def made_by_tensorflow(folder):
    made = DATA / "tf-made/savedmodel-dense"
    if not made.exists():
        print("      (none in", DATA, "- nothing was read)")
        return
    example = json.loads((made / "example.json").read_text())
    mine = ours(folder, made, {"x": np.array(example["x"], np.float32)})
    assert_close("probabilities", mine["probabilities"],
                 np.array(example["probabilities"], np.float32), TIGHT)
    assert mine["classes"].tolist() == example["classes"]


class Network(tf.Module):
    """Every operation that we read: with functions in functions, as Keras makes them."""

    def __init__(self):
        super().__init__()
        random = tf.random.Generator.from_seed(4)
        self.kernel = tf.Variable(random.normal([3, 3, 3, 8]) * 0.2)
        self.depth = tf.Variable(random.normal([3, 3, 8, 2]) * 0.2)
        self.norm = [tf.Variable(tf.abs(random.normal([16])) + 0.1) for _ in range(4)]
        self.bias = tf.Variable(random.normal([8]))
        self.dense = tf.Variable(random.normal([16 * 5 * 5, 6]) * 0.1)
        self.last = tf.Variable(random.normal([6]))

    @tf.function
    def middle(self, x):
        x = tf.nn.depthwise_conv2d(x, self.depth, [1, 1, 1, 1], "SAME")
        x = tf.compat.v1.nn.fused_batch_norm(x, *self.norm, epsilon=1e-3, is_training=False)[0]
        return tf.nn.relu(x)

    @tf.function(input_signature=[tf.TensorSpec([None, 10, 10, 3], tf.float32, name="pixels")])
    def serve(self, pixels):
        x = tf.pad(pixels, [[0, 0], [1, 1], [1, 1], [0, 0]])
        x = tf.nn.bias_add(tf.nn.conv2d(x, self.kernel, 1, "VALID"), self.bias)
        x = self.middle(tf.nn.relu(x))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.reshape(x, [-1, 16 * 5 * 5])
        logits = tf.matmul(x, self.dense) + self.last
        return {"scores": tf.nn.softmax(logits), "best": tf.argmax(logits, 1), "logits": logits}


def made_now(folder):
    network = Network()
    tf.saved_model.save(network, str(folder / "made/3"), signatures={"serving_default": network.serve})
    pixels = np.random.default_rng(5).normal(size=(5, 10, 10, 3)).astype(np.float32)
    expected = {key: value.numpy() for key, value in network.serve(pixels).items()}
    compare(ours(folder, folder / "made", {"pixels": pixels}), expected, TIGHT)


def keras_models():
    """Their inputs' shapes and they themselves: layers that are usual."""
    layers = keras.layers
    sequential = keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(8, 3, activation="relu"),
        layers.BatchNormalization(), layers.MaxPooling2D(), layers.Dropout(0.5), layers.Flatten(),
        layers.Dense(16, activation="relu"), layers.BatchNormalization(),
        layers.Dense(10, activation="softmax")])
    given = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", strides=2, use_bias=False)(given)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Add()([x, layers.DepthwiseConv2D(3, padding="same")(x)])
    x = layers.AveragePooling2D(2)(layers.Conv2D(8, 3)(layers.ZeroPadding2D()(x)))
    functional = keras.Model(given, layers.Dense(5)(layers.GlobalAveragePooling2D()(x)))
    given = keras.Input((16, 16, 3))
    x = layers.ReLU(max_value=6)(layers.Conv2D(8, 3, strides=2, padding="same")(given))
    x = layers.DepthwiseConv2D(3, padding="same", activation="tanh")(x)
    x = layers.LeakyReLU(negative_slope=0.1)(layers.ELU()(layers.Conv2D(6, 1)(x)))
    x = layers.Dense(12, activation="softplus")(layers.GlobalAveragePooling2D()(x))
    functions = keras.Model(given, layers.Dense(4)(x))
    return [((28, 28, 1), sequential), ((32, 32, 3), functional), ((16, 16, 3), functions)]


def made_by_keras(folder):
    """As Keras exports them: its batch norm is written out, its biases are reshaped."""
    random = np.random.default_rng(7)
    for i, (shape, model) in enumerate(keras_models()):
        for layer in model.layers:
            layer.set_weights([np.abs(weights) + random.random(weights.shape).astype(np.float32)
                               if "batch_norm" in layer.name else weights
                               for weights in layer.get_weights()])
        place = folder / f"keras{i}"
        model.export(str(place / "1"), verbose=False)
        pixels = random.random((3, *shape), np.float32)
        key = next(iter(tf.saved_model.load(str(place / "1")).signatures["serving_default"]
                        .structured_input_signature[1]))
        compare(ours(place, place, {key: pixels}), {"output_0": model(pixels).numpy()}, TIGHT)


def refused(folder):
    """Operations that we lack are named all at once."""
    class Strange(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x):
            return {"y": tf.math.cosh(tf.sort(tf.math.sin(x)))}
    strange = Strange()
    tf.saved_model.save(strange, str(folder / "strange"), signatures=strange.serve)
    (folder / "request.json").write_text('{"inputs": {"x": [[1, 2, 3, 4]]}}')
    done = subprocess.run([PROGRAM, "eval", folder / "strange", "--as-served", "--inputs",
                           folder / "request.json"], text=True, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1, done
    for name in ("Cosh", "Sin"):
        assert name in done.stderr, done.stderr


CHECKS = [mnist, read_from_onnx, made_by_tensorflow, made_now, made_by_keras, refused, wide_deep, table,
          bytes_by_default, resnet50, vgg16]


def main():
    picked = os.environ.get("EXPORT_CHECKS", "").split(",")
    checks = [check for check in CHECKS if check.__name__ in picked or picked == [""]]
    failed = 0
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(pathlib.Path(folder))
                print("ok   ", check.__name__.replace("_", " "))
            except Exception:  # pylint: disable=broad-except
                print("FAIL ", check.__name__, traceback.format_exc()[-3000:])
                failed += 1
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
