"""same_objects.py A B: do two YAML files hold the same objects, in whatever order?"""
import sys

import yaml


def objects(path):
    with open(path) as file:
        found = [document for document in yaml.safe_load_all(file) if document]
    return {(o["kind"], o["metadata"]["name"], o["metadata"].get("namespace")): o for o in found}


def differences(a, b, where):
    if type(a) != type(b):
        yield "%s: %r against %r" % (where, a, b)
    elif isinstance(a, dict):
        for key in sorted(set(a) | set(b)):
            if key not in a or key not in b:
                yield "%s.%s: only in the %s" % (where, key, "first" if key in a else "second")
            else:
                yield from differences(a[key], b[key], "%s.%s" % (where, key))
    elif isinstance(a, list):
        if len(a) != len(b):
            yield "%s: %d against %d entries" % (where, len(a), len(b))
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, "%s[%d]" % (where, i))
    elif a != b:
        yield "%s: %r against %r" % (where, a, b)


a, b = objects(sys.argv[1]), objects(sys.argv[2])
found = ["%s: only in the %s" % (key, "first" if key in a else "second") for key in sorted(set(a) ^ set(b), key=str)]
for key in sorted(set(a) & set(b), key=str):
    found += differences(a[key], b[key], "/".join(str(part) for part in key))
print("\n".join(found[:10]))
sys.exit(1 if found or not a else 0)
