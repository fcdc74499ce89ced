"""driver_names.py NAMES FILE...: are the drivers in StorageClasses and volumes, and what they are told, in
NAMES/DRIVER.names, the texts of the driver's own source? At least one of each must be there."""
import os
import sys

import yaml

unknown, seen = [], set()


def check(path, driver, told):
    try:
        with open(os.path.join(sys.argv[1], driver + ".names")) as file:
            known = file.read().splitlines()
    except FileNotFoundError:
        known = []
    seen.add((driver, bool(told)))
    unknown.extend("%s: %s: %s" % (path, driver, name) for name in [driver] + list(told) if name not in known)


for path in sys.argv[2:]:
    with open(path) as file:
        for thing in filter(None, yaml.safe_load_all(file)):
            if thing["kind"] == "StorageClass":
                check(path, thing["provisioner"], thing.get("parameters", {}))
            elif thing["kind"] == "PersistentVolume" and "csi" in thing["spec"]:
                check(path, thing["spec"]["csi"]["driver"], thing["spec"]["csi"].get("volumeAttributes", {}))
if len(seen) < 4:
    unknown.append("only %s were rendered" % sorted(seen))
print("\n".join(unknown))
sys.exit(bool(unknown))
