#!/usr/bin/env python3
"""grpcurl finds our services by reflection and calls them; h2spec finds no more fault with our gRPC
port than with grpcio's own server in the same run.

usage: check_grpc_tools.py [LOCKSTEP] [DATA]    with a Python that has grpcio"""
import json
import os
import re
import subprocess
import sys
from concurrent import futures

import grpc

from tally import check, ends

SERVER = "build/release/tests/serve/grpc_server"


def grpcurl(*words):
    done = subprocess.run([os.path.join(TOOLS, "grpcurl"), "-plaintext", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return done.stdout


def check_grpcurl(address):
    services = grpcurl(address, "list").split()
    check("grpcurl: services", {"tensorflow.serving.PredictionService", "grpc.health.v1.Health",
                                "tensorflow.serving.ModelService",
                                "inference.GRPCInferenceService"} <= set(services), services)
    methods = grpcurl(address, "list", "tensorflow.serving.PredictionService").split()
    check("grpcurl: methods", len(methods) == 5, methods)
    text = grpcurl(address, "describe", "tensorflow.serving.PredictRequest")
    check("grpcurl: a message", "map<string, .tensorflow.TensorProto> inputs = 2;" in text, text)
    request = {"model_spec": {"name": "sums"},
               "inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": 1}, {"size": 3}]},
                                "float_val": [1, 2, 3]}}}
    text = grpcurl("-d", json.dumps(request), address, "tensorflow.serving.PredictionService/Predict")
    reply = json.loads(text)
    check("grpcurl: Predict", reply["outputs"]["sum"]["floatVal"] == [6] and
          reply["modelSpec"]["version"] == "7", text)
    text = grpcurl("-d", '{"model_spec":{"name":"sums"},"metadata_field":["signature_def"]}', address,
                   "tensorflow.serving.PredictionService/GetModelMetadata")
    check("grpcurl: an Any is unpacked", '"methodName": "tensorflow/serving/predict"' in text, text)
    text = grpcurl("-d", '{"model_spec":{"name":"nobody"}}', address,
                   "tensorflow.serving.ModelService/GetModelStatus")
    check("grpcurl: an error", "Code: NotFound" in text, text)
    text = grpcurl(address, "grpc.health.v1.Health/Check")
    check("grpcurl: health", json.loads(text) == {"status": "SERVING"}, text)
    request = {"model_name": "sums", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3],
                                                 "contents": {"fp32_contents": [1, 2, 3]}}]}
    text = grpcurl("-d", json.dumps(request), address, "inference.GRPCInferenceService/ModelInfer")
    sums = [t for t in json.loads(text)["outputs"] if t["name"] == "sum"]
    check("grpcurl: ModelInfer", sums and sums[0]["contents"]["fp32Contents"] == [6], text)


def h2spec(port):
    done = subprocess.run([os.path.join(TOOLS, "h2spec"), "-h", "127.0.0.1", "-p", str(port), "-o", "2"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
    names = {line.split(":", 1)[1].strip() for line in done.stdout.splitlines()
             if line.strip().startswith("×")}
    return (int(counts.group(2)), int(counts.group(4)), names) if counts else (0, 999, {done.stdout})


def check_h2spec(port):
    theirs = grpc.server(futures.ThreadPoolExecutor(2))
    their_port = theirs.add_insecure_port("127.0.0.1:0")
    theirs.start()
    good, bad, _ = h2spec(port)
    their_good, their_bad, _ = h2spec(their_port)
    theirs.stop(0)
    print("h2spec: %d passed, %d not; grpcio's own server: %d and %d" %
          (good, bad, their_good, their_bad))
    check("h2spec: no worse than grpcio's server", good > 0 and bad <= their_bad)


TOOLS = subprocess.run(["tests/interop/setup-grpc-tools"], check=True, stdout=subprocess.PIPE,
                       text=True).stdout.strip()
subprocess.run(["make", "-s", SERVER], check=True)
with subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
    port = int(server.stdout.readline())
    check_grpcurl("127.0.0.1:%d" % port)
    check_h2spec(port)
    server.stdin.close()
    check("the server ends well", server.wait(60) == 0, server.returncode)
sys.exit(ends())
