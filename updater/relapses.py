"""Memory that was lowered and then killed for: given back at once, and not taken again for a while.

Owns what each container had before it was asked to shrink, and the verdict. A kill is told by its reason and by the
count of restarts: the time that a kubelet tells may lack, or be the second of the resize itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elastipod.pods import Container, Pod
from updater.sizes import Size, Sizes, size_of
from updater.steps import lowers_memory_limit


@dataclass(slots=True)
class _Shrink:
    had: Size
    restarts: int
    barred_until: float | None = None
    """Known once it was killed for."""


class Relapses:
    """Shrinks by pod and container; all of it can be lost without harm, as the recommender counts kills too."""

    def __init__(self, cool_down_seconds: float) -> None:
        self._cool_down_seconds = cool_down_seconds
        self._shrinks: dict[str, dict[str, _Shrink]] = {}

    def asked(self, pod: Pod, sizes: Sizes) -> None:
        """These sizes are asked for."""
        for name, size in sizes.items():
            container = pod.container(name)
            if container is not None and lowers_memory_limit(container, size):
                shrinks = self._shrinks.setdefault(pod.key, {})
                shrinks[name] = _Shrink(size_of(container), container.restart_count)

    def seen(self, pod: Pod, now: float) -> float | None:
        """A pod as it is now; until when a kill that shows bars what it was killed for."""
        found = None
        for name, shrink in self._shrinks.get(pod.key, {}).items():
            container = pod.container(name)
            if container is not None and shrink.barred_until is None and _was_killed_since(container, shrink.restarts):
                found = shrink.barred_until = now + self._cool_down_seconds
        return found

    def had(self, key: str, now: float) -> Mapping[str, Size]:
        """What containers had before a shrink that they were killed for, while that is barred."""
        shrinks = self._shrinks.get(key)
        if not shrinks:
            return {}
        return {name: one.had for name, one in shrinks.items() if now < (one.barred_until or 0.0)}

    def forget(self, key: str) -> None:
        """The pod is gone."""
        self._shrinks.pop(key, None)


def _was_killed_since(container: Container, restarts: int) -> bool:
    """Whether a run that began after so many restarts was killed for memory."""
    if container.termination is not None:
        return container.termination.is_oom_kill and container.restart_count >= restarts
    ended = container.last_termination
    return ended is not None and ended.is_oom_kill and container.restart_count > restarts
