"""What happens in a simulated cluster apart from elastipod: workloads, people, pods that come and go.

Owns the script, drawn whole from a seed before the run starts, so that the same seed means the same wishes whatever
fails meanwhile. After its last act nothing changes any more, and what is wanted is constant.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, Forbidden, NotFound
from elastipod.kube.resources import (
    AUTOSCALERS,
    DEPLOYMENTS,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    ResourceType,
)
from elastipod.localcluster.node.manifests import USAGE_MODEL

Json = dict[str, Any]

MEBI: Final = 1024 * 1024
NAMESPACE: Final = "load"
SPIKE: Final = "elastipod.io/memory-spike"
STATED: Final = "elastipod.io/resources"


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens at a time."""

    at: float
    resource: ResourceType
    name: str = ""
    create: Json | None = None
    patch: Json | None = None
    delete: bool = False


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How large a cluster and how busy."""

    deployments: tuple[int, int] = (1, 3)
    most_replicas: int = 3
    jobs: tuple[int, int] = (1, 2)
    bare_pods: tuple[int, int] = (0, 2)
    people: tuple[int, int] = (2, 5)
    busy_seconds: float = 160.0


@dataclass(slots=True)
class Script:
    """All acts in their order."""

    acts: list[Act] = field(default_factory=list)

    @property
    def ends_at(self) -> float:
        return self.acts[-1].at if self.acts else 0.0


def draw_script(spread: random.Random, settings: LoadSettings) -> Script:
    """A script from a seed."""
    acts: list[Act] = [Act(0.0, NAMESPACES, create={"metadata": {"name": NAMESPACE}})]
    acts += _rules(spread)
    deployments = [f"service-{number}" for number in range(spread.randint(*settings.deployments))]
    for name in deployments:
        acts += _deployment(spread, name, settings)
    for number in range(spread.randint(*settings.jobs)):
        acts += _job(spread, f"job-{number}", settings)
    for number in range(spread.randint(*settings.bare_pods)):
        acts += _bare_pod(spread, f"visitor-{number}")
    for _ in range(spread.randint(*settings.people)):
        acts.append(spread.choice(_PEOPLE)(spread, spread.choice(deployments), settings))
    return Script(sorted(acts, key=lambda act: act.at))


async def perform(act: Act, connection: Connection) -> None:
    """Do it. People try once, and may be too late or forbidden to; what is not understood is the script's own error."""
    resource = act.resource
    namespace = NAMESPACE if resource.namespaced else None
    try:
        if act.create is not None:
            body = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, **act.create})
            await connection.create(resource, namespace, body)
        elif act.patch is not None:
            body = msgspec.json.encode(act.patch)
            await connection.patch(resource, namespace, act.name, body, patch_type=PatchType.MERGE)
        elif act.delete:
            await connection.delete(resource, namespace, act.name)
    except (NotFound, Conflict, Forbidden):
        return


def _rules(spread: random.Random) -> list[Act]:
    acts = []
    if spread.random() < 0.3:
        most = {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "10m", "memory": "16Mi"}}
        limits = {"metadata": {"name": "limits"}, "spec": {"limits": [most]}}
        acts.append(Act(0.5, LIMIT_RANGES, create=limits))
    if spread.random() < 0.3:
        hard = {"requests.cpu": "8", "requests.memory": f"{spread.randint(3, 6)}Gi"}
        acts.append(Act(0.5, RESOURCE_QUOTAS, create={"metadata": {"name": "quota"}, "spec": {"hard": hard}}))
    return acts


def _deployment(spread: random.Random, name: str, settings: LoadSettings) -> list[Act]:
    used_memory = spread.randint(24, 200) * MEBI
    used_cpu = spread.randint(20, 400)
    steps = [[0, used_cpu, used_memory]]
    if spread.random() < 0.5:
        later = int(spread.uniform(60, settings.busy_seconds))
        steps.append([later, spread.randint(20, 600), int(used_memory * spread.uniform(0.5, 1.25))])
    request = int(used_memory * spread.choice((0.9, 1.5, 3.0, 5.0)))
    limit = max(int(request * spread.choice((1.0, 1.5, 2.0))), int(used_memory * 1.3))
    pod = _pod(steps, request, limit, spread.choice((100, 300, 800)), guaranteed=spread.random() < 0.2)
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": spread.randint(1, settings.most_replicas),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, **pod["metadata"]}, "spec": pod["spec"]},
        },
    }
    at = round(spread.uniform(1, 20), 3)
    return [Act(at, DEPLOYMENTS, create=body), *_autoscaler(spread, at, name, DEPLOYMENTS)]


def _autoscaler(spread: random.Random, at: float, name: str, target: ResourceType) -> list[Act]:
    mode = spread.choice(("InPlace", "InPlace", "InPlaceOrRecreate", "Off"))
    policy: Json = {"containerName": "*", "maxAllowed": {"memory": f"{spread.choice((256, 512, 2048))}Mi"}}
    if spread.random() < 0.4:
        policy["minAllowed"] = {"memory": "32Mi", "cpu": "20m"}
    body = {
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": name},
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": [policy]},
            "recommenders": [{"name": "elastipod"}],
        },
    }
    return [Act(at, AUTOSCALERS, create=body)]


def _job(spread: random.Random, name: str, settings: LoadSettings) -> list[Act]:
    """A job that leaps past its limit near its end."""
    steady = spread.randint(40, 100) * MEBI
    limit = int(steady * 1.3)
    seconds = int(spread.uniform(60, settings.busy_seconds))
    steps = [
        [0, 200, steady],
        [seconds * 3 // 4, 300, int(limit * spread.uniform(1.1, 2.0))],
        [seconds - 5, 50, steady],
    ]
    pod = _pod(steps, steady, limit, 200, guaranteed=False, seconds=seconds)
    pod["metadata"]["annotations"][SPIKE] = "Pause"
    pod["spec"]["restartPolicy"] = "Never"
    body = {"metadata": {"name": name}, "spec": {"backoffLimit": 2, "template": pod}}
    return [Act(round(spread.uniform(1, 60), 3), JOBS, create=body)]


def _bare_pod(spread: random.Random, name: str) -> list[Act]:
    """A pod that comes, may be deleted, and may come back under the same name."""
    body = _pod([[0, 50, 32 * MEBI]], 64 * MEBI, 128 * MEBI, 100, guaranteed=False)
    body["metadata"]["name"] = name
    came, stayed = round(spread.uniform(5, 60), 3), round(spread.uniform(20, 100), 3)
    acts = [Act(came, PODS, create=body), Act(came + stayed, PODS, name, delete=True)]
    if spread.random() < 0.5:
        acts.append(Act(came + stayed + 40.0, PODS, create=body))
    return acts


def _pod(steps: list[Any], request: int, limit: int, cpu: int, *, guaranteed: bool, seconds: int | None = None) -> Json:
    model: Json = {"steps": steps} if seconds is None else {"steps": steps, "seconds": seconds}
    requests = {"cpu": f"{cpu}m", "memory": str(limit if guaranteed else request)}
    limits = {"cpu": f"{cpu}m", "memory": str(limit)} if guaranteed else {"memory": str(limit)}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
    return {
        "metadata": {"annotations": {USAGE_MODEL: msgspec.json.encode(model).decode()}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2},
    }


def _caps(spread: random.Random, name: str, settings: LoadSettings) -> Act:
    policy = {"containerName": "*", "maxAllowed": {"memory": f"{spread.choice((96, 192, 384, 1024))}Mi"}}
    patch = {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}
    return Act(_sometime(spread, settings), AUTOSCALERS, name, patch=patch)


def _mode(spread: random.Random, name: str, settings: LoadSettings) -> Act:
    patch = {"spec": {"updatePolicy": {"updateMode": spread.choice(("Off", "InPlace", "Initial"))}}}
    return Act(_sometime(spread, settings), AUTOSCALERS, name, patch=patch)


def _scales(spread: random.Random, name: str, settings: LoadSettings) -> Act:
    patch = {"spec": {"replicas": spread.randint(1, settings.most_replicas)}}
    return Act(_sometime(spread, settings), DEPLOYMENTS, name, patch=patch)


def _states_size(spread: random.Random, name: str, settings: LoadSettings) -> Act:
    size = {"main": {"requests": {"cpu": f"{spread.randint(1, 8) * 50}m"}}}
    patch = {"metadata": {"annotations": {STATED: msgspec.json.encode(size).decode()}}}
    return Act(_sometime(spread, settings), DEPLOYMENTS, name, patch=patch)


def _forgets_policy(spread: random.Random, name: str, settings: LoadSettings) -> Act:
    return Act(_sometime(spread, settings), AUTOSCALERS, name, delete=True)


def _sometime(spread: random.Random, settings: LoadSettings) -> float:
    return round(spread.uniform(30, settings.busy_seconds), 3)


_PEOPLE: Final[tuple[Callable[[random.Random, str, LoadSettings], Act], ...]] = (
    _caps,
    _mode,
    _scales,
    _states_size,
    _forgets_policy,
)
