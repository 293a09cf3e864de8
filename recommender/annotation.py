"""Our annotation of a checkpoint: what upstream's form has no place for.

Owns its form, its bounds and its reading, each field by itself: one that makes no sense is named and left out, and so
is the whole where it is of another version. Runs are jobrecords.py's matter.
"""

from typing import Final

import msgspec
from msgspec import Struct, structs

from recommender.following import STEPS
from recommender.histogram import CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET, HistogramState, buckets_from
from recommender.history import ContainerHistory
from recommender.jobrecords import JobRecord, UnusableRuns, read_record
from recommender.leniently import read_leniently
from recommender.oom import MOST_KILL_IDS, OomEvidence

HISTORY_ANNOTATION: Final = "elastipod.io/history"
WHERE: Final = f"metadata.annotations[{HISTORY_ANNOTATION}]"
MOST_FINE_WEIGHT: Final = 1_000_000

_VERSION: Final = 1
_MOST_WINDOWS: Final = 500
_MOST_LENGTH: Final = 200_000
_MOST_BYTES: Final = 1e14
_MOST_MILLICORES: Final = 10**8
_MOST_REPEATS: Final = 64
_NOTHING: Final = msgspec.Raw(b"null")
_WHOLES: Final = ("cpu", "memory", "oom", "before")
_BUCKETS: Final = {"cpu": buckets_from(CPU_FIRST_BUCKET).count, "memory": buckets_from(MEMORY_FIRST_BUCKET).count}


class Fine(Struct):
    """A histogram by our own buckets."""

    reference_at: float
    weights: dict[int, int]


class Oom(Struct):
    """What kills proved."""

    floor_bytes: float
    proven_bytes: float
    at: float
    kills: int
    repeats: int
    kill_ids: list[str]


class Before(Struct):
    """What was requested first."""

    cpu_millicores: int | None = None
    memory_bytes: int | None = None


class Annotation(Struct):
    """The annotation as it stands."""

    saved_at: str = ""
    """The checkpoint's lastUpdateTime: histograms here hold only as long as nobody else has written since."""
    version: int = _VERSION
    target: str = ""
    """The workload whose history it is; an autoscaler may be turned to another."""
    cpu: Fine | None = None
    memory: Fine | None = None
    first_sample_at: float | None = None
    last_sample_at: float | None = None
    windows: list[tuple[str, float, float]] = []
    oom: Oom | None = None
    steps: list[tuple[float, float]] = []
    before: Before | None = None
    runs: msgspec.Raw = _NOTHING
    is_anew: bool = False
    """Whether what the status recommended before stands until this is enough."""


_EMPTY: Final = Annotation()


def to_annotation(history: ContainerHistory, target: str, saved_at: str) -> str:
    """What of a history stands in the annotation."""
    oom, before = history.oom, history.before
    windows = sorted(history.windows, key=lambda one: (-one.ends_at, one.pod_uid))[:_MOST_WINDOWS]
    found = Annotation(
        saved_at=saved_at,
        target=target,
        cpu=_fine(history.cpu),
        memory=_fine(history.memory),
        first_sample_at=history.first_sample_at,
        last_sample_at=history.last_sample_at,
        windows=[(one.pod_uid, one.ends_at, one.peak_bytes) for one in windows],
        oom=None
        if not oom.kill_ids and not oom.floor_bytes
        else Oom(oom.floor_bytes, oom.proven_bytes, oom.at, oom.kills, oom.repeats, list(oom.kill_ids)),
        steps=list(history.steps),
        before=None if before is None else Before(before.cpu_millicores, before.memory_bytes),
        runs=_NOTHING if history.runs is None else msgspec.Raw(msgspec.json.encode(history.runs)),
        is_anew=history.is_anew,
    )
    return msgspec.json.encode(found).decode()


def read_annotation(text: str | None, latest: float, latest_window: float) -> tuple[Annotation, list[str]]:
    """What can be used of an annotation, and by name what can not. No time of a sample may be after `latest`, none of
    a memory window after `latest_window`.
    """
    if text is None:
        return Annotation(), []
    if len(text) > _MOST_LENGTH:
        return Annotation(), [f"{WHERE}: is longer than {_MOST_LENGTH} characters"]
    own, problems = read_leniently(text, Annotation, WHERE)
    if own is None:
        return Annotation(), problems
    if own.version != _VERSION:
        return Annotation(), [f"{WHERE}.version: {own.version} is not {_VERSION}"]
    wrong = _wrong(own, latest, latest_window)
    # A half of one says something else than the whole.
    halves = [name for name in _WHOLES if any(problem.startswith(f"{WHERE}.{name}.") for problem in problems)]
    unset = {name: getattr(_EMPTY, name) for name in (*wrong, *halves)}
    return structs.replace(own, **unset), [*problems, *(f"{WHERE}.{name}: {why}" for name, why in wrong.items())]


def runs_of(own: Annotation, latest: float) -> tuple[JobRecord | None, list[str]]:
    """The runs, or why they are of no use: then they are learned anew."""
    if own.runs == _NOTHING:
        return None, []
    try:
        return read_record(own.runs, latest), []
    except UnusableRuns as error:
        return None, [f"{WHERE}.runs{error}"]


def evidence_of(own: Annotation) -> OomEvidence:
    """What kills proved."""
    oom = own.oom
    if oom is None:
        return OomEvidence()
    return OomEvidence(oom.floor_bytes, oom.proven_bytes, oom.at, oom.kills, oom.repeats, tuple(oom.kill_ids))


def _wrong(own: Annotation, latest: float, latest_window: float) -> dict[str, str]:
    """Why fields are of no use, by name."""
    wrong: dict[str, str] = {}
    for name, at in (("first_sample_at", own.first_sample_at), ("last_sample_at", own.last_sample_at)):
        if at is not None and not 0 <= at <= latest:
            wrong[name] = "is out of range"
    for name, fine, until in (("cpu", own.cpu, latest), ("memory", own.memory, latest_window)):
        if fine is not None and not _is_histogram(fine, _BUCKETS[name], until):
            wrong[name] = "reference_at, a bucket or a weight is out of range"
    if not all(0 <= ends_at <= latest_window and 0 <= peak <= _MOST_BYTES for _, ends_at, peak in own.windows):
        wrong["windows"] = "a time or an amount is out of range"
    if len(own.steps) > STEPS or not all(0 <= amount <= _MOST_BYTES for step in own.steps for amount in step):
        wrong["steps"] = f"are more than {STEPS}, or an amount is out of range"
    if own.oom is not None and not _is_sane(own.oom, latest):
        wrong["oom"] = "a time, an amount or a count is out of range"
    if own.before is not None and not (
        0 <= (own.before.cpu_millicores or 0) <= _MOST_MILLICORES and 0 <= (own.before.memory_bytes or 0) <= _MOST_BYTES
    ):
        wrong["before"] = "an amount is out of range"
    return wrong


def _is_histogram(fine: Fine, buckets: int, until: float) -> bool:
    return 0 <= fine.reference_at <= until and all(
        0 <= bucket < buckets and 0 <= weight <= MOST_FINE_WEIGHT for bucket, weight in fine.weights.items()
    )


def _is_sane(oom: Oom, latest: float) -> bool:
    return (
        0 <= oom.at <= latest
        and all(0 <= amount <= _MOST_BYTES for amount in (oom.floor_bytes, oom.proven_bytes))
        and oom.kills >= 0
        and 0 <= oom.repeats <= _MOST_REPEATS
        and len(oom.kill_ids) <= MOST_KILL_IDS
    )


def _fine(state: HistogramState | None) -> Fine | None:
    if state is None:
        return None
    scale = MOST_FINE_WEIGHT / max(weight for _, weight in state.weights)
    weights = {bucket: round(weight * scale) for bucket, weight in state.weights}
    return Fine(state.reference_at, {bucket: weight for bucket, weight in weights.items() if weight})
