"""Builders of Kubernetes objects: a good default for everything, so that a test shows only what it is about."""

from typing import Any

Json = dict[str, Any]


def _given(**amounts: str | None) -> Json:
    return {key: value for key, value in amounts.items() if value is not None}


def container_json(
    name: str = "app",
    *,
    cpu: str | None = "100m",
    memory: str | None = "128Mi",
    cpu_limit: str | None = None,
    memory_limit: str | None = None,
    image: str = "registry.local/app:1",
    **more: Any,
) -> Json:
    """A container; `cpu` and `memory` are requests."""
    resources: Json = {}
    if requests := _given(cpu=cpu, memory=memory):
        resources["requests"] = requests
    if limits := _given(cpu=cpu_limit, memory=memory_limit):
        resources["limits"] = limits
    return {"name": name, "image": image, "resources": resources, **more}


def metadata_json(
    name: str,
    namespace: str | None = "default",
    *,
    uid: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: Json | None = None,
    **more: Any,
) -> Json:
    meta: Json = {"name": name}
    if namespace is not None:
        meta["namespace"] = namespace
    if uid:
        meta["uid"] = uid
    if labels:
        meta["labels"] = labels
    if annotations:
        meta["annotations"] = annotations
    if owner is not None:
        meta["ownerReferences"] = [owner]
    return {**meta, **more}


def owner_json(kind: str, name: str, uid: str, api_version: str = "apps/v1") -> Json:
    """A controlling ownerReference."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_json(
    name: str = "web-0",
    namespace: str = "default",
    *,
    cpu: str | None = "100m",
    memory: str | None = "128Mi",
    cpu_limit: str | None = None,
    memory_limit: str | None = None,
    containers: list[Json] | None = None,
    node: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: Json | None = None,
    uid: str = "",
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod of one container, or of those given; further keywords go into its spec as they are."""
    one = container_json(cpu=cpu, memory=memory, cpu_limit=cpu_limit, memory_limit=memory_limit)
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata_json(name, namespace, uid=uid, labels=labels, annotations=annotations, owner=owner),
        "spec": {"containers": containers if containers is not None else [one], **spec},
    }
    if node is not None:
        pod["spec"]["nodeName"] = node
    if status is not None:
        pod["status"] = status
    return pod


def running_status(pod: Json, *, started_at: str = "2026-11-29T12:00:00Z") -> Json:
    """The status of a pod whose containers all run with what its spec asks for."""
    containers = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "containerID": f"containerd://{pod['metadata']['name']}-{one['name']}",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started_at}},
            "allocatedResources": (one.get("resources") or {}).get("requests", {}),
            "resources": one.get("resources") or {},
        }
        for one in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "startTime": started_at,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started_at}],
        "containerStatuses": containers,
    }


def node_json(name: str = "n1", *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> Json:
    """A ready node; all of its capacity is allocatable."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0"},
        },
        **more,
    }


def template_json(labels: dict[str, str], containers: list[Json] | None = None, **spec: Any) -> Json:
    """A pod template."""
    return {"metadata": {"labels": labels}, "spec": {"containers": containers or [container_json()], **spec}}


def deployment_json(
    name: str = "web",
    namespace: str = "default",
    *,
    replicas: int = 1,
    containers: list[Json] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Deployment whose pods carry the label `app: <name>`."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata_json(name, namespace, labels=labels, annotations=annotations),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template_json(labels, containers),
            **spec,
        },
    }


def job_json(
    name: str = "genome", namespace: str = "default", *, containers: list[Json] | None = None, **spec: Any
) -> Json:
    """A Job of one pod."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata_json(name, namespace),
        "spec": {"template": template_json({"job-name": name}, containers, restartPolicy="Never"), **spec},
    }
