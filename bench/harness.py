"""What every benchmark needs: programs run and their JSON read, targets, and evidence written."""

import datetime
import json
import math
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = "build/release"
# For mpirun, as root.
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PROGRAM = f"{BUILD}/lockstep"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
PYTHON = CACHE / "lockstep/peers/bin/python"

# Variables that steer a runtime library; a benchmark must not inherit them from a shell.
STEERING = ("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD", "TF_",
            "TORCH", "LOCKSTEP_")

# Spinning threads suffer out of proportion when they share cores, each program in its own way.
BUSY_LIMIT = 0.1


class Failed(Exception):
    pass


# ---- running programs ----

def jemalloc():
    """The allocator that suits the peers best, or None where it is not installed."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                   "/usr/lib", "/usr/local/lib"):
        path = pathlib.Path(folder, "libjemalloc.so.2")
        if path.exists():
            return path
    return None


def tuning(threads):
    if not jemalloc():
        raise Failed("libjemalloc.so.2 is not installed, and without it the peers are slower than they "
                     "could be (Debian: libjemalloc2)")
    return {"LD_PRELOAD": str(jemalloc()),
            "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always",
            "OMP_PROC_BIND": "true", "OMP_NUM_THREADS": str(threads)}


def shown(text):
    """A command as anybody could type it: without this machine's folders."""
    text = str(text).replace(str(PYTHON), "$PEERS/bin/python").replace(str(CACHE), "$CACHE")
    return text.replace(str(ROOT) + "/", "").replace(str(jemalloc()), "libjemalloc.so.2")


def run(command, extra=None):
    """Runs a program from the root of the tree; returns its standard output and what to log."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
    environment.update(extra or {})
    assignments = [f"{name}={shown(value)}" for name, value in (extra or {}).items()]
    line = "$ " + " ".join(assignments + [shown(shlex.quote(str(word))) for word in command])
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, env=environment,
                              capture_output=True, text=True, check=False)
    except OSError as problem:
        raise Failed(f"{line}\n{problem.strerror}: `make bench` builds what we need and "
                     "bench/setup-peers installs the peers") from problem
    if done.returncode != 0:
        raise Failed(f"{line}\nexit status {done.returncode}\n{shown(done.stderr)[-2000:]}")
    return done.stdout, line


def run_json(command, extra=None):
    """The JSON object that a program printed, alone or as its last lines, and what to log."""
    text, line = run(command, extra)
    start = text.rfind("\n{") + 1 if not text.startswith("{") else 0
    try:
        return json.loads(text[start:]), f"{line}\n{text[start:].strip()}"
    except json.JSONDecodeError as problem:
        raise Failed(f"{line}\nprinted no JSON object ({problem}):\n{text[-2000:]}") from problem


def brief(log):
    """A thousand step times say no more than their median and range."""
    head, _, tail = log.partition("\n")
    try:
        result = json.loads(tail)
    except json.JSONDecodeError:
        return log
    times = result.get("step_seconds")
    if isinstance(times, list) and len(times) > 20:
        result["step_seconds"] = f"{len(times)} from {min(times)} to {max(times)}"
    return f"{head}\n{json.dumps(result)}"


def processor_ticks():
    """Of all cores since the start: all, idle, and those that the machine's host kept for others."""
    with open("/proc/stat", encoding="ascii") as file:
        values = [int(word) for word in file.readline().split()[1:]]
    return sum(values[:8]), values[3] + values[4], values[7]


def busy_share():
    """The share of the processor's time that others take while we wait a second."""
    all_before, idle_before, _ = processor_ticks()
    time.sleep(1)
    all_after, idle_after, _ = processor_ticks()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


def available_threads():
    """Cores of this process, or what its control group grants if that is less."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


# ---- reports ----

def notch(values):
    """Half the width of the interval in which the median lies, with 95 % confidence, whatever the
    values are distributed like: the notch of a box plot (McGill, Tukey and Larsen, 1978)."""
    if len(values) < 4:
        return math.inf
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return 1.57 * (high - low) / math.sqrt(len(values))


@dataclass
class Target:
    what: str
    value: float
    limit: float
    at_most: bool = True
    unit: str = ""
    spread: float = 0  # the value may be so much more or less

    @property
    def verdict(self):
        """A target that lies within the spread can be called neither met nor missed."""
        if self.spread and abs(self.value - self.limit) < self.spread:
            return "unclear"
        met = self.value <= self.limit if self.at_most else self.value >= self.limit
        return "met" if met else "MISSED"

    def __str__(self):
        sign = "at most" if self.at_most else "at least"
        spread = f" +- {self.spread:.2g}" if self.spread else ""
        return (f"{self.verdict:7} {self.what}: {self.value:.3g}{spread}{self.unit} "
                f"({sign} {self.limit:g}{self.unit})")


@dataclass
class Report:
    lines: list
    targets: list
    measurements: list = field(default_factory=list)


# ---- evidence ----

def first_match(path, key):
    try:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def system_name():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError, AttributeError):  # the last one: Python before 3.10
        return platform.system()


def commit():
    try:
        name = run(["git", "rev-parse", "HEAD"])[0].strip()
        changed = run(["git", "status", "--porcelain", "--", "src", "include", "bench", "Makefile"])
    except Failed:
        return "unknown"
    return name + (" with uncommitted changes" if changed[0].strip() else "")


def peer_versions():
    script = ("import importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in "
              "('torch', 'tensorflow-cpu', 'keras', 'numpy')))")
    try:
        return run([PYTHON, "-c", script])[0].strip()
    except Failed:
        return "not installed"  # `size` does not need them


def header(options):
    peak = run_json([f"{BUILD}/bench/primitives", "--peak", "--threads", options.threads,
                     "--json", "-"])[0]["peak_gflops"]
    return [f"command: bench/{os.path.basename(sys.argv[0])} {' '.join(sys.argv[1:])}".rstrip(),
            f"commit: {commit()}",
            f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
            f"processor: {first_match('/proc/cpuinfo', 'model name')}, {options.threads} threads, "
            f"FMA peak {peak:.1f} GFLOP/s",
            f"memory: {first_match('/proc/meminfo', 'MemTotal')}",
            f"system: {system_name()}",
            f"seed: {options.seed}",
            f"peers: {peer_versions()}"]


def evidence_path(folder, name):
    """A name that is not taken: evidence is kept, not replaced."""
    stem = f"bench-{name}-{datetime.date.today():%Y-%m-%d}"
    path, number = folder / f"{stem}.txt", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.txt"
    return path


def write_evidence(folder, name, head, report):
    folder.mkdir(parents=True, exist_ok=True)
    path = evidence_path(folder, name)
    text = head + [""] + report.lines + [""] + [str(target) for target in report.targets]
    for measurement in report.measurements:
        text += ["", f"---- {measurement.name} ----"] + measurement.log
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


# ---- a whole run ----

def run_reports(options, reports, subject, prefix=""):
    """Makes each report of options.names, prints it and keeps it under its name behind the prefix;
    `subject` is what they share. Returns the verdicts."""
    targets = []
    try:
        head = header(options)
        print("\n".join(head), flush=True)
        for name in options.names:
            print(f"\n== {name}", flush=True)
            report = reports[name](subject)
            path = write_evidence(options.evidence, prefix + name, head, report)
            print("\n".join([""] + report.lines + [""] + [str(t) for t in report.targets]))
            print(f"written to {os.path.relpath(path, ROOT)}", flush=True)
            targets += report.targets
    except Failed as failure:
        sys.exit(f"bench: {failure}")
    verdicts = [target.verdict for target in targets]
    print(f"\n{verdicts.count('met')} targets met, {verdicts.count('MISSED')} missed, "
          f"{verdicts.count('unclear')} unclear")
    return verdicts


def add_common_options(parser, reports):
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"{', '.join(reports)}; all when none is given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evidence", type=pathlib.Path, default=ROOT / "evidence",
                        help="where the reports go")


def parse_common_options(parser, reports, on_request=()):
    options = parser.parse_args()
    for name in options.names:
        if name not in reports:
            parser.error(f"no benchmark {name}; there are {', '.join(reports)}")
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads must be at least 1")
    options.names = options.names or [name for name in reports if name not in on_request]
    return options
