"""What a person is told of a VerticalPodAutoscaler once, when it comes to be so: News.

Owns which changes of a status are news, and their words, which are the conditions' own. What was told stands in the
status, so a restart or another leader repeats nothing. What comes back at each restart (which estimator is admitted),
what every new object goes through (little history) and what its owner did (no pods) is no news.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from elastipod.api import Condition
from elastipod.quantities import show_memory
from elastipod.reasons import Reason
from recommender.conditions import Facts, capped_words, speaker_words
from recommender.estimators.candidates import Estimator
from recommender.ranges import Cap
from recommender.samples import OomKill

_FAULTS: Final = ("ConfigUnsupported", "MetricsLost", "TargetNotFound")
"""Conditions that something is wrong while they hold."""
_STATED: Final = "ConfigUnsupported"
"""The one whose words change only when somebody states something else."""
_CAPS: Final = frozenset(
    {
        Reason.CAPPED_BY_MAX,
        Reason.CAPPED_BY_GLOBAL_MAX,
        Reason.CAPPED_BY_LIMIT,
        Reason.CAPPED_BY_LIMIT_RANGE,
        Reason.CAPPED_BY_NODE,
        Reason.CAPPED_BY_QUOTA,
        Reason.CAPPED_BY_POD,
        Reason.CONTRADICTION,
        Reason.DIFFERS_BY_NODE_CLASS,
        Reason.FOLLOWS_LIMIT,
        Reason.KEPT_FOR_RUNTIME,
        Reason.SCALED_HORIZONTALLY,
        Reason.SIZED_AT_START,
        Reason.TOO_SHORT_TO_SEE,
    }
)
"""What cuts or withholds what is needed, or leaves it without effect."""
_REASONS: Final = {str(one): one for one in Reason}


@dataclass(frozen=True, slots=True)
class News:
    """One thing to be told."""

    reason: Reason
    message: str
    is_normal: bool = False
    about: str = ""
    """What stays the same where the message moves; the message where it does not."""


def news(facts: Facts, before: Iterable[Condition], now: Iterable[Condition]) -> list[News]:
    """What a status says now that it did not say before. `facts` are those that the conditions now were made of."""
    old = {one.type: one for one in before if one.status == "True" or one.type == "RecommendationProvided"}
    new = {one.type: one for one in now}
    return [*_faults(old, new), *_notes(facts, old, new)]


def killed(kill: OomKill, floor_bytes: float) -> News:
    """A container was killed for memory, and gets more from now on."""
    limit = f"at a memory limit of {show_memory(kill.limit_bytes)}" if kill.limit_bytes else "with no memory limit"
    message = f"container {kill.container} was killed for memory {limit}; it needs {show_memory(round(floor_bytes))}"
    return News(Reason.OOM_KILLED, message, about=kill.container)


def _faults(old: dict[str, Condition], new: dict[str, Condition]) -> Iterator[News]:
    for kind in _FAULTS:
        was, holds = old.get(kind), new.get(kind)
        if holds is None:
            if was is not None:
                yield News(Reason.RESOLVED, f"{kind} no longer holds", is_normal=True, about=kind)
        elif was is None or was.reason != holds.reason or (kind == _STATED and was.message != holds.message):
            yield News(_REASONS[holds.reason], holds.message, about=holds.message if kind == _STATED else kind)


def _notes(facts: Facts, old: dict[str, Condition], new: dict[str, Condition]) -> Iterator[News]:
    """What stands in words beside the recommendation."""
    was, holds = old.get("RecommendationProvided"), new["RecommendationProvided"]
    known, told = _phrases(was), _phrases(holds)
    unusable = facts.unusable_history
    # Of many, the condition has room for some.
    if unusable and set(unusable.split("; ")) & told - known:
        yield News(Reason.HISTORY_UNUSABLE, unusable)
    if holds.reason == Reason.TOO_SHORT_TO_SEE and (was is None or was.reason != holds.reason):
        yield News(Reason.TOO_SHORT_TO_SEE, holds.message, is_normal=True, about=holds.type)
    fresh: dict[Reason, dict[str, None]] = {}
    for container, why in facts.caps:
        words = capped_words(container, why)
        if why.reason in _CAPS and words in told and not _stood(container, why, known):
            fresh.setdefault(why.reason, {})[words] = None
    for reason, those in fresh.items():
        message = f"{reason.explanation}: {'; '.join(those)}"
        yield News(reason, message, is_normal=reason is not Reason.CONTRADICTION)
    for container, resource, speaker in facts.speakers:
        lost = [one for one in Estimator if speaker_words(container, resource, one) in known]
        if lost and speaker.reason is Reason.NO_BETTER_ESTIMATOR:
            message = f"{container}: {resource} by {Estimator.HISTOGRAM} again, no longer by {lost[0]}"
            yield News(speaker.reason, f"{message}; {speaker.reason.explanation}", is_normal=True)


def _phrases(condition: Condition | None) -> set[str]:
    return set(condition.message.split("; ")) if condition is not None else set()


def _stood(container: str, why: Cap, known: set[str]) -> bool:
    """Whether the same was told before, whoever caused it and by how much."""
    head = capped_words(container, why).removesuffix(f"({why.by})")
    return any(one.startswith(head) for one in known)
