#!/usr/bin/env python3
"""Checks the manifests in deploy/kubernetes against the types of Kubernetes' API, as Debian's python3-kubernetes has them.

  check_manifests.py FOLDER     prints a line for each fault; the status is 1 if there is one

It finds fields that do not exist, values of a wrong type, required fields that are missing, and names that nothing has: of files in
kustomization.yaml, secrets, configs, claims, volumes, ports, labels that a selector wants, and variables that deploy/start does not know.
"""

import os
import re
import sys

import kubernetes.client
import yaml

VERSIONS = {"v1", "apps/v1", "batch/v1", "autoscaling/v1", "networking.k8s.io/v1"}
PRIMITIVE = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object, "datetime": str}
START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start")

faults = []


def fault(place, text):
    faults.append(f"{place}: {text}")


def check_type(value, kind, place):
    """Checks a value against a type as the client names it: str, list[V1Container], dict(str, str), V1PodSpec."""
    container = re.fullmatch(r"list\[(.+)\]|dict\(str, (.+)\)", kind)
    if container:
        expected = list if container[1] else dict
        if not isinstance(value, expected):
            fault(place, f"is {value!r}, expected a {expected.__name__}")
            return
        for key, item in enumerate(value) if container[1] else value.items():
            check_type(item, container[1] or container[2], f"{place}.{key}")
    elif kind in PRIMITIVE:
        if not isinstance(value, PRIMITIVE[kind]) or (kind != "bool" and isinstance(value, bool)):
            fault(place, f"is {value!r}, expected {kind}")
    else:
        check_object(value, getattr(kubernetes.client, kind), place)


def check_object(value, model, place):
    if not isinstance(value, dict):
        fault(place, f"is {value!r}, expected fields of {model.__name__}")
        return
    attributes = {name: attribute for attribute, name in model.attribute_map.items()}
    for name, item in value.items():
        if name in attributes:
            check_type(item, model.openapi_types[attributes[name]], f"{place}.{name}")
        else:
            fault(place, f"has no field '{name}'; {model.__name__} has {', '.join(sorted(attributes))}")
    present = {attributes[name]: item for name, item in value.items() if name in attributes}
    try:
        model(**present)
    except ValueError as error:
        fault(place, str(error))


def pod_of(manifest):
    """The pod, or the template of one; {} if a manifest has none."""
    return manifest if manifest["kind"] == "Pod" else manifest.get("spec", {}).get("template") or {}


def check_names(manifests, made):
    """What manifests refer to is there. `made` has (kind, name) of what the kustomization makes."""
    known = made | {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    pods = [pod_of(manifest) for manifest in manifests if pod_of(manifest)]
    labels = [pod["metadata"].get("labels", {}) for pod in pods]
    ports = {port["name"] for pod in pods for container in pod["spec"]["containers"] for port in container.get("ports", [])}
    with open(START, encoding="utf-8") as file:
        variables = set(re.findall(r"\$\{?(DING_[A-Z_]+)", file.read()))

    def look(value, place):
        if isinstance(value, list):
            for number, item in enumerate(value):
                look(item, f"{place}.{number}")
        if not isinstance(value, dict):
            return
        for kind, field, name in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name"),
                                  ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName")):
            if name in (value.get(field) or {}) and (kind, value[field][name]) not in known:
                fault(f"{place}.{field}", f"nothing makes {kind} '{value[field][name]}'")
        wanted = value.get("matchLabels") or (value.get("selector") if "ports" in value else None)
        if wanted and not any(wanted.items() <= label.items() for label in labels):
            fault(place, f"no pod has the labels {wanted}")
        for term in value.get("matchExpressions", []):
            for label in set(term.get("values", [])) - {label.get(term.get("key")) for label in labels}:
                fault(place, f"no pod has the label {term.get('key')}: {label}")
        for field in ("port", "targetPort"):
            if isinstance(value.get(field), str) and value[field] not in ports:
                fault(f"{place}.{field}", f"no container has a port '{value[field]}'")
        if str(value.get("name", "")).startswith("DING_") and value["name"] not in variables:
            fault(place, f"deploy/start does not know {value['name']}")
        for key, item in value.items():
            look(item, f"{place}.{key}")

    for manifest in manifests:
        place = f"{manifest['kind']}/{manifest['metadata']['name']}"
        look(manifest, place)
        spec = manifest.get("spec", {})
        target = spec.get("scaleTargetRef")
        if target and (target["kind"], target["name"]) not in known:
            fault(place, f"there is no {target['kind']} '{target['name']}'")
        pod = pod_of(manifest)
        if not pod:
            continue
        selector = (spec.get("selector") or {}).get("matchLabels", {})
        if not selector.items() <= pod["metadata"].get("labels", {}).items():
            fault(place, f"its selector {selector} does not match its own pods")
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        mounts = {mount["name"] for container in pod["spec"]["containers"] for mount in container.get("volumeMounts", [])}
        for name in sorted(volumes ^ mounts):
            fault(place, f"volume '{name}' is {'not mounted' if name in volumes else 'mounted, but not there'}")


def main(folder):
    with open(os.path.join(folder, "kustomization.yaml"), encoding="utf-8") as file:
        kustomization = yaml.safe_load(file)
    files = sorted(name for name in os.listdir(folder) if name.endswith(".yaml") and name != "kustomization.yaml")
    resources = [name for name in files if name != "files.yaml"]  # which is applied by hand
    if sorted(kustomization["resources"]) != resources:
        fault("kustomization.yaml", f"resources are {kustomization['resources']}, expected {resources}")
    made = {("ConfigMap", item["name"]) for item in kustomization["configMapGenerator"]}
    made |= {("Secret", item["name"]) for item in kustomization["secretGenerator"]}
    manifests = []
    for name in files:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for manifest in yaml.safe_load_all(file):
                place = f"{name}: {manifest.get('kind')}"
                model = "V1" + str(manifest.get("kind"))
                if manifest.get("apiVersion") not in VERSIONS or not hasattr(kubernetes.client, model):
                    fault(place, f"has apiVersion '{manifest.get('apiVersion')}', expected a kind of {', '.join(sorted(VERSIONS))}")
                    continue
                before = len(faults)
                check_object(manifest, getattr(kubernetes.client, model), place)
                if len(faults) == before:
                    manifests.append(manifest)
    if not faults:
        check_names(manifests, made)
    for line in faults:
        print(line)
    print(f"{len(manifests)} manifests, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
