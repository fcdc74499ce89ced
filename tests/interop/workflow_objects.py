"""workflow_objects.py DIRECTORY: for every N.yaml there with a Workflow in it, writes the manifests inside
its steps to N-inner-STEP.yaml, as Argo would: with the workflow's arguments in place."""
import glob
import re
import sys

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def write_inner(path, workflow):
    values = {p["name"]: p["value"] for p in workflow["spec"]["arguments"]["parameters"]}
    for template in workflow["spec"]["templates"]:
        text = template.get("resource", {}).get("manifest")
        if not text:
            continue
        text = re.sub(r"\{\{workflow\.parameters\.([A-Za-z_0-9]+)\}\}", lambda match: values[match[1]], text)
        with open("%s-inner-%s.yaml" % (path[:-len(".yaml")], template["name"]), "w") as out:
            out.write(text)


for path in glob.glob(sys.argv[1] + "/*.yaml"):
    with open(path) as file:
        for document in yaml.load_all(file, Loader=LOADER):
            if document["kind"] == "Workflow":
                write_inner(path, document)
