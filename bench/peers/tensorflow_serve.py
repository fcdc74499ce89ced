#!/usr/bin/env python3
"""A server as many are written: a SavedModel in TensorFlow behind grpcio, which answers
tensorflow.serving's Predict. Prints its port and serves until its input ends."""

import argparse
import concurrent.futures
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a SavedModel's directory")
    parser.add_argument("--api", required=True, help="where tensorflow_serving is")
    parser.add_argument("--threads", type=int, default=2, help="of TensorFlow")
    parser.add_argument("--workers", type=int, default=4, help="requests answered side by side")
    options = parser.parse_args()
    sys.path.insert(0, options.api)

    # pylint: disable=import-outside-toplevel
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = tf.saved_model.load(options.model)

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            signature = model.signatures[request.model_spec.signature_name or "serving_default"]
            inputs = {name: tf.constant(tf.make_ndarray(value))
                      for name, value in request.inputs.items()}
            reply = predict_pb2.PredictResponse()
            for name, value in signature(**inputs).items():
                reply.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return reply

    pool = concurrent.futures.ThreadPoolExecutor(options.workers)
    server = grpc.server(pool, options=[("grpc.max_receive_message_length", -1)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main()
