"""The ONNX project's own tests of single operators (PyPI onnx 1.16.2), read and computed by us,
through a program built from onnx_nodes.c. What we cannot compute must be refused; what we do not
refuse must be right; and the number of those never falls below the floor in onnx_nodes_floor.txt.

usage: check_onnx_nodes.py PROGRAM [DATA]"""
import collections
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLOOR = os.path.join(HERE, "onnx_nodes_floor.txt")
# They want the mask that numpy drew, in a mode in which no file is run here.
OTHER_RANDOM = re.compile(r"test_training_dropout(_default)?(_mask)?$")


def node_tests():
    """Directories of the tests, from the package in an environment of its own."""
    venv = subprocess.run([os.path.join(HERE, "../../tools/venv"), "onnx-nodes", "onnx==1.16.2"],
                          stdout=subprocess.PIPE, text=True, check=True)
    where = "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
    package = subprocess.run([venv.stdout.strip(), "-c", where], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.strip()
    folder = os.path.join(package, "backend/test/data/node")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if os.path.exists(os.path.join(folder, name, "model.onnx")))


def run(program, tests):
    """(verdict, name, reason) of each test. One that ends the program ends only its own run."""
    results = []
    while tests:
        done = subprocess.run([program] + tests[:100], stdout=subprocess.PIPE, text=True)
        lines = done.stdout.splitlines()
        for line in lines:
            verdict, _, rest = line.partition(" ")
            name, _, reason = rest.partition(": ")
            results.append((verdict, name, reason))
        if done.returncode:
            results.append(("failed", os.path.basename(tests[len(lines)]),
                            f"the program ended with status {done.returncode}"))
        tests = tests[len(lines) + (done.returncode != 0):]
    return results


def main():
    results = run(sys.argv[1], node_tests())
    counts = collections.Counter()
    passed = []
    for verdict, name, reason in results:
        if verdict == "failed" and OTHER_RANDOM.match(name):
            verdict = "refused"
        counts[verdict] += 1
        if verdict == "passed":
            passed.append(name)
        if verdict == "failed":
            print(f"{name}: {reason}")
    if "--list" in sys.argv:
        print("\n".join(passed))
    if "--refused" in sys.argv:
        print("\n".join(f"{name}: {reason}" for verdict, name, reason in results
                        if verdict == "refused"))
    with open(FLOOR, encoding="ascii") as file:
        floor = int(file.read())
    print(f"ONNX node tests: {counts['passed']} of {len(results)} computed and right "
          f"({counts['refused']} refused, {counts['failed']} wrong); the floor is {floor}")
    low = counts["passed"] < floor
    if low:
        print(f"fewer than before: {counts['passed']} < {floor}")
    if counts["passed"] > floor:
        print(f"more than before: write {counts['passed']} into {os.path.basename(FLOOR)}")
    print(f"{counts['passed']} passed, {counts['failed'] + low} failed")
    return 1 if counts["failed"] or low or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
