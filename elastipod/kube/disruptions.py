"""PodDisruptionBudgets, as far as we read them.

Owns the value and its reading. What is held to one is each part's matter.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from elastipod.kube.decoding import whole
from elastipod.pods import Pod
from elastipod.selectors import LabelSelector


class _Meta(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Spec(Struct, frozen=True, gc=False):
    selector: LabelSelector | None = None


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    disruptions_allowed: int = 0


class DisruptionLimit(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it speaks of a pod with these labels (policy/v1: an empty selector speaks of all)."""
        selector = self.spec.selector
        return namespace == self.metadata.namespace and selector is not None and selector.selects(labels)


def letting_none_go(limits: Iterable[DisruptionLimit]) -> Callable[[Pod], bool]:
    """Tells of a pod whether one of these limits lets none of its kind go now."""
    by_namespace: dict[str, list[DisruptionLimit]] = {}
    for one in limits:
        if one.status.disruptions_allowed <= 0:
            by_namespace.setdefault(one.metadata.namespace, []).append(one)
    return lambda pod: any(one.covers(pod.namespace, pod.labels) for one in by_namespace.get(pod.namespace, ()))


decode_disruption_limit: Final = whole(DisruptionLimit)
