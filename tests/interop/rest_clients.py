"""Asks a server as Triton's clients do; see check_rest.sh."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

import numpy as np
import tritonclient.http as triton

PROGRAM = sys.argv[1]
results = {"passed": 0, "failed": 0}


def check(what, condition, detail=""):
    results["passed" if condition else "failed"] += 1
    if not condition:
        print(f"FAILED: {what}: {detail}")


def start(*models):
    words = [word for model in models for word in ("--model", model)]
    process = subprocess.Popen([PROGRAM, "serve", "--host", "127.0.0.1", "--port", "0", "--rest-port", "auto", *words],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        found = re.match(r"Exporting HTTP/REST API at:(\S+) ", line)
        if found:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, found.group(1)
    raise RuntimeError("the server did not start")


def check_pictures(client, place):
    pixels = np.random.default_rng(1).random((3, 28, 28, 1), dtype=np.float32)
    body = json.dumps({"inputs": pixels.tolist()}).encode()
    reply = urllib.request.urlopen(urllib.request.Request(f"http://{place}/v1/models/digits:predict", data=body))
    wanted = np.array(json.load(reply)["outputs"]["probabilities"], dtype=np.float32)
    for binary_in in (True, False):
        for binary_out in (True, False):
            question = triton.InferInput("input_tensor", list(pixels.shape), "FP32")
            question.set_data_from_numpy(pixels, binary_data=binary_in)
            answer = client.infer("digits", [question], request_id="7", outputs=[
                triton.InferRequestedOutput("probabilities", binary_data=binary_out)])
            got = answer.as_numpy("probabilities")
            check(f"the same bits as /v1 (bytes in: {binary_in}, out: {binary_out})",
                  got.astype(np.float32).tobytes() == wanted.tobytes(), np.abs(got - wanted).max())
            check("the request's name comes back", answer.get_response()["id"] == "7")
    question = triton.InferInput("input_tensor", list(pixels.shape), "FP32")
    question.set_data_from_numpy(pixels)
    answer = client.infer("digits", [question], model_version="1")
    check("all outputs when none is named", answer.as_numpy("classes").shape == (3,))


def check_texts(client):
    rows = 2
    questions = []
    for i in range(1, 14):
        question = triton.InferInput(f"I{i}", [rows], "FP32")
        question.set_data_from_numpy(np.full(rows, i, dtype=np.float32))
        questions.append(question)
    for i in range(1, 27):
        question = triton.InferInput(f"C{i}", [rows], "BYTES")
        question.set_data_from_numpy(np.array([b"68fd1e64", b""], dtype=np.object_), binary_data=i % 2 == 0)
        questions.append(question)
    answer = client.infer("clicks", questions)
    check("texts go in as bytes and as JSON", answer.as_numpy("probabilities").shape == (rows, 2))
    check("texts come out", answer.as_numpy("all_classes").tolist() == [[b"0", b"1"]] * rows,
          answer.as_numpy("all_classes"))


def check_refusals(client):
    question = triton.InferInput("input_tensor", [1, 2], "FP32")
    question.set_data_from_numpy(np.zeros((1, 2), dtype=np.float32))
    for model, part in (("digits", "shape"), ("nothing", "not found")):
        try:
            client.infer(model, [question])
            check(f"{model}: refused", False)
        except triton.InferenceServerException as error:
            check(f"{model}: refused with the reason", part in str(error), error)


def main():
    with tempfile.TemporaryDirectory() as directory:
        quiet = {"stdout": subprocess.DEVNULL, "check": True}
        for name, model, data in (("digits", "mnist_custom", "digits"), ("clicks", "wide_deep", "synthetic")):
            run, models = os.path.join(directory, name), os.path.join(directory, name + "-models")
            subprocess.run([PROGRAM, "train", model, "--data", data, "--steps", "2", "--examples", "640",
                            "--batch-size", "64", "--output-dir", run, "--quiet"], **quiet)
            subprocess.run([PROGRAM, "export", run, "--export-dir", models], **quiet)
        process, place = start(f"digits={directory}/digits-models", f"clicks={directory}/clicks-models")
        try:
            client = triton.InferenceServerClient(place)
            check("it lives", client.is_server_live())
            limit = time.monotonic() + 120
            while not client.is_server_ready() and time.monotonic() < limit:
                time.sleep(0.1)
            check("it is ready", client.is_server_ready() and client.is_model_ready("digits", "1"))
            check("a model that is not there is not ready", not client.is_model_ready("nothing"))
            check("it says what it is", client.get_server_metadata()["name"] == "lockstep")
            about = client.get_model_metadata("digits")
            check("it tells a model's inputs", about["inputs"][0] == {
                "name": "input_tensor", "datatype": "FP32", "shape": [-1, 28, 28, 1]}, about)
            check_pictures(client, place)
            check_texts(client)
            check_refusals(client)
            client.close()
        finally:
            process.send_signal(signal.SIGTERM)
            check("the server ends well", process.wait(timeout=60) == 0, process.returncode)


try:
    main()
except Exception:
    traceback.print_exc()
    results["failed"] += 1
print(f"{results['passed']} passed, {results['failed']} failed")
sys.exit(1 if results["failed"] else 0)
