"""What a VerticalPodAutoscaler asks of the recommender: Claim.

Owns its reading. An object that makes no sense in one place is read in all others, and the place is named.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import Autoscaler, AutoscalerSpec, AutoscalerStatus, ObjectMeta, TargetRef, UpdateMode
from elastipod.eligible import named_by
from elastipod.kube.decoding import Decoder
from elastipod.pods import Workload
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


class _Who(Struct, rename="camel"):
    """As much of a spec as tells whose it is and what for."""

    target_ref: TargetRef | None = None
    recommenders: list[dict[str, str]] | None = None


_specs: Final = msgspec.json.Decoder(AutoscalerSpec)
_whos: Final = msgspec.json.Decoder(_Who)
_statuses: Final = msgspec.json.Decoder(AutoscalerStatus | None)


def claim_decoder(ours: Collection[str]) -> Decoder[Claim]:
    """For VerticalPodAutoscalers; `ours` are the recommenders that we are. Raises BadObject where not even the metadata
    can be read. What others write into theirs each minute is left unread, and so is no change.
    """
    return Decoder(_Loose, lambda found: _claim(found, ours))


def _claim(found: _Loose, ours: Collection[str]) -> Claim:
    meta, problems = found.metadata, []
    spec = AutoscalerSpec()
    try:
        spec = _specs.decode(found.spec)
        recommender = spec.recommenders[0].name if spec.recommenders else "default"
        target_ref = spec.target_ref
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.append(f"spec: {error}")
        recommender, target_ref = _who(found.spec)
    status = AutoscalerStatus()
    if recommender in ours:
        # One that can not be read is written anew.
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            status = _statuses.decode(found.status) or status
    policies: dict[str, SizePolicy] = {}
    listed = (spec.resource_policy.container_policies if spec.resource_policy else None) or []
    for place, policy in enumerate(listed):
        if policy.container_name in policies:
            problems.append(f"spec.resourcePolicy.containerPolicies[{place}]: {policy.container_name!r} has one before")
            continue
        policies[policy.container_name] = size = size_policy(policy)
        problems += [f"spec.resourcePolicy.containerPolicies[{place}].{problem}" for problem in size.problems]
    target = None
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
        mode=_mode(spec),
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


def _mode(spec: AutoscalerSpec) -> UpdateMode:
    try:
        return Autoscaler(spec=spec).mode
    except ValueError:
        return UpdateMode.OFF


def _who(spec: msgspec.Raw) -> tuple[str, TargetRef | None]:
    try:
        who = _whos.decode(spec)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "default", None
    return (who.recommenders[0].get("name", "default") if who.recommenders else "default"), who.target_ref
