"""workflow_objects.py FILE DIRECTORY: writes the manifests inside a Workflow's steps to
DIRECTORY/inner-*.yaml, as Argo would: with the workflow's arguments in place."""
import re
import sys

import yaml

with open(sys.argv[1]) as file:
    documents = list(yaml.safe_load_all(file))
for workflow in (document for document in documents if document["kind"] == "Workflow"):
    values = {p["name"]: p["value"] for p in workflow["spec"]["arguments"]["parameters"]}
    for template in workflow["spec"]["templates"]:
        text = template.get("resource", {}).get("manifest")
        if not text:
            continue
        text = re.sub(r"\{\{workflow\.parameters\.([A-Za-z_0-9]+)\}\}", lambda match: values[match[1]], text)
        with open("%s/inner-%s.yaml" % (sys.argv[2], template["name"]), "w") as out:
            out.write(text)
