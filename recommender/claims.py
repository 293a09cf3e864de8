"""What a VerticalPodAutoscaler asks of the recommender: Claim.

Owns its reading. An object that makes no sense in one place is read in all others, and the place is named.
"""

from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import Autoscaler, AutoscalerSpec, AutoscalerStatus, ObjectMeta, UpdateMode
from elastipod.eligible import named_by
from elastipod.kube.decoding import UNREADABLE, Decoder
from elastipod.pods import Workload
from recommender.leniently import read_leniently
from recommender.policies import SizePolicy, size_policy

WATCHED_KINDS: Final = (
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "Pod",
    "ReplicaSet",
    "StatefulSet",
)

_POST_PROCESSOR: Final = "vpa-post-processor.kubernetes.io/"
_INTEGER_CPU: Final = "_integerCPU"


class Claim(Struct, frozen=True):
    """A VerticalPodAutoscaler as the recommender reads it."""

    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    recommender: str = "default"
    target: Workload | None = None
    policies: dict[str, SizePolicy] = {}
    """By container name, `*` for all others; not merged, as upstream."""
    mode: UpdateMode = UpdateMode.RECREATE
    """Off where it can not be read."""
    status: AutoscalerStatus = AutoscalerStatus()
    """Of one that is ours."""
    whole_cores: frozenset[str] = frozenset()
    """Containers whose CPU is to be whole, for a node's static CPU manager."""
    problems: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """Whether its update mode resizes pods while they run."""
        return self.mode.may_resize

    @property
    def acts(self) -> bool:
        """Whether its advice is put in force at all; one that only recommends quarrels with nobody."""
        return self.mode is not UpdateMode.OFF

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def policy(self, container: str) -> SizePolicy:
        """What it asks for one container."""
        return self.policies.get(container) or self.policies.get("*") or _NO_POLICY


_NO_POLICY: Final = SizePolicy()


class _Loose(Struct):
    """The object with its parts unread, so that one bad part does not hide the others."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_specs: Final = msgspec.json.Decoder(AutoscalerSpec)
_statuses: Final = msgspec.json.Decoder(AutoscalerStatus | None)
_UNREAD_MODES: Final = ("spec:", "spec.updatePolicy:", "spec.updatePolicy.updateMode:")


def claim_decoder(ours: Collection[str]) -> Decoder[Claim]:
    """For VerticalPodAutoscalers; `ours` are the recommenders that we are. Raises BadObject where not even the metadata
    can be read. What others write into theirs each minute is left unread, and so is no change.
    """
    return Decoder(_Loose, lambda found: _claim(found, ours))


def _claim(found: _Loose, ours: Collection[str]) -> Claim:
    meta = found.metadata
    spec, problems = _spec(found.spec)
    recommender = spec.recommenders[0].name if spec.recommenders else "default"
    # What can not be read of one is written anew.
    status = _status(found.status) if recommender in ours else AutoscalerStatus()
    mode = _mode(spec, problems)
    policies: dict[str, SizePolicy] = {}
    listed = (spec.resource_policy.container_policies if spec.resource_policy else None) or []
    for place, policy in enumerate(listed):
        if policy.container_name in policies:
            problems.append(f"spec.resourcePolicy.containerPolicies[{place}]: {policy.container_name!r} has one before")
            continue
        policies[policy.container_name] = size = size_policy(policy)
        problems += [f"spec.resourcePolicy.containerPolicies[{place}].{problem}" for problem in size.problems]
    target, target_ref = None, spec.target_ref
    if target_ref is None or not target_ref.kind or not target_ref.name:
        problems.append("spec.targetRef: kind and name are needed")
    else:
        target = named_by(target_ref, meta.namespace)
    return Claim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        recommender=recommender,
        target=target,
        policies=policies,
        mode=mode,
        status=status,
        whole_cores=_whole_cores(meta.annotations),
        problems=tuple(problems),
    )


def _whole_cores(annotations: dict[str, str] | None) -> frozenset[str]:
    """The containers that upstream's annotation names: `vpa-post-processor.kubernetes.io/app_integerCPU: "true"`."""
    return frozenset(
        name.removeprefix(_POST_PROCESSOR).removesuffix(_INTEGER_CPU)
        for name, value in (annotations or {}).items()
        if value == "true" and name.startswith(_POST_PROCESSOR) and name.endswith(_INTEGER_CPU)
    )


def _spec(raw: msgspec.Raw) -> tuple[AutoscalerSpec, list[str]]:
    """A spec, and by place what in it can not be read."""
    try:
        return _specs.decode(raw), []
    except UNREADABLE:
        spec, problems = read_leniently(raw, AutoscalerSpec, "spec")
        return spec or AutoscalerSpec(), problems


def _status(raw: msgspec.Raw) -> AutoscalerStatus:
    try:
        return _statuses.decode(raw) or AutoscalerStatus()
    except UNREADABLE:
        status, _ = read_leniently(raw, AutoscalerStatus, "status")
        return status or AutoscalerStatus()


def _mode(spec: AutoscalerSpec, problems: list[str]) -> UpdateMode:
    if any(problem.startswith(_UNREAD_MODES) for problem in problems):
        return UpdateMode.OFF
    try:
        return Autoscaler(spec=spec).mode
    except ValueError as error:
        problems.append(f"spec.updatePolicy.updateMode: {str(error)[:200]}")
        return UpdateMode.OFF
