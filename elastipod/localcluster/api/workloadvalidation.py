"""What the kinds beside pods may say: workloads and their templates, jobs, scalers, services, leases.

Owns their specs at creation and change. Pod templates are podvalidation.py's matter, what a namespace prescribes
(LimitRange, ResourceQuota, PodDisruptionBudget) is limitvalidation.py's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import (
    Problem,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from elastipod.localcluster.api.naming import selector_problems, why_no_label, why_no_subdomain
from elastipod.localcluster.api.podvalidation import pod_spec_problems
from elastipod.localcluster.api.scalervalidation import scaler_problems
from elastipod.localcluster.api.schedules import why_no_schedule, why_no_time_zone
from elastipod.localcluster.api.selectors import selector_of

Json = dict[str, Any]

_RESTARTS: Final = {"jobs.batch": ("OnFailure", "Never")}
_SELECTOR_FIRST: Final = frozenset({"deployments.apps", "replicasets.apps", "statefulsets.apps"})
"""Kinds that say of a wrong selector that it is none, too."""
_NO_MATCH: Final = "`selector` does not match template `labels`"
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
TEMPLATED: Final = frozenset(
    {"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"}
)


def problems_of_spec(kind_id: str, json: Json) -> Iterator[Problem]:
    """Everything wrong with the spec of a workload."""
    spec = json.get("spec") or {}
    if kind_id in TEMPLATED:
        yield from _template_problems(kind_id, spec, "spec")
    if kind_id in _RULES:
        yield from _RULES[kind_id](spec, json)


def _template_problems(kind_id: str, spec: Json, path: str) -> Iterator[Problem]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    is_job = kind_id == "jobs.batch"
    labels = (template.get("metadata") or {}).get("labels") or {}
    pod = template.get("spec") or {}
    yield from pod_spec_problems(pod, f"{path}.template.spec")
    policy = pod.get("restartPolicy")
    if is_job and policy not in _RESTARTS[kind_id]:
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif not is_job and policy not in (None, "Always"):
        yield not_supported(f"{path}.template.spec.restartPolicy", policy, ["Always"])
    if not is_job and pod.get("activeDeadlineSeconds") is not None:
        yield forbidden_field(
            f"{path}.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in a workload is not Supported"
        )
    if selector is None:
        if not is_job or spec.get("manualSelector"):
            if kind_id != "daemonsets.apps":
                yield required(f"{path}.selector")
            yield invalid_value(f"{path}.template.metadata.labels", labels, _NO_MATCH)
        return
    problems = [*selector_problems(selector, f"{path}.selector")]
    yield from problems
    found = selector_of(selector)
    if problems and kind_id in _SELECTOR_FIRST:
        yield invalid_value(f"{path}.selector", selector, "invalid label selector")
    elif found is not None and not found.requirements and not is_job:
        yield invalid_value(f"{path}.selector", selector, "empty selector is invalid")
    elif not problems and found is not None and not found.matches(labels):
        yield invalid_value(f"{path}.template.metadata.labels", labels, _NO_MATCH)


def _deployment_problems(spec: Json, _: Json) -> Iterator[Problem]:
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling is not None:
        yield forbidden_field("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind not in (None, "Recreate", "RollingUpdate"):
        yield not_supported("spec.strategy", strategy, ["Recreate", "RollingUpdate"])
    if kind == "RollingUpdate" and rolling is not None:
        for field, most in (("maxUnavailable", 100), ("maxSurge", None)):
            yield from share_problems(rolling.get(field), f"spec.strategy.rollingUpdate.{field}", most_percent=most)
        if all(rolling.get(field) in (0, "0%") for field in ("maxUnavailable", "maxSurge")):
            yield invalid_value("spec.strategy.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        yield invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def share_problems(value: Any, path: str, *, most_percent: int | None = None) -> Iterator[Problem]:
    """Everything wrong with a number or a percentage."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+%", value):
            detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"
            yield invalid_value(path, value, detail)
        elif most_percent is not None and int(value[:-1]) > most_percent:
            yield invalid_value(path, value, f"must not be greater than {most_percent}%")
    elif value is not None and value < 0:
        yield invalid_value(path, value, _NOT_NEGATIVE)


def _stateful_set_problems(spec: Json, _: Json) -> Iterator[Problem]:
    if spec.get("podManagementPolicy") not in (None, "OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield invalid_value("spec.podManagementPolicy", spec["podManagementPolicy"], detail)
    name = spec.get("serviceName")
    if name and (why := why_no_label(name)):
        yield invalid_value("spec.serviceName", name, why)
    if ((spec.get("ordinals") or {}).get("start") or 0) < 0:
        yield invalid_value("spec.ordinals.start", spec["ordinals"]["start"], _NOT_NEGATIVE)
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        if kept.get(field) not in (None, "Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            yield not_supported(path, kept[field], ["Retain", "Delete"])
    if spec.get("volumeClaimTemplates"):
        yield forbidden_field("spec.volumeClaimTemplates", "claims are not served by the local cluster")
    yield from _set_strategy_problems(spec.get("updateStrategy") or {}, "spec.updateStrategy")


def _set_strategy_problems(strategy: Json, path: str) -> Iterator[Problem]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in ("OnDelete", "RollingUpdate"):
        yield invalid_value(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None and kind == "OnDelete":
        yield invalid_value(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
    elif rolling is not None:
        if (rolling.get("partition") or 0) < 0:
            yield invalid_value(f"{path}.rollingUpdate.partition", rolling["partition"], _NOT_NEGATIVE)
        away = rolling.get("maxUnavailable")
        yield from share_problems(away, f"{path}.rollingUpdate.maxUnavailable", most_percent=100)
        if away in (0, "0%"):
            yield invalid_value(f"{path}.rollingUpdate.maxUnavailable", away, "cannot be 0")


def _daemon_set_problems(spec: Json, _: Json) -> Iterator[Problem]:
    strategy = spec.get("updateStrategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate") or {}
    if kind not in ("OnDelete", "RollingUpdate"):
        yield not_supported("spec.updateStrategy", strategy, ["RollingUpdate", "OnDelete"])
    if kind != "RollingUpdate":
        return
    path = "spec.updateStrategy.rollingUpdate"
    for field in ("maxUnavailable", "maxSurge"):
        yield from share_problems(rolling.get(field), f"{path}.{field}", most_percent=100)
    away, more = (rolling.get(field) in (0, "0%") for field in ("maxUnavailable", "maxSurge"))
    if away and more:
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif not away and not more:
        yield invalid_value(
            f"{path}.maxSurge", rolling.get("maxSurge"), "may not be set when maxUnavailable is non-zero"
        )


def _job_problems(spec: Json, json: Json) -> Iterator[Problem]:
    mode = spec.get("completionMode")
    if mode == "Indexed":
        yield forbidden_field(
            "spec.completionMode", "Indexed jobs are not served by the local cluster; NonIndexed ones are"
        )
    elif mode not in (None, "NonIndexed"):
        yield not_supported("spec.completionMode", mode, ["Indexed", "NonIndexed"])
    if spec.get("podFailurePolicy") is not None:
        yield forbidden_field("spec.podFailurePolicy", "failure policies are not served by the local cluster")
    for field in ("successPolicy", "backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None:
            yield invalid_value(f"spec.{field}", spec[field], "requires indexed completion mode")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("podReplacementPolicy") not in (None, "Failed", "TerminatingOrFailed"):
        policies = ["Failed", "TerminatingOrFailed"]
        yield not_supported("spec.podReplacementPolicy", spec["podReplacementPolicy"], policies)
    manager = spec.get("managedBy")
    if manager is not None and (not manager.partition("/")[2] or why_no_subdomain(manager.partition("/")[0])):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid_value("spec.managedBy", manager, detail)
    selector = spec.get("selector") or {}
    uid = json["metadata"].get("uid")
    if not spec.get("manualSelector") and (selector.get("matchLabels") or {}) != {_CONTROLLER: uid}:
        yield invalid_value("spec.selector", selector, "`selector` not auto-generated")


_CONTROLLER: Final = "batch.kubernetes.io/controller-uid"


def _cron_job_problems(spec: Json, _: Json) -> Iterator[Problem]:
    schedule = spec.get("schedule")
    if not schedule:
        yield required("spec.schedule")
    elif why := why_no_schedule(schedule):
        yield invalid_value("spec.schedule", schedule, why)
    zone = spec.get("timeZone")
    if zone is not None and (why := why_no_time_zone(zone)):
        yield invalid_value("spec.timeZone", zone, why)
    if spec.get("concurrencyPolicy") not in (None, "Allow", "Forbid", "Replace"):
        yield not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], ["Allow", "Forbid", "Replace"])
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    path = "spec.jobTemplate.spec"
    yield from _template_problems("jobs.batch", {"template": template.get("template")}, path)
    if template.get("selector") or template.get("manualSelector"):
        yield invalid_value(f"{path}.selector", template.get("selector"), "`selector` will be auto-generated")


def _service_problems(spec: Json, _: Json) -> Iterator[Problem]:
    kind = spec.get("type")
    if kind not in (None, *_SERVICE_TYPES):
        yield not_supported("spec.type", kind, _SERVICE_TYPES)
    if not spec.get("ports") and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for place, port in enumerate(spec.get("ports") or ()):
        for field in ("port", "targetPort"):
            number = port.get(field)
            if isinstance(number, int) and not 0 < number < 65536:
                yield invalid_value(f"spec.ports[{place}].{field}", number, "must be between 1 and 65535, inclusive")
        if port.get("protocol") not in (None, "SCTP", "TCP", "UDP"):
            yield not_supported(f"spec.ports[{place}].protocol", port["protocol"], ["SCTP", "TCP", "UDP"])


def _lease_problems(spec: Json, _: Json) -> Iterator[Problem]:
    if (spec.get("leaseDurationSeconds") or 1) < 1 or spec.get("leaseDurationSeconds") == 0:
        yield invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if (spec.get("leaseTransitions") or 0) < 0:
        yield invalid_value("spec.leaseTransitions", spec["leaseTransitions"], _NOT_NEGATIVE)


_RULES: Final[Mapping[str, Callable[[Json, Json], Iterator[Problem]]]] = {
    "deployments.apps": _deployment_problems,
    "statefulsets.apps": _stateful_set_problems,
    "daemonsets.apps": _daemon_set_problems,
    "jobs.batch": _job_problems,
    "cronjobs.batch": _cron_job_problems,
    "horizontalpodautoscalers.autoscaling": lambda spec, _: scaler_problems(spec),
    "services": _service_problems,
    "leases.coordination.k8s.io": _lease_problems,
}
