#!/usr/bin/env python3
"""Other people's gRPC clients ask our gRPC door: TensorFlow Serving's API as the original Wide & Deep
and ResNet clients use it, Triton's client, health and reflection of grpcio. Behind the door stands a
fake core (tests/serve/grpc_server.c), whose answers are known; in the end networks that we trained,
whose answers are compared with TensorFlow's to the same export.

usage: check_grpc.py [LOCKSTEP] [DATA]    with a Python that has TensorFlow"""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
        del os.environ[name]
place = subprocess.run(["tests/interop/setup-serving-api", sys.executable], check=True,
                       stdout=subprocess.PIPE, text=True).stdout.strip()
sys.path.append(place)

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc  # noqa: E402
from tensorflow_serving.apis import (classification_pb2, get_model_metadata_pb2,  # noqa: E402
                                     get_model_status_pb2, inference_pb2, model_management_pb2,
                                     model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc, regression_pb2)

from tally import check, ends  # noqa: E402

LOCKSTEP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/lockstep")
SERVER = "build/release/tests/serve/grpc_server"


class Server:
    """The door, for the length of a with block."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __enter__(self):
        self.process = subprocess.Popen([SERVER, *self.arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.address = "127.0.0.1:" + self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        check("the server ends well", self.process.wait(30) == 0, self.process.returncode)


def status_of(call):
    try:
        call()
        return "OK", ""
    except grpc.RpcError as error:
        return error.code().name, error.details()


def check_wide_deep(stub):
    """What run_tf_serving_client.py sends and reads."""
    rows = 5
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "wide-deep-large-ds-fp32-training"
    request.model_spec.signature_name = "predict"
    numbers = np.linspace(0.1, 0.9, rows).astype(np.float32)
    for i in range(1, 14):
        request.inputs["I%d" % i].CopyFrom(tf.make_tensor_proto(numbers, shape=[rows]))
    for i in range(1, 27):
        request.inputs["C%d" % i].CopyFrom(
            tf.make_tensor_proto(np.array([b"68fd1e64", b"\xff\x00", b" ", b"", b"x"]), shape=[rows]))
    reply = stub.Predict(request, 10)
    values = np.array(reply.outputs["probabilities"].float_val).reshape(rows, 2)
    check("wide & deep: probabilities.float_val", np.allclose(values[:, 1], numbers), values)
    check("wide & deep: class_ids", list(reply.outputs["class_ids"].int64_val) == [0, 0, 0, 1, 1],
          reply.outputs["class_ids"])
    check("wide & deep: classes", list(reply.outputs["classes"].string_val) ==
          [b"0", b"0", b"0", b"1", b"1"], reply.outputs["classes"])
    check("wide & deep: make_ndarray", np.allclose(
        tf.make_ndarray(reply.outputs["probabilities"]), values))
    check("wide & deep: the version", reply.model_spec.version.value == 7 and
          reply.model_spec.signature_name == "predict", reply.model_spec)
    # One value for all rows, and lists instead of tensor_content.
    for i in range(1, 14):
        tensor = request.inputs["I%d" % i]
        tensor.ClearField("tensor_content")
        tensor.ClearField("float_val")
        tensor.float_val.append(0.25)
    reply = stub.Predict(request, 10)
    check("wide & deep: a value that is repeated",
          list(reply.outputs["probabilities"].float_val) == [0.75, 0.25] * rows)


def check_packed(address):
    """Clients that pack what they send, for all calls or for one."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "sums"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.ones((50, 3), np.float32)))
    for name, how in (("gzip", grpc.Compression.Gzip), ("deflate", grpc.Compression.Deflate)):
        with grpc.insecure_channel(address, compression=how) as channel:
            reply = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, 10)
        check("packed by " + name, list(reply.outputs["sum"].float_val) == [3] * 50, reply)


def check_resnet(stub):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "resnet50"
    images = np.zeros((3, 224, 224, 3), np.float32)
    images[:, 0, 0, 0] = [4, 0, 9]
    request.inputs["input_tensor"].CopyFrom(tf.make_tensor_proto(images, shape=images.shape))
    reply = stub.Predict(request, 10.0)
    values = tf.make_ndarray(reply.outputs["probabilities"])
    check("resnet: classes", list(values.argmax(1)) == [4, 0, 9], values)


def check_errors(stub):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "nobody"
    check("an unknown model", status_of(lambda: stub.Predict(request, 10)) ==
          ("NOT_FOUND", "Servable not found for request: Latest(nobody)"))
    request.model_spec.name = "sums"
    request.model_spec.signature_name = "other"
    check("an unknown signature", status_of(lambda: stub.Predict(request, 10)) ==
          ("FAILED_PRECONDITION", 'Serving signature key "other" not found.'))
    request.model_spec.signature_name = ""
    code, text = status_of(lambda: stub.Predict(request, 10))
    check("a missing input", code == "INVALID_ARGUMENT" and
          "Missing but required: {x}" in text, text)
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.zeros((1, 3)), dtype=tf.float64))
    code, text = status_of(lambda: stub.Predict(request, 10))
    check("another type", code == "INVALID_ARGUMENT" and "DT_DOUBLE" in text, text)
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.zeros((1, 4), np.float32)))
    code, text = status_of(lambda: stub.Predict(request, 10))
    check("another shape", code == "INVALID_ARGUMENT", (code, text))
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.ones((1, 3), np.float32)))
    request.output_filter.append("sum")
    reply = stub.Predict(request, 10)
    check("an output filter", list(reply.outputs) == ["sum"] and
          list(reply.outputs["sum"].float_val) == [3.0], reply)
    request.model_spec.version_label = "stable"
    check("a label", stub.Predict(request, 10).model_spec.version.value == 7)
    request.model_spec.version.value = 3
    check("another version", status_of(lambda: stub.Predict(request, 10))[0] == "NOT_FOUND")
    code, text = status_of(lambda: stub.MultiInference(inference_pb2.MultiInferenceRequest(), 10))
    check("no task", code == "INVALID_ARGUMENT", (code, text))


def check_types(stub):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "sums"
    request.model_spec.signature_name = "bytes"
    pixels = np.array([[0, 1, 128, 255], [9, 8, 7, 6]], np.uint8)
    numbers = np.array([-5, 2**31 - 1], np.int32)
    names = np.array([b"a\0b", b""], object)
    request.inputs["bytes"].CopyFrom(tf.make_tensor_proto(pixels))
    request.inputs["number"].CopyFrom(tf.make_tensor_proto(numbers))
    request.inputs["name"].CopyFrom(tf.make_tensor_proto(names))
    for form in ("as TensorFlow writes them", "as lists"):
        reply = stub.Predict(request, 10)
        check("types back " + form,
              (tf.make_ndarray(reply.outputs["bytes"]) == pixels).all() and
              (tf.make_ndarray(reply.outputs["number"]) == numbers).all() and
              list(reply.outputs["name"].string_val) == list(names), reply)
        for key, values in (("bytes", pixels), ("number", numbers)):
            request.inputs[key].ClearField("tensor_content")
            del request.inputs[key].int_val[:]
            request.inputs[key].int_val.extend(int(v) for v in values.flatten())


def check_models(channel, stub):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "resnet50"
    request.metadata_field.append("signature_def")
    reply = stub.GetModelMetadata(request, 10)
    found = get_model_metadata_pb2.SignatureDefMap()
    reply.metadata["signature_def"].Unpack(found)
    info = found.signature_def["serving_default"].inputs["input_tensor"]
    check("metadata", [d.size for d in info.tensor_shape.dim] == [-1, 224, 224, 3] and
          info.dtype == tf.float32.as_datatype_enum and reply.model_spec.version.value == 7, found)
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "sums"
    reply = models.GetModelStatus(request, 10)
    check("status", [(v.version, v.state, v.status.error_code) for v in
                     reply.model_version_status] == [(7, 30, 0), (6, 50, 13)], reply)
    request = text_format.Parse(
        'config{model_config_list{config{name:"a" base_path:"/a" model_platform:"tensorflow" '
        'model_version_policy{specific{versions:1 versions:2}} version_labels{key:"x" value:2}}}} '
        'metric_names:"m"', model_management_pb2.ReloadConfigRequest())
    reply = models.HandleReloadConfigRequest(request, 10)
    check("a new configuration", reply.status.error_code == 0 and reply.metric[0].name == "m", reply)


def check_health(server, channel):
    stub = health_pb2_grpc.HealthStub(channel)
    check("health", stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1)
    service = health_pb2.HealthCheckRequest(service="tensorflow.serving.PredictionService")
    check("health of a service", stub.Check(service, timeout=10).status == 1)
    watch = stub.Watch(service, timeout=10)
    check("health, watched", next(watch).status == 1)
    for byte, status in (("n", 2), ("y", 1)):
        server.process.stdin.write(byte)
        server.process.stdin.flush()
        check("health, watched, changes", next(watch).status == status)
    watch.cancel()


def check_reflection(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = [reflection_pb2.ServerReflectionRequest(list_services=""),
             reflection_pb2.ServerReflectionRequest(
                 file_containing_symbol="tensorflow.serving.PredictRequest")]
    replies = list(stub.ServerReflectionInfo(iter(asked), timeout=10))
    names = [s.name for s in replies[0].list_services_response.service]
    check("reflection: services", "tensorflow.serving.PredictionService" in names and
          "inference.GRPCInferenceService" in names, names)
    check("reflection: a file", len(replies[1].file_descriptor_response.file_descriptor_proto) > 1)


def check_triton(address):
    import tritonclient.grpc as triton
    client = triton.InferenceServerClient(address)
    check("v2: live and ready", client.is_server_live() and client.is_server_ready() and
          client.is_model_ready("sums") and not client.is_model_ready("nobody"))
    metadata = client.get_model_metadata("sums")
    check("v2: metadata", [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] ==
          [("x", "FP32", [-1, 3])], metadata)
    check("v2: server", client.get_server_metadata().name == "lockstep")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = triton.InferInput("x", x.shape, "FP32")
    tensor.set_data_from_numpy(x)
    reply = client.infer("sums", [tensor], request_id="4711")
    check("v2: raw", list(reply.as_numpy("sum")) == [3.0, 12.0] and
          list(reply.as_numpy("text")) == [b"row 0", b"row 1"] and
          reply.get_response().id == "4711", reply.get_response())
    reply = client.infer("sums", [tensor], outputs=[triton.InferRequestedOutput("doubled")])
    check("v2: one output", (reply.as_numpy("doubled") == 2 * x).all() and
          reply.as_numpy("sum") is None)
    names = triton.InferInput("name", [1], "BYTES")
    names.set_data_from_numpy(np.array([b"a\0b"], object))
    pixels = triton.InferInput("bytes", [1, 4], "UINT8")
    pixels.set_data_from_numpy(np.array([[1, 2, 3, 255]], np.uint8))
    numbers = triton.InferInput("number", [1], "INT32")
    numbers.set_data_from_numpy(np.array([-7], np.int32))
    reply = client.infer("sums", [names, pixels, numbers], parameters={"signature_name": "bytes"})
    check("v2: other types", list(reply.as_numpy("name")) == [b"a\0b"] and
          list(reply.as_numpy("number")) == [-7], reply.get_response())
    try:
        client.infer("nobody", [tensor])
        check("v2: an unknown model", False)
    except triton.InferenceServerException as error:
        check("v2: an unknown model", "NOT_FOUND" in error.status(), error)


def check_many(address):
    """Clients side by side, each with its own numbers."""
    wrong = []

    def ask(seed):
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            for i in range(100):
                request = predict_pb2.PredictRequest()
                request.model_spec.name = "sums"
                x = np.full((1 + i % 3, 3), seed + i, np.float32)
                request.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
                reply = stub.Predict(request, 20)
                if list(reply.outputs["sum"].float_val) != list(x.sum(1)):
                    wrong.append((seed, i))

    threads = [threading.Thread(target=ask, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("400 requests over 4 connections", not wrong, wrong)


def check_deadline():
    with Server("delay=0.5") as server, grpc.insecure_channel(server.address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "sums"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.ones((1, 3), np.float32)))
        start = time.time()
        check("a deadline", status_of(lambda: stub.Predict(request, 0.1))[0] ==
              "DEADLINE_EXCEEDED" and time.time() - start < 0.45)


def check_limits():
    with Server("message=100000") as server, grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        check("a message that is too long", status_of(lambda: call(b"x" * 200000, timeout=10))[0] ==
              "RESOURCE_EXHAUSTED")
        check("bytes that are no message", status_of(lambda: call(b"\xff" * 100, timeout=10))[0] ==
              "INVALID_ARGUMENT")
        deep = b""
        for _ in range(20000):
            deep = b"\x12" + bytes([len(deep) & 127 | 128, len(deep) >> 7 & 127 | 128,
                                    len(deep) >> 14]) + deep
        check("messages in messages", status_of(lambda: call(deep[:90000], timeout=10))[0] ==
              "INVALID_ARGUMENT")
        other = channel.unary_unary("/tensorflow.serving.SessionService/SessionRun")
        check("another method", status_of(lambda: other(b"", timeout=10))[0] == "UNIMPLEMENTED")


def check_ending():
    """A server that ends does not wait for those who only listen."""
    with Server() as server:
        channel = grpc.insecure_channel(server.address)
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
        check("health before the end", next(watch).status == 1)
        start = time.time()
        server.process.stdin.close()
        code, _ = status_of(lambda: list(watch))
        check("health at the end", code in ("UNAVAILABLE", "CANCELLED"), code)
        check("the end comes soon", server.process.wait(30) == 0 and time.time() - start < 4.5,
              time.time() - start)
        channel.close()


class Served:
    """A network that we train for some steps, export and serve as "net"."""

    def __init__(self, model, *words):
        self.words = (model, *words)

    def __enter__(self):
        self.work = tempfile.TemporaryDirectory()
        place = self.work.name
        subprocess.run([LOCKSTEP, "train", *self.words, "--eval-every", "0", "--output-dir",
                        place + "/out", "--export-dir", place + "/export"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.loaded = tf.saved_model.load(place + "/export/1")
        self.process = subprocess.Popen(
            [LOCKSTEP, "serve", "--model", "net=" + place + "/export", "--host", "127.0.0.1",
             "--port", "auto", "--rest-port", "0"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            found = re.search(r"gRPC ModelServer at (\S+)", line)
            if found:
                self.channel = grpc.insecure_channel(found.group(1))
            if line.startswith("Ready"):
                break
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.process.terminate()
        check("serve ends well", self.process.wait(60) == 0, self.process.returncode)
        self.work.cleanup()

    def predict(self, signature, inputs):
        """Our answers, after comparing them with TensorFlow's to the same export."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "net"
        request.model_spec.signature_name = signature
        for key, value in inputs.items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        reply = self.stub.Predict(request, 10)
        given = {key: tf.make_ndarray(value) for key, value in reply.outputs.items()}
        expected = self.loaded.signatures[signature](
            **{key: tf.constant(value) for key, value in inputs.items()})
        for key, tensor in expected.items():
            wanted = tensor.numpy()
            same = given[key].shape == wanted.shape and (
                np.abs(given[key] - wanted).max() <= 1e-5 * np.abs(wanted).max()
                if tensor.dtype == tf.float32 else (given[key] == wanted).all())
            check("%s: %s as TensorFlow has it" % (self.words[0], key), same, (given[key], wanted))
        return given


def check_digits():
    with Served("mnist_custom", "--data", "digits", "--examples", "640", "--steps", "10") as served:
        inputs = served.loaded.signatures["serving_default"].structured_input_signature[1]
        name, spec = list(inputs.items())[0]
        served.predict("serving_default", {name: np.random.default_rng(1).random(
            [5] + spec.shape.as_list()[1:], np.float32)})


def check_clicks():
    """Wide & Deep: Predict, Classify, Regress and MultiInference are of one mind."""
    random = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as work:
        for name in ("train.csv", "eval.csv"):
            with open(os.path.join(work, name), "w") as out:
                for row in random.random((256, 13)):
                    out.write(",".join(["%d" % (row[0] > 0.5)] + ["%.4f" % x for x in row] +
                                       ["%x" % int(97 * row[i % 13]) for i in range(26)]) + "\n")
        with Served("wide_deep", "--data", "criteo:" + work, "--batch-size", "64", "--steps",
                    "4") as served:
            rows = 3
            columns = {"I%d" % i: random.random(rows).astype(np.float32) for i in range(1, 14)}
            columns.update({"C%d" % i: np.array([b"a", b"", b"2f"], object) for i in range(1, 27)})
            given = served.predict("predict", columns)
            check_examples(served.stub, columns, given["probabilities"])


def check_examples(stub, columns, expected):
    request = inference_pb2.MultiInferenceRequest()
    for row in range(len(expected)):
        example = request.input.example_list.examples.add()
        for key, values in columns.items():
            feature = example.features.feature[key]
            if key[0] == "I":
                feature.float_list.value.append(values[row])
            else:
                feature.bytes_list.value.append(values[row])
    classify = classification_pb2.ClassificationRequest(input=request.input)
    classify.model_spec.name = "net"
    reply = stub.Classify(classify, 10)
    scores = [[c.score for c in row.classes] for row in reply.result.classifications]
    check("Classify", np.allclose(scores, expected, atol=1e-6), (scores, expected))
    regress = regression_pb2.RegressionRequest(input=request.input)
    regress.model_spec.name = "net"
    regress.model_spec.signature_name = "regression"
    values = [r.value for r in stub.Regress(regress, 10).result.regressions]
    check("Regress", np.allclose(values, expected[:, 1], atol=1e-6), (values, expected))
    for signature, method in (("classification", "classify"), ("regression", "regress")):
        request.tasks.add(model_spec={"name": "net", "signature_name": signature},
                          method_name="tensorflow/serving/" + method)
    results = stub.MultiInference(request, 10).results
    check("MultiInference", len(results) == 2 and np.allclose(
        [r.value for r in results[1].regression_result.regressions], expected[:, 1], atol=1e-6) and
        len(results[0].classification_result.classifications) == len(expected), results)


def check_token():
    with Server("token=sesame") as server, grpc.insecure_channel(server.address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = classification_pb2.ClassificationRequest()
        request.model_spec.name = "nobody"
        check("no token", status_of(lambda: stub.Classify(request, 10))[0] == "UNAUTHENTICATED")
        check("a wrong token", status_of(lambda: stub.Classify(
            request, 10, metadata=[("authorization", "Bearer simsim")]))[0] == "UNAUTHENTICATED")
        check("the token", status_of(lambda: stub.Classify(
            request, 10, metadata=[("authorization", "Bearer sesame")]))[0] == "NOT_FOUND")


def main():
    subprocess.run(["make", "-s", SERVER], check=True)
    with Server() as server, grpc.insecure_channel(server.address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        check_wide_deep(stub)
        check_resnet(stub)
        check_packed(server.address)
        check_errors(stub)
        check_types(stub)
        check_models(channel, stub)
        check_health(server, channel)
        check_reflection(channel)
        check_triton(server.address)
        check_many(server.address)
    check_deadline()
    check_limits()
    check_token()
    check_ending()
    check_digits()
    check_clicks()
    return ends()


sys.exit(main())
