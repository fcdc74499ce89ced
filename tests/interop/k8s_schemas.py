"""k8s_schemas.py SWAGGER OUT EKSCTL CRD...: one strict JSON schema per kind, under the names kubeconform
looks for: from the API server's own OpenAPI document, from eksctl's schema, and from definitions of custom
resources. A field that a schema does not list is an error."""
import json
import os
import sys

import yaml

REFERENCE = "#/definitions/"


def closed(value):
    """A copy in which objects have no other properties than those listed."""
    if isinstance(value, list):
        return [closed(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    copy = {key: closed(inner) for key, inner in value.items()}
    if copy.get("properties") and not copy.get("x-kubernetes-preserve-unknown-fields"):
        copy.setdefault("additionalProperties", False)
    if copy.get("x-kubernetes-int-or-string") is True:
        copy["type"] = ["integer", "string"]
        copy.pop("anyOf", None)
    return copy


def collect(value, definitions, used):
    """Gathers into `used` every definition that `value` leads to."""
    if isinstance(value, list):
        for inner in value:
            collect(inner, definitions, used)
    elif isinstance(value, dict):
        name = str(value.get("$ref", ""))[len(REFERENCE):]
        if name in definitions and name not in used:
            used[name] = definitions[name]
            collect(definitions[name], definitions, used)
        for inner in value.values():
            collect(inner, definitions, used)


def write(out, kind, group, version, schema):
    name = "-".join(part for part in (kind, group.split(".")[0], version) if part).lower()
    with open(os.path.join(out, name + ".json"), "w") as file:
        json.dump(schema, file)


def builtin(path, out):
    with open(path) as file:
        definitions = json.load(file)["definitions"]
    # These may be written in more ways than the document says.
    definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {"type": ["integer", "string"]}
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["number", "string"]}
    for definition in definitions.values():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        if len(kinds) != 1:
            continue
        kind, used = kinds[0], {}
        collect(definition, definitions, used)
        schema = dict(definition, definitions=used)
        full = kind["group"] + "/" + kind["version"] if kind["group"] else kind["version"]
        schema["properties"] = dict(definition.get("properties", {}), apiVersion={"enum": [full]},
                                    kind={"enum": [kind["kind"]]})
        write(out, kind["kind"], kind["group"], kind["version"], closed(schema))


def custom(path, out):
    with open(path) as file:
        for crd in yaml.load_all(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if not crd or crd["kind"] != "CustomResourceDefinition":
                continue
            for version in crd["spec"]["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"])
                if "properties" in schema:
                    schema["properties"]["metadata"] = {"type": "object"}
                write(out, crd["spec"]["names"]["kind"], crd["spec"]["group"], version["name"], schema)


os.makedirs(sys.argv[2], exist_ok=True)
builtin(sys.argv[1], sys.argv[2])
with open(sys.argv[3]) as file:
    write(sys.argv[2], "ClusterConfig", "eksctl.io", "v1alpha5", closed(json.load(file)))
for crd in sys.argv[4:]:
    custom(crd, sys.argv[2])
