#!/usr/bin/env python3
"""Load that others make: h2load, ghz and perf_analyzer (as for TensorFlow Serving) ask our gRPC port.
All of their requests are answered, and the server counted as many.

usage: check_load_tools.py LOCKSTEP [DATA]"""
import collections
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import urllib.request

from tally import check, ends

PROGRAM = os.path.abspath(sys.argv[1])
CALL = "tensorflow.serving.PredictionService/Predict"
PERF = ["tritonclient==2.41.0", "nvidia-cuda-runtime-cu12==12.6.77", "numpy==1.26.4"]


def run(*words, **options):
    return subprocess.run(list(map(str, words)), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, check=False, **options)


def start(folder):
    """A small network, trained for a moment and served."""
    done = run(PROGRAM, "train", "mnist_custom", "--examples", 320, "--steps", 2, "--quiet",
               "--eval-data", "none", "--export-dir", os.path.join(folder, "digits"))
    assert done.returncode == 0, done.stdout
    server = subprocess.Popen([PROGRAM, "serve", "--host", "127.0.0.1", "--port", "auto", "--rest-port",
                               "auto", os.path.join(folder, "digits")], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    ports = {}
    for line in server.stdout:
        found = re.match(r"(Running gRPC|Exporting HTTP).*:(\d+) \.\.\.", line)
        if found:
            ports[found.group(1)] = int(found.group(2))
        if line.startswith("Ready"):
            return server, ports["Running gRPC"], ports["Exporting HTTP"]
    raise RuntimeError("the server did not start")


def answered(rest):
    """How many requests the server counted, by their status."""
    with urllib.request.urlopen(f"http://127.0.0.1:{rest}/monitoring/prometheus/metrics") as reply:
        text = reply.read().decode()
    counts = collections.Counter()
    for status, number in re.findall(r':tensorflow:serving:request_count\{[^}]*status="(\w+)"\} (\d+)',
                                     text):
        counts[status] += int(number)
    return counts


def field(number, content):
    """A length-delimited field of a protobuf message."""
    length, head = len(content), b""
    while length > 127:
        head, length = head + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + head + bytes([length]) + content


def predict_request(pixels):
    shape = b"".join(field(2, b"\x08" + bytes([size])) for size in (1, 28, 28, 1))
    tensor = b"\x08\x01" + field(2, shape) + field(4, struct.pack("<784f", *pixels))
    entry = field(1, b"input_tensor") + field(2, tensor)
    return field(1, field(1, b"digits")) + field(2, entry)


def h2load(folder, grpc, rest):
    body = predict_request([(i * 37 % 101) / 101 for i in range(784)])
    path = os.path.join(folder, "body")
    with open(path, "wb") as file:
        file.write(struct.pack(">BI", 0, len(body)) + body)
    before = answered(rest)
    done = run("h2load", "-n", 2000, "-c", 4, "-m", 4, "-d", path, "-H", "content-type: application/grpc",
               "-H", "te: trailers", f"http://127.0.0.1:{grpc}/{CALL}")
    check("h2load: all answered", "2000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout)
    check("h2load: all of them OK", answered(rest) - before == {"OK": 2000}, answered(rest) - before)
    print(re.search(r"finished in .*", done.stdout).group(0))


def ghz(tools, grpc, rest):
    request = {"model_spec": {"name": "digits"}, "inputs": {"input_tensor": {
        "dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": n} for n in (1, 28, 28, 1)]},
        "float_val": [0.5] * 784}}}
    before = answered(rest)
    done = run(os.path.join(tools, "ghz"), "--insecure", "--call", CALL.replace("/", "."), "-d",
               json.dumps(request), "-n", 1000, "-c", 8, "--connections", 2, "-O", "json",
               f"127.0.0.1:{grpc}")
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        check("ghz: a report", False, done.stdout)
        return
    check("ghz: all OK", report["statusCodeDistribution"] == {"OK": 1000}, report["statusCodeDistribution"])
    check("ghz: the server counted them", answered(rest) - before == {"OK": 1000}, answered(rest) - before)
    print("ghz: %.0f requests/s" % report["rps"])


def perf_analyzer(grpc, rest):
    python = subprocess.run(["tools/venv", "perf-analyzer", *PERF], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    place = subprocess.run([python, "-c", "import nvidia.cuda_runtime as n; print(n.__path__[0])"],
                           check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    before = answered(rest)
    done = run(os.path.join(os.path.dirname(python), "perf_analyzer"), "-m", "digits", "--service-kind",
               "tfserving", "-i", "grpc", "-u", f"127.0.0.1:{grpc}", "-b", 1, "--shape",
               "input_tensor:28,28,1", "--concurrency-range", "2:4:2", "--measurement-mode", "count_windows",
               "--measurement-request-count", 100, "-r", 3, "-s", 999,
               env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(place, "lib")))
    rates = re.findall(r"Concurrency: (\d), throughput: ([\d.]+) infer/sec", done.stdout)
    check("perf_analyzer: both rounds", done.returncode == 0 and [c for c, _ in rates] == ["2", "4"],
          done.stdout)
    counted = answered(rest) - before
    check("perf_analyzer: only good answers", set(counted) == {"OK"} and counted["OK"] >= 200, counted)
    print("perf_analyzer:", ", ".join(f"{rate} infer/s at {clients} clients" for clients, rate in rates))


def main():
    tools = subprocess.run(["tests/interop/setup-grpc-tools"], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        server, grpc, rest = start(folder)
        try:
            h2load(folder, grpc, rest)
            ghz(tools, grpc, rest)
            perf_analyzer(grpc, rest)
        finally:
            server.terminate()
            check("the server ends well", server.wait(60) == 0, server.returncode)
    sys.exit(ends())


main()
