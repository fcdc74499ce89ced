#!/usr/bin/env python3
"""Ranks whose state is kept in memory: killed with -9 at any moment, they go on at the step after the
newest finished one, and end with the bits of a run that nobody disturbed. The agent is played by this
script (the rank's side of src/launch/keeper_wire.h).

usage: tests/ranks/kept.py [--kills N] [--seed S] [--only WORD]..."""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from keeper import DONE, FAILED, PAUSED, Keeper  # pylint: disable=wrong-import-position
PROGRAM = pathlib.Path(os.environ.get("LOCKSTEP") or ROOT / "build/release/lockstep").resolve()
MODEL = [PROGRAM.parent / "tests/crash/tiny.so", "--examples", 320, "--threads", 1]
ROWS = ["wide_deep", "--data", "synthetic", "--examples", 960, "--embedding-rows", 60,
        "--embedding-dim", 4, "--hidden", "16,8", "--threads", 1, "--eval-data", "none"]
LIMIT = 120

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "ASAN_OPTIONS": "detect_leaks=0"}


class Wrong(Exception):
    """What must not happen."""


def check(condition, message):
    if not condition:
        raise Wrong(message)


def words(*parts):
    return [str(part) for part in parts]


def train(*parts, model=None):
    return words(PROGRAM, "train", *(model or MODEL), *parts, "--schedule", "constant",
                 "--warmup-epochs", 0)


def under(keepers, command, mpirun=()):
    """The command as ranks, each under its keeper."""
    if len(keepers) == 1:
        return words("env", f"LOCKSTEP_AGENT={keepers[0].name}", *command)
    line = ["mpirun", "--oversubscribe", *mpirun]
    for keeper in keepers:
        line += ["-np", "1", "env", f"LOCKSTEP_AGENT={keeper.name}", *command, ":"]
    return words(*line[:-1])


def run(command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, errors="strict", check=False,
                          timeout=LIMIT, env=ENVIRONMENT)
    check(done.returncode == status, f"{' '.join(command)}: exit status {done.returncode}, not "
                                     f"{status}: {done.stderr[-1500:]}")
    return done


def check_word(keeper, outcome, status, reason=""):
    word = keeper.last_word()
    check(word and word[:2] == (outcome, status) and reason in word[2], f"its last word was {word}")


def alike(directory, other):
    done = subprocess.run(words(PROGRAM, "checkpoint", "diff", directory, other),
                          capture_output=True, text=True, check=False, timeout=LIMIT)
    check(done.returncode == 0, f"{directory} differs from {other}: {done.stdout[:800]}")


def started_from(stderr):
    found = re.search(r"going on after step (\d+), which memory kept", stderr)
    return int(found[1]) if found else None


def children(pid):
    """All processes below one."""
    found = []
    for listed in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = [int(word) for word in listed.read_text(encoding="ascii").split()]
        except OSError:
            continue
        for child in below:
            found += [child, *children(child)]
    return found


def is_rank(pid):
    try:
        return b"lockstep" in pathlib.Path(f"/proc/{pid}/exe").resolve().name.encode()
    except OSError:
        return False


class Trial:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.random = random.Random(options.seed)
        self.passed = self.failed = 0

    def part(self, name, function):
        if self.options.only and not any(word in name for word in self.options.only):
            return
        start = time.monotonic()
        try:
            summary = function() or ""
            self.passed += 1
            print(f"ok    {name}: {summary} ({time.monotonic() - start:.0f} s)", flush=True)
        except (Wrong, subprocess.TimeoutExpired) as failure:
            self.failed += 1
            print(f"FAIL  {name}: {failure}", flush=True)

    def fresh(self, name):
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def killed(self, command, within, all_ranks):
        """Runs it, kills a rank (or the whole) after a while; returns whether it was too late, and
        what it said."""
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True, env=ENVIRONMENT) as process:
            try:
                process.wait(self.random.uniform(0, within))
            except subprocess.TimeoutExpired:
                below = [pid for pid in [process.pid, *children(process.pid)] if is_rank(pid)]
                chosen = below if all_ranks else below and [self.random.choice(below)]
                for pid in chosen or [process.pid]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            _, stderr = process.communicate(timeout=LIMIT)
        return process.returncode == 0, stderr

    def kills(self, keepers, command, within, all_ranks=False):
        """Kills until it ends by itself; no step may be lost."""
        killed = 0
        last = -1
        while killed < self.options.kills:
            ended, stderr = self.killed(command, within, all_ranks)
            start = started_from(stderr)
            if start is not None:
                check(start >= last, f"went on from step {start}; it had been at {last}")
                last = start
            if ended:
                break
            killed += 1
        for keeper in keepers:
            keeper.heard.clear()
        if killed == self.options.kills:
            done = run(command)
            check(started_from(done.stderr) is not None or last < 0,
                  f"it forgot all it had: {done.stderr[-800:]}")
        return f"{killed} kills, the last start at step {last}"

    # ---- one process ----

    def one(self, model, steps, more, within):
        whole, kept = self.fresh("whole"), self.fresh("kept")
        options = ["--steps", steps, *more, "--checkpoint-every", 0, "-q"]
        run(train(*options, "--checkpoint-dir", whole, model=model))
        keeper = Keeper()
        summary = self.kills([keeper], under([keeper], train(*options, "--checkpoint-dir", kept,
                                                             model=model)), within)
        alike(whole, kept)
        check_word(keeper, DONE, 0)
        summary += f", {keeper.bytes() >> 10} KiB kept"
        keeper.close()
        return summary

    def alone(self):
        return self.one(None, 3000, ["--eval-every", 500], 0.8)

    def tables(self):
        return self.one(ROWS, 8000, ["--batch-size", 32], 0.8)

    # ---- ranks ----

    def ranks(self):
        whole, kept = self.fresh("whole"), self.fresh("kept")
        options = ["--steps", 1000, "--global-batch-size", 24, "--shards", 6, "--eval-every", 400,
                   "--checkpoint-every", 0, "-q"]
        run(train(*options, "--checkpoint-dir", whole))
        keepers = [Keeper(), Keeper()]
        command = under(keepers, train(*options, "--checkpoint-dir", kept))
        summary = self.kills(keepers, command, 1.5)
        alike(whole, kept)
        for keeper in keepers:
            keeper.close()
        return summary

    def wait_for_step(self, keeper, process, step):
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if any(number >= step and text != "preparing" for number, text in list(keeper.heard)):
                return
            time.sleep(0.02)
        if process.poll() == 0:
            return
        _, stderr = process.communicate()
        raise Wrong(f"no step {step}: heard {keeper.heard[-3:]}: {stderr[-800:]}")

    def start(self, keepers, *options, model=None):
        for keeper in keepers:
            keeper.heard.clear()
        command = under(keepers, train(*options, model=model))
        return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env=ENVIRONMENT)

    def kill_ranks(self, process):
        for pid in [process.pid, *children(process.pid)]:
            if is_rank(pid):
                os.kill(pid, signal.SIGKILL)
        return process.communicate(timeout=LIMIT)

    def newcomer(self):
        """One member's memory is lost, then the other's: who lacks it is given it."""
        whole, kept = self.fresh("whole"), self.fresh("kept")
        options = ["--steps", 2500, "--global-batch-size", 24, "--shards", 6,
                   "--checkpoint-every", 0, "-q"]
        run(train(*options, "--checkpoint-dir", whole))
        keepers = [Keeper(), Keeper()]
        steps = []
        for lost in (0, 1):
            with self.start(keepers, *options, "--checkpoint-dir", kept) as process:
                self.wait_for_step(keepers[1], process, 300 * (lost + 1))
                _, stderr = self.kill_ranks(process)
            steps.append(started_from(stderr))
            keepers[lost].close()
            keepers[lost] = Keeper()
        done = run(under(keepers, train(*options, "--checkpoint-dir", kept)))
        steps.append(started_from(done.stderr))
        check(steps[0] is None and steps[1] and steps[2] and steps[1] < steps[2],
              f"started from {steps}")
        alike(whole, kept)
        return f"went on from {steps[1:]}"

    def resized(self):
        """Two ranks, then one, then three."""
        whole, kept = self.fresh("whole"), self.fresh("kept")
        options = ["--steps", 1500, "--global-batch-size", 24, "--shards", 6,
                   "--checkpoint-every", 0, "-q"]
        run(train(*options, "--checkpoint-dir", whole))
        keepers = [Keeper(), Keeper(), Keeper()]
        for members, step in ((keepers[:2], 200), (keepers[1:2], 1200)):
            with self.start(members, *options, "--checkpoint-dir", kept) as process:
                self.wait_for_step(keepers[1], process, step)
                self.kill_ranks(process)
        done = run(under(keepers, train(*options, "--checkpoint-dir", kept)))
        check(started_from(done.stderr) >= 1200, f"started from {started_from(done.stderr)}")
        alike(whole, kept)

    def misfit(self):
        """What one rank has was laid out differently: the other's is taken; alone, it says so."""
        whole, kept = self.fresh("whole"), self.fresh("kept")
        options = ["--steps", 1000, "--global-batch-size", 24, "--shards", 6,
                   "--checkpoint-every", 0, "-q"]
        run(train(*options, "--checkpoint-dir", whole))
        keepers = [Keeper(), Keeper()]
        # Paused, not killed: both have the same step then. Whoever is a step behind would be given the
        # other's without a look at what it has.
        with self.start(keepers, *options, "--checkpoint-dir", kept) as process:
            self.wait_for_step(keepers[1], process, 200)
            keepers[1].pause()
            process.communicate(timeout=LIMIT)
        keepers[0].damage("layout")
        done = run(under(keepers, train(*options, "--checkpoint-dir", kept)))
        check("does not fit" in done.stderr and started_from(done.stderr),
              f"it said: {done.stderr[-800:]}")
        alike(whole, kept)
        keepers[0].damage("layout")
        run(under(keepers[:1], train(*options, "--checkpoint-dir", kept)), 1)
        check_word(keepers[0], FAILED, 1, "none of them can read")

    # ---- what it promises besides ----

    def fresh_start(self):
        """--fresh is for the beginning, not for each process."""
        kept, keeper = self.fresh("kept"), Keeper()
        options = ["--steps", 20000, "--checkpoint-dir", kept, "--checkpoint-every", 500, "--fresh",
                   "--eval-data", "none", "-q"]
        run(train("--steps", 3, "--checkpoint-dir", kept, "--eval-data", "none", "-q"))
        with self.start([keeper], *options) as process:
            self.wait_for_step(keeper, process, 700)
            self.kill_ranks(process)
        done = run(under([keeper], train(*options)))
        check(started_from(done.stderr) >= 700, f"started from {started_from(done.stderr)}")
        aside = [entry.name for entry in kept.iterdir() if entry.name.startswith("old-")]
        check(len(aside) == 1, f"moved aside: {aside}")

    def as_checkpoint(self):
        """Memory and a checkpoint of the same step lead to the same end."""
        first, other, kept = self.fresh("first"), self.fresh("other"), self.fresh("kept")
        keeper = Keeper()
        options = ["--steps", 3000, "--eval-every", 500, "-q"]
        with self.start([keeper], *options, "--checkpoint-dir", kept,
                        "--checkpoint-every", 0) as process:
            self.wait_for_step(keeper, process, 700)
            self.kill_ranks(process)
        # SIGTERM at once: saves what memory held.
        with self.start([keeper], *options, "--checkpoint-dir", kept,
                        "--checkpoint-every", 0) as process:
            self.wait_for_step(keeper, process, 700)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT)
            check(process.returncode == 143, f"exit status {process.returncode}")
        check_word(keeper, DONE, 143)
        shutil.copytree(kept, first, symlinks=True)
        shutil.copytree(kept, other, symlinks=True)
        done = run(train(*options, "--checkpoint-dir", first, "--checkpoint-every", 0))
        check(started_from(done.stderr) is None, "that one has no memory")
        done = run(under([keeper], train(*options, "--checkpoint-dir", other,
                                         "--checkpoint-every", 0)))
        check(started_from(done.stderr) is not None, "it did not go on from memory")
        alike(first, other)
        return f"from step {started_from(done.stderr)}"

    def paused(self):
        whole, kept = self.fresh("whole"), self.fresh("kept")
        options = ["--steps", 3000, "--global-batch-size", 24, "--shards", 6,
                   "--checkpoint-every", 0, "-q"]
        run(train(*options, "--checkpoint-dir", whole))
        keepers = [Keeper(), Keeper()]
        with self.start(keepers, *options, "--checkpoint-dir", kept) as process:
            self.wait_for_step(keepers[0], process, 300)
            keepers[1].pause()
            out, stderr = process.communicate(timeout=LIMIT)
            check(process.returncode == 0, f"exit status {process.returncode}: {stderr[-800:]}")
        check("accuracy" not in out.lower(), f"it printed results: {out}")
        for keeper in keepers:
            check_word(keeper, PAUSED, 0)
        done = run(under(keepers, train(*options, "--checkpoint-dir", kept)))
        check(started_from(done.stderr) >= 300, f"started from {started_from(done.stderr)}")
        alike(whole, kept)
        return f"after step {started_from(done.stderr)}"

    def other_run(self):
        """A state of another run is not used, and it says why."""
        keeper = Keeper()
        run(under([keeper], train("--steps", 20, "--eval-data", "none", "-q")))
        done = run(under([keeper], train("--steps", 20, "--eval-data", "none", "--lr", 0.02)))
        check("step 20 of another run and is not used" in done.stderr and
              '"--lr 0.02"' in done.stderr, f"it said: {done.stderr[-800:]}")
        check(started_from(done.stderr) is None, "it used it")
        keeper.close()
        keeper = Keeper()
        os.write(keeper.memory, b"nonsense" * 1000)
        done = run(under([keeper], train("--steps", 20, "--eval-data", "none")))
        check("is not used: it is no state" in done.stderr, f"it said: {done.stderr[-800:]}")
        check_word(keeper, DONE, 0)

    def fails(self):
        keeper = Keeper()
        run(under([keeper], train("--steps", 20, "--lr", 1e30, "--eval-data", "none")), 1)
        check_word(keeper, FAILED, 1, "not finite")

    def all(self):
        self.part("one process is killed", self.alone)
        self.part("one process with tables is killed", self.tables)
        self.part("ranks are killed", self.ranks)
        self.part("memory is lost", self.newcomer)
        self.part("the number of ranks changes", self.resized)
        self.part("another layout", self.misfit)
        self.part("as from a checkpoint", self.as_checkpoint)
        self.part("a fresh start", self.fresh_start)
        self.part("paused", self.paused)
        self.part("another run's state", self.other_run)
        self.part("failures are told", self.fails)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=8, help="of each run (8)")
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--only", action="append", help="parts whose name has this in it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        trial = Trial(options, pathlib.Path(work))
        trial.all()
    print(f"{trial.passed} passed, {trial.failed} failed")
    return trial.failed > 0


if __name__ == "__main__":
    sys.exit(main())
