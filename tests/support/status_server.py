#!/usr/bin/python3
"""Kubeflow Trainer's status server as a pod sees it: HTTPS, a bearer token, and the checks that the
TrainJob's schema makes (values as text, numbers in range). Makes its own certificate.

usage: status_server.py DIRECTORY [stall | mutual]
Writes ca.crt to the directory and each accepted report as a line to reports; refusals go to
refusals. The file token holds the token that is right now. Prints its URL and serves until its
standard input ends. With `stall` it never answers, with `mutual` it wants a certificate that its
own vouches for: its own will do."""
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time

WORK = sys.argv[1]
MODE = sys.argv[2] if len(sys.argv) > 2 else ""
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/job/status"
LOCK = threading.Lock()


def fault_of(report):
    """None when the API server would take it."""
    status = report.get("trainerStatus")
    if set(report) != {"trainerStatus"} or not isinstance(status, dict):
        return "no trainerStatus"
    if set(status) - {"progressPercentage", "estimatedRemainingSeconds", "metrics",
                      "lastUpdatedTime"}:
        return "unknown fields"
    percent, left = status.get("progressPercentage", 0), status.get("estimatedRemainingSeconds", 0)
    if type(percent) is not int or not 0 <= percent <= 100:
        return "progressPercentage"
    if type(left) is not int or not 0 <= left < 2**31:
        return "estimatedRemainingSeconds"
    for metric in status.get("metrics", []):
        if set(metric) != {"name", "value"} or not all(
                isinstance(text, str) and 1 <= len(text) <= 64 for text in metric.values()):
            return "metrics"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status.get("lastUpdatedTime", "")):
        return "lastUpdatedTime"
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def keep(self, name, line):
        with LOCK, open(os.path.join(WORK, name), "a") as out:
            out.write(line + "\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if MODE == "stall":
            time.sleep(600)
        token = open(os.path.join(WORK, "token")).read().strip()
        fault, status = None, 422
        if self.path != PATH:
            fault, status = "not found", 404
        elif self.headers.get("Authorization") != "Bearer " + token:
            fault, status = "Forbidden", 403
        else:
            fault = fault_of(json.loads(body))
        if fault:
            self.keep("refusals", fault)
            return self.answer(status, {"status": "Failure", "message": fault, "code": status})
        self.keep("reports", body.decode().strip())
        self.answer(200, json.loads(body))


def main():
    key, certificate = os.path.join(WORK, "key.pem"), os.path.join(WORK, "ca.crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=trainer", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, stderr=subprocess.DEVNULL)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if MODE == "mutual":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True,
                                        do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("https://127.0.0.1:%d%s" % (server.server_address[1], PATH), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
