"""Who is not to be sized although a VerticalPodAutoscaler names it: a word on the pod or on what controls it.

Owns the annotations' reading: the nearest statement counts, whoever opted in further away. What becomes of it is the
parts' matter.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

SIZING_ANNOTATION: Final = "elastipod.io/sizing"
"""`Off`, or `Auto` where something further away says `Off`."""
EXCLUDED_ANNOTATION: Final = "elastipod.io/exclude-containers"
"""Names of containers, separated by commas."""

Statement = tuple[str, Mapping[str, str]]
"""Who says something, and its annotations."""


class OptOut(Struct, frozen=True):
    """What is not to be sized, and who said so; nothing where `by` is empty."""

    by: str = ""
    """Of all containers."""
    containers: Mapping[str, str] = {}
    """Of some: who said so, by name."""

    def of(self, container: str) -> str:
        """Who said that a container is not to be sized; nothing where nobody did."""
        return self.by or self.containers.get(container, "")


NOBODY: Final = OptOut()


def opted_out(statements: Iterable[Statement]) -> OptOut:
    """What is not to be sized, by statements from the nearest to the farthest.

    Whoever wrote something that can not be understood did not mean yes for sure.
    """
    by: str | None = None
    containers: dict[str, str] | None = None
    for who, annotations in statements:
        if not annotations:
            continue
        word, names = annotations.get(SIZING_ANNOTATION), annotations.get(EXCLUDED_ANNOTATION)
        if by is None and word is not None:
            by = "" if word == "Auto" else f"{who}: {SIZING_ANNOTATION}"
            if word not in ("Auto", "Off"):
                by += f" is {word[:40]!r}, which is neither Auto nor Off"
        if containers is None and names is not None:
            listed = (name.strip() for name in names.split(","))
            containers = {name: f"{who}: {EXCLUDED_ANNOTATION}" for name in listed if name}
    return OptOut(by or "", containers or {}) if by or containers else NOBODY


def common(annotations: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all pods of a workload say alike: one that is marked by hand speaks for itself alone."""
    found: dict[str, str] | None = None
    for one in annotations:
        mine = {key: one[key] for key in (SIZING_ANNOTATION, EXCLUDED_ANNOTATION) if key in one}
        found = mine if found is None else {key: text for key, text in found.items() if mine.get(key) == text}
        if not found:
            return {}
    return found or {}
