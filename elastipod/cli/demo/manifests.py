"""The objects that the demo creates.

Owns their JSON. Every pod has a command, for nodes that run real processes, and a usage model, for those that simulate.
"""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

PROGRAMS: Final = Path(__file__).parent.parent / "programs"
NAMESPACE: Final = "default"


def command(program: str, *arguments: str) -> list[str]:
    """How a pod runs one of the demo's programs."""
    return [sys.executable, "-S", "-E", str(PROGRAMS / program), *arguments]


def container(
    name: str, argv: list[str], requests: dict[str, str], limits: dict[str, str] | None = None
) -> dict[str, Any]:
    """One container."""
    resources: dict[str, Any] = {"requests": requests}
    if limits:
        resources["limits"] = limits
    return {"name": name, "image": "none", "command": argv, "resources": resources}


def job(name: str, spec: dict[str, Any], annotations: dict[str, str], usage: Any) -> dict[str, Any]:
    """A Job that runs once and is not tried again."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": _with_usage(annotations, usage)},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [spec]},
            },
        },
    }


def deployment(name: str, spec: dict[str, Any], annotations: dict[str, str], usage: Any) -> dict[str, Any]:
    """A Deployment of one replica."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": _with_usage(annotations, usage)},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [spec]},
            },
        },
    }


def autoscaler(name: str, kind: str = "Deployment") -> dict[str, Any]:
    """A VerticalPodAutoscaler that chose elastipod and resizes in place."""
    api_version = "apps/v1" if kind == "Deployment" else "batch/v1"
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"apiVersion": api_version, "kind": kind, "name": name},
            "updatePolicy": {"updateMode": "InPlace"},
            "recommenders": [{"name": "elastipod"}],
        },
    }


def _with_usage(annotations: dict[str, str], usage: Any) -> dict[str, str]:
    return {**annotations, "elastipod.io/simulated-usage": msgspec.json.encode(usage).decode()}
