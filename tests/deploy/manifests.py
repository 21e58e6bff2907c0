"""Reads the manifests in `deploy/kubernetes`, the base by itself and what kubectl makes of all."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from tests.deploy.processes import DEPLOY, SECRETS, Process, image_variables

FOLDER: Final = DEPLOY / "kubernetes"
OVERLAYS: Final = ("base", "overlays/staging", "overlays/production")
POD_IP: Final = "10.0.0.7"

_MADE: Final = re.compile(r"\$\((\w+)\)")


def base() -> list[dict[str, Any]]:
    """Return the objects of the base, with the maps of settings that it generates."""
    kustomization = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())
    objects = [
        document
        for name in kustomization["resources"]
        for document in yaml.safe_load_all((FOLDER / "base" / name).read_text())
    ]
    for generator in kustomization["configMapGenerator"]:
        pairs = (literal.partition("=") for literal in generator["literals"])
        data = {name: value for name, _, value in pairs}
        metadata = {"name": generator["name"]}
        objects.append({"kind": "ConfigMap", "metadata": metadata, "data": data})
    return objects


def made_by_kubectl(overlay: str) -> list[dict[str, Any]]:
    """Return the objects that kubectl makes of a folder."""
    command = ["kubectl", "kustomize", str(FOLDER / overlay)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(text))


def of_kind(objects: Sequence[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind, by name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def container_of(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return the one container of a deployment."""
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def processes(objects: Sequence[dict[str, Any]]) -> dict[str, Process]:
    """Return the processes of deployments."""
    maps = {name: each["data"] for name, each in of_kind(objects, "ConfigMap").items()}
    return {
        name: _process(name, container_of(deployment), maps)
        for name, deployment in of_kind(objects, "Deployment").items()
    }


def _process(name: str, container: dict[str, Any], maps: dict[str, dict[str, str]]) -> Process:
    variables = image_variables()
    for source in container["envFrom"]:
        variables |= maps[source["configMapRef"]["name"]]
    for each in container["env"]:
        value = each.get("value", POD_IP if "IP" in each["name"] else name)
        # What is not a variable before it stays as it is written.
        variables[each["name"]] = _MADE.sub(lambda match: variables[match[1]], value)
    return Process(
        name,
        tuple(container["args"]),
        variables,
        frozenset(SECRETS),
        frozenset(_ports(container)),
    )


def _ports(container: dict[str, Any]) -> Iterator[int]:
    for port in container["ports"]:
        yield port["containerPort"]
