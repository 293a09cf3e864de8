"""The conditions of a VerticalPodAutoscaler's status.

Owns which hold, why, and since when. Upstream's types, of which it sets three, and MetricsLost and TargetNotFound.
"""

from dataclasses import dataclass

from elastipod.api import Condition
from elastipod.clock import to_rfc3339
from elastipod.reasons import Reason
from recommender.banks import Speaker
from recommender.ranges import Cap, Resource

OWN_TYPES = (
    "ConfigUnsupported",
    "FetchingHistory",
    "LowConfidence",
    "MetricsLost",
    "NoPodsMatched",
    "RecommendationProvided",
    "TargetNotFound",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one VerticalPodAutoscaler."""

    is_provided: bool = False
    has_pods: bool = True
    is_off: bool = False
    """Whether the policy leaves all containers out."""
    opted_out: str = ""
    """Who says that the workload is not to be sized."""
    is_target_found: bool = True
    is_confident: bool = True
    is_history_loaded: bool = True
    fetching: str = ""
    """What of its past is being fetched, or why it can not be."""
    unusable_history: str = ""
    """Which checkpoint could not be used, and why."""
    metrics_lost: str = ""
    """What is missing, and since when."""
    problems: tuple[str, ...] = ()
    """What in the spec could not be followed."""
    rivals: tuple[str, ...] = ()
    """Others of ours that name the same target."""
    short_runs: str = ""
    """What runs so shortly that its usage is hardly seen."""
    notes: tuple[str, ...] = ()
    """What else a reader should know of a recommendation."""
    speakers: tuple[tuple[str, Resource, Speaker], ...] = ()
    """By container, who speaks for a resource, where that may be another than the histogram."""
    caps: tuple[tuple[str, Cap], ...] = ()
    """By container, what cut, lifted or withheld its recommendation."""


def conditions(facts: Facts, before: tuple[Condition, ...], generation: int, now: float) -> tuple[Condition, ...]:
    """The conditions by type, those of others kept; one whose status stays keeps its time."""
    wanted = {condition.type: condition for condition in _wanted(facts)}
    known = {condition.type: condition for condition in before}
    found: list[Condition] = []
    for kind in sorted({*wanted, *known}):
        old, new = known.get(kind), wanted.get(kind)
        if new is None:
            if old is not None and kind not in OWN_TYPES:
                found.append(old)
            continue
        is_same = old is not None and old.status == new.status and old.last_transition_time
        found.append(
            Condition(
                type=kind,
                status=new.status,
                last_transition_time=old.last_transition_time if old is not None and is_same else to_rfc3339(now),
                reason=new.reason,
                message=new.message,
                observed_generation=generation or None,
            )
        )
    return tuple(found)


def _wanted(facts: Facts) -> list[Condition]:
    found = [_provided(facts)]
    if facts.rivals:
        message = f"{Reason.CONFLICT.explanation}: {', '.join(facts.rivals)[:500]} name the same target"
        found.append(_true("ConfigUnsupported", Reason.CONFLICT, message))
    elif facts.problems:
        found.append(_true("ConfigUnsupported", Reason.BAD_VALUE, "; ".join(facts.problems)[:1000]))
    if not facts.is_history_loaded:
        found.append(_true("FetchingHistory", Reason.NO_RECOMMENDATION, "the saved history is being read"))
    elif facts.fetching:
        found.append(_true("FetchingHistory", Reason.LOW_CONFIDENCE, facts.fetching))
    if facts.is_provided and not facts.is_confident:
        why = facts.unusable_history
        reason = Reason.HISTORY_UNUSABLE if why else Reason.LOW_CONFIDENCE
        found.append(_true("LowConfidence", reason, why or Reason.LOW_CONFIDENCE.explanation))
    if facts.metrics_lost:
        found.append(_true("MetricsLost", Reason.METRICS_LOST, facts.metrics_lost))
    if not facts.is_target_found:
        found.append(_true("TargetNotFound", Reason.TARGET_NOT_FOUND, Reason.TARGET_NOT_FOUND.explanation))
    if not facts.has_pods:
        found.append(_true("NoPodsMatched", Reason.NO_PODS_MATCHED, "No pods match this VPA object"))
    return found


def _provided(facts: Facts) -> Condition:
    if facts.is_provided:
        told = [facts.unusable_history, *facts.notes, *_speakers(facts), _caps(facts)]
        message = "; ".join(one for one in told if one)[:1000]
        return Condition(type="RecommendationProvided", status="True", message=message)
    if facts.unusable_history:
        reason, message = Reason.HISTORY_UNUSABLE, facts.unusable_history[:1000]
    elif not facts.is_target_found:
        reason, message = Reason.TARGET_NOT_FOUND, Reason.TARGET_NOT_FOUND.explanation
    elif facts.opted_out:
        reason, message = Reason.OPTED_OUT, f"{Reason.OPTED_OUT.explanation}: {facts.opted_out}"
    elif not facts.has_pods:
        reason, message = Reason.NO_PODS_MATCHED, "No pods match this VPA object"
    elif facts.is_off:
        reason, message = Reason.MODE_OFF, "the resourcePolicy's mode is Off for all of its containers"
    elif facts.short_runs:
        reason, message = Reason.TOO_SHORT_TO_SEE, f"{Reason.TOO_SHORT_TO_SEE.explanation}: {facts.short_runs}"
    elif facts.caps:
        reason, message = facts.caps[-1][1].reason, _caps(facts)[:1000]
    else:
        reason, message = Reason.NO_RECOMMENDATION, "no usage of its containers has been seen yet"
    return Condition(type="RecommendationProvided", status="False", reason=str(reason), message=message)


def capped_words(container: str, why: Cap) -> str:
    """Without the amount: that moves."""
    return f"{container}: {why.resource} {why.reason} ({why.by})"


def speaker_words(container: str, resource: Resource, estimator: str) -> str:
    """Who speaks for a resource of a container."""
    return f"{container}: {resource} by {estimator}"


def _caps(facts: Facts) -> str:
    """Each once."""
    return "; ".join(dict.fromkeys(capped_words(*one) for one in facts.caps))


def _speakers(facts: Facts) -> list[str]:
    """Who speaks in the histogram's place."""
    return [
        speaker_words(container, resource, speaker.candidate.estimator)
        for container, resource, speaker in facts.speakers
        if speaker.candidate is not None
    ]


def _true(kind: str, reason: Reason, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=str(reason), message=message)
