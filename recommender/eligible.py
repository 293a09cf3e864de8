"""Pods that might be sized as more than one workload, by each of those.

Owns the index, so that a claim that comes or goes is followed at once. Which of them counts is membership.py's matter.
"""

from elastipod.pods import Workload


class Eligible:
    """What each pod might be sized as; a pod with one choice only is not remembered."""

    def __init__(self) -> None:
        self._choices: dict[str, tuple[Workload, ...]] = {}
        self._pods: dict[Workload, set[str]] = {}

    def set(self, key: str, choices: tuple[Workload, ...]) -> None:
        """A pod might be sized as these now."""
        choices = choices if len(choices) > 1 else ()
        before = self._choices.pop(key, ())
        if choices:
            self._choices[key] = choices
        if choices == before:
            return
        for workload in before:
            self._pods[workload].discard(key)
            if not self._pods[workload]:
                del self._pods[workload]
        for workload in choices:
            self._pods.setdefault(workload, set()).add(key)

    def pods(self, workload: Workload) -> list[str]:
        """The keys of the pods that might be sized as this workload, and as another."""
        return sorted(self._pods.get(workload, ()))
