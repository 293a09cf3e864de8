"""What may be said of an object of the right shape, and what of it may change.

Owns which rules hold for which kind. The rules themselves are podvalidation.py's, podstatus.py's,
workloadvalidation.py's, limitvalidation.py's and customvalidation.py's; those of a resize resize.py's.
"""

from typing import Any, Final

from elastipod.localcluster.api import customvalidation, limitvalidation, workloadvalidation
from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value
from elastipod.localcluster.api.kinds import POD, Kind
from elastipod.localcluster.api.naming import metadata_problems
from elastipod.localcluster.api.podstatus import status_problems
from elastipod.localcluster.api.podvalidation import plain_update_problems, pod_spec_problems

Json = dict[str, Any]

_IMMUTABLE: Final = {
    "deployments.apps": ("selector",),
    "replicasets.apps": ("selector",),
    "daemonsets.apps": ("selector",),
    "statefulsets.apps": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
    "jobs.batch": ("selector", "completionMode", "completions", "template"),
}


def problems_of_new(kind: Kind, json: Json, shape_problems: list[Problem]) -> list[Problem]:
    """Everything wrong with a new object; `shape_problems` were found before."""
    problems = [*shape_problems, *metadata_problems(kind, json["metadata"])]
    if kind is POD:
        if json["spec"].get("ephemeralContainers"):
            problems.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        return problems + pod_spec_problems(json["spec"], "spec")
    return problems + _problems_of_spec(kind, json, shape_problems)


def problems_of_change(
    kind: Kind, old: Json, json: Json, subresource: str, shape_problems: list[Problem]
) -> list[Problem]:
    """Everything wrong with a changed object."""
    if subresource == "status":
        return shape_problems + _problems_of_status(kind, old, json, shape_problems)
    problems = [*shape_problems, *metadata_problems(kind, json["metadata"]), *_finalizer_problems(old, json)]
    if kind is POD:
        return problems + plain_update_problems(old["spec"], json["spec"])
    problems += _problems_of_spec(kind, json, shape_problems)
    problems += limitvalidation.problems_of_change(kind.id, old, json)
    for field in _IMMUTABLE.get(kind.id, ()):
        if old["spec"].get(field) != json["spec"].get(field):
            problems.append(invalid_value(f"spec.{field}", json["spec"].get(field), "field is immutable"))
    return problems


def _problems_of_spec(kind: Kind, json: Json, shape_problems: list[Problem]) -> list[Problem]:
    if kind.is_custom:
        return [*customvalidation.problems_of(kind, json, shape_problems)]
    if kind.id in limitvalidation.RULES:
        return [*limitvalidation.RULES[kind.id](json)]
    return [*workloadvalidation.problems_of_spec(kind.id, json)]


def _problems_of_status(kind: Kind, old: Json, json: Json, shape_problems: list[Problem]) -> list[Problem]:
    if kind.is_custom and shape_problems:
        return [*customvalidation.problems_of(kind, json, shape_problems)]
    return [*status_problems(old, json)] if kind is POD else []


def _finalizer_problems(old: Json, json: Json) -> list[Problem]:
    """What is going gets no more finalizers."""
    before, after = old["metadata"], json["metadata"]
    more = set(after.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if not before.get("deletionTimestamp") or not more:
        return []
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {sorted(more)}"
    return [forbidden_field("metadata.finalizers", detail)]
