#!/usr/bin/env python3
"""A real MLflow server is told about trainings, and MLflow's own client reads them back.

usage: check_mlflow.py LOCKSTEP [DATA]    (DATA is not needed)
Runs itself in an environment with MLflow (tools/venv) when this Python has none."""
import importlib.util
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

VERSION = "3.17.2"
if importlib.util.find_spec("mlflow") is None:
    if os.environ.get("CHECK_MLFLOW_AGAIN"):
        sys.exit("tools/venv made an environment without MLflow")
    os.environ["CHECK_MLFLOW_AGAIN"] = "1"
    python = subprocess.run(["tools/venv", "mlflow", "mlflow==" + VERSION], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    os.execv(python, [python] + sys.argv)

LOCKSTEP = os.path.abspath(sys.argv[1])
for name in list(os.environ):
    if name.startswith(("MLFLOW_", "KUBEFLOW_")) or name.lower() == "http_proxy":
        del os.environ[name]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "1"
from mlflow import MlflowClient  # noqa: E402

from tally import check, ends  # noqa: E402


class Server:
    """A tracking server with its own database, on a port of its own."""

    def __init__(self, work):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.work, self.url = work, "http://127.0.0.1:%d" % self.port
        self.start()

    def start(self):
        self.log = open(os.path.join(self.work, "server.log"), "a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port",
             str(self.port), "--workers", "1", "--backend-store-uri",
             "sqlite:///%s/mlflow.db" % self.work, "--default-artifact-root", self.work],
            stdout=self.log, stderr=self.log, cwd=self.work, start_new_session=True,
            env=dict(os.environ, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"))
        until = time.monotonic() + 180
        while time.monotonic() < until and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=2).read()
                return
            except OSError:
                time.sleep(0.3)
        self.stop()
        sys.exit("the MLflow server does not start: " + open(self.log.name).read()[-2000:])

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()


def environment(url, **more):
    return dict(os.environ, MLFLOW_TRACKING_URI=url, OMP_WAIT_POLICY="passive", **more)


COMMON = ["--data", "digits", "--threads", "1", "--batch-size", "16"]


def train(url, *words, **more):
    result = subprocess.run([LOCKSTEP, "train", "mnist_custom"] + COMMON + list(words),
                            env=environment(url, **more), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=300)
    return result


def experiment_runs(client, name):
    experiment = client.get_experiment_by_name(name)
    return [] if experiment is None else client.search_runs([experiment.experiment_id])


def only_run(client, name):
    runs = experiment_runs(client, name)
    check("one run in " + name, len(runs) == 1, len(runs))
    return runs[0]


def steps_of(client, run, key):
    return [m.step for m in client.get_metric_history(run.info.run_id, key)]


def finished_run(client, url, work):
    name, report = "naïve & co/1?", os.path.join(work, "report.json")
    before = time.time() * 1000
    result = train(url, "--steps", "20", "--eval-every", "10", "--examples", "640", "--seed", "7",
                   "--json", report, MLFLOW_EXPERIMENT_NAME=name, MLFLOW_RUN_NAME="first try",
                   USER="", LOGNAME="somebody")
    check("it ends well", result.returncode == 0, result.stderr)
    check("nothing is said about MLflow", "MLflow" not in result.stderr, result.stderr)
    run, said = only_run(client, name), json.load(open(report))
    info, params, tags, metrics = run.info, run.data.params, run.data.tags, run.data.metrics
    check("status", info.status == "FINISHED", info.status)
    check("run name", info.run_name == "first try", info.run_name)
    check("times", before - 1 <= info.start_time <= info.end_time <= time.time() * 1000,
          (info.start_time, info.end_time))
    for key, value in {"model": "mnist_custom", "data": "digits", "steps": "20", "threads": "1",
                       "batch_size": "16", "seed": "7", "eval_every": "10",
                       "optimizer": said["optimizer"]}.items():
        check("param " + key, params.get(key) == value, params)
    check("param lr", math.isclose(float(params["lr"]), said["learning_rate"], rel_tol=1e-6),
          (params["lr"], said["learning_rate"]))
    check("user", tags.get("mlflow.user") == "somebody", tags)
    check("source", tags.get("mlflow.source.name") == "lockstep train mnist_custom", tags)
    check("version", tags.get("lockstep.version") == said["version"], tags)
    for key in ("train/loss", "train/accuracy", "learning_rate", "examples_per_second"):
        steps = steps_of(client, run, key)
        check("steps of " + key, steps[0] == 1 and steps[-1] == 20 and steps == sorted(set(steps)),
              steps)
    for key in ("eval/loss", "eval/accuracy"):
        check("steps of " + key, steps_of(client, run, key) == [10, 20], steps_of(client, run, key))
    check("loss", math.isclose(metrics["eval/loss"], said["loss"], rel_tol=1e-12),
          (metrics, said["loss"]))
    check("accuracy", metrics["eval/accuracy"] == said["accuracy"], (metrics, said["accuracy"]))
    check("no metric without a number", all(map(math.isfinite, metrics.values())), metrics)
    again = train(url, "--steps", "2", "--eval-data", "none", MLFLOW_EXPERIMENT_NAME=name)
    check("a second run", again.returncode == 0, again.stderr)
    check("goes into the same experiment", len(experiment_runs(client, name)) == 2)


def by_id(client, url):
    number = client.create_experiment("by id")
    train(url, "--steps", "2", "--eval-data", "none", MLFLOW_EXPERIMENT_ID=number)
    check("MLFLOW_EXPERIMENT_ID", only_run(client, "by id").info.status == "FINISHED")
    train(url, "--steps", "2", "--eval-data", "none")
    check("the default experiment", len(client.search_runs(["0"])) == 1)
    result = train(url, "--steps", "2", "--eval-data", "none", MLFLOW_EXPERIMENT_ID="987654")
    check("an id that is not there is one warning", result.returncode == 0 and
          result.stderr.count("MLflow") == 1 and "987654" in result.stderr, result.stderr)


def continued(client, url):
    run = client.create_run(client.create_experiment("continued"))
    client.set_terminated(run.info.run_id, "FAILED")
    for steps in ("3", "5"):
        result = train(url, "--steps", steps, "--eval-data", "none", MLFLOW_RUN_ID=run.info.run_id)
        check("MLFLOW_RUN_ID is continued", result.returncode == 0, result.stderr)
    run = only_run(client, "continued")
    check("and finished", run.info.status == "FINISHED", run.info.status)
    check("with the steps of both", max(steps_of(client, run, "train/loss")) == 5)
    check("and the first parameters, which is said", run.data.params["steps"] == "3" and
          result.stderr.count("refuses") == 1, result.stderr)


def ended_early(client, url):
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        name = "stopped by %d" % number
        process = subprocess.Popen(
            [LOCKSTEP, "train", "mnist_custom"] + COMMON + ["--steps", "1000000", "--quiet"],
            env=environment(url, MLFLOW_EXPERIMENT_NAME=name), stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            runs = experiment_runs(client, name)
            if runs and "train/loss" in runs[0].data.metrics:
                break
            time.sleep(0.3)
        check("it is running", only_run(client, name).info.status == "RUNNING")
        process.send_signal(number)
        start = time.monotonic()
        check("exit status", process.wait(60) == status, process.returncode)
        check("it ends soon", time.monotonic() - start < 10, time.monotonic() - start)
        run = only_run(client, name)
        check("an interrupted run is KILLED", run.info.status == "KILLED", run.info.status)
    result = train(url, "--steps", "50", "--lr", "1e30", MLFLOW_EXPERIMENT_NAME="diverged")
    run = only_run(client, "diverged")
    check("a failed run is FAILED", result.returncode == 1 and run.info.status == "FAILED",
          (result.returncode, run.info.status))
    result = train(url, "--steps", "2", "--target-accuracy", "1", "--examples", "320",
                   MLFLOW_EXPERIMENT_NAME="below")
    run = only_run(client, "below")
    check("a missed target, too", result.returncode == 1 and run.info.status == "FAILED",
          (result.returncode, run.info.status))


def server_that_comes_back(client, server):
    """Nothing is lost when the server is away for a while."""
    process = subprocess.Popen(
        [LOCKSTEP, "train", "mnist_custom"] + COMMON + ["--steps", "1000000", "--quiet"],
        env=environment(server.url, MLFLOW_EXPERIMENT_NAME="outage"), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True)
    while not any("train/loss" in run.data.metrics for run in experiment_runs(client, "outage")):
        time.sleep(0.3)
    server.stop()
    away = time.time() * 1000
    time.sleep(5)
    server.start()
    back = time.time() * 1000
    time.sleep(35)  # the longest wait between two attempts is half a minute
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    run = only_run(client, "outage")
    check("the run ends as it should", run.info.status == "KILLED", run.info.status)
    times = [m.timestamp for m in client.get_metric_history(run.info.run_id, "train/loss")]
    meanwhile = [t for t in times if away < t < back]
    check("what happened meanwhile is there", len(meanwhile) > (back - away) / 1000, len(meanwhile))
    check("one line when it went", said.count("cannot be told") == 1, said)
    check("one line when it was back", said.count("is back after") == 1, said)


def main():
    with tempfile.TemporaryDirectory() as work:
        server = Server(work)
        try:
            client = MlflowClient(server.url)
            finished_run(client, server.url, work)
            by_id(client, server.url)
            continued(client, server.url)
            ended_early(client, server.url)
            server_that_comes_back(client, server)
        finally:
            server.stop()
        result = train("file:" + work, "--steps", "2", "--eval-data", "none")
        check("a file store is one warning with the reason", result.returncode == 0 and
              result.stderr.count("MLflow") == 1 and "mlflow server" in result.stderr,
              result.stderr)
    return ends()


if __name__ == "__main__":
    sys.exit(main())
