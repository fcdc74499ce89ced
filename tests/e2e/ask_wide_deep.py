"""What run_tf_serving_client.py of the Wide & Deep document does, with its libraries: rows of eval.csv to a served model, by
signature `predict`, the answers by `probabilities`.

usage: ask_wide_deep.py DIRECTORY-OF-THE-API HOST:PORT EVAL.CSV     with a Python that has TensorFlow"""
import csv
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["no_grpc_proxy"] = os.environ["no_proxy"] = "*"
sys.path.append(sys.argv[1])

import grpc  # noqa: E402
import numpy as np  # noqa: E402
from tensorflow import make_tensor_proto  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402

rows = list(csv.reader(open(sys.argv[3])))
batch = 100
stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(sys.argv[2]))
right = 0
for first in range(0, len(rows), batch):
    part = rows[first:first + batch]
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "wide-deep-large-ds-fp32-training"
    request.model_spec.signature_name = "predict"
    for i in range(1, 14):
        values = np.array([float(row[i] or 0) for row in part], np.float32)
        request.inputs["I%d" % i].CopyFrom(make_tensor_proto(values, shape=[len(part)]))
    for i in range(1, 27):
        words = np.array([row[13 + i].encode() for row in part], object)
        request.inputs["C%d" % i].CopyFrom(make_tensor_proto(words, shape=[len(part)]))
    reply = stub.Predict(request, 10)
    scores = np.array(reply.outputs["probabilities"].float_val).reshape(len(part), 2)
    right += int((scores.argmax(1) == np.array([int(row[0]) for row in part])).sum())
print("%d rows, Accuracy: %.4f" % (len(rows), right / len(rows)))
