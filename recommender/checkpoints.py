"""A container's history as a VerticalPodAutoscalerCheckpoint, and back.

Owns both forms: upstream's v3 (pkg/recommender/checkpoint, model/histogram), which upstream reads, and our annotation
beside it with what v3 has no place for: finer buckets, running memory windows, OOM evidence, the first requests, runs
of jobs. What does not make sense is refused as a whole and named, runs by themselves; nothing is guessed.
"""

import hashlib
import math
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import (
    CHECKPOINT_VERSION,
    Checkpoint,
    CheckpointSpec,
    CheckpointStatus,
    HistogramCheckpoint,
    ObjectMeta,
)
from elastipod.clock import from_rfc3339, to_rfc3339
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from recommender.following import STEPS
from recommender.histogram import (
    CPU_FIRST_BUCKET,
    MEMORY_FIRST_BUCKET,
    UPSTREAM_BUCKETS,
    Buckets,
    HistogramState,
    buckets_from,
)
from recommender.history import ContainerHistory
from recommender.jobrecords import JobRecord, UnusableRuns, read_record
from recommender.oom import MOST_KILL_IDS, OomEvidence
from recommender.settings import RecommenderSettings
from recommender.windows import MemoryWindow

HISTORY_ANNOTATION: Final = "elastipod.io/history"

_MOST_WEIGHT: Final = 10_000
_MOST_FINE_WEIGHT: Final = 1_000_000
_MOST_WINDOWS: Final = 500
_MOST_ANNOTATION: Final = 200_000
_MOST_NAME: Final = 253
_MOST_BYTES: Final = 1e14
_MOST_MILLICORES: Final = 10**8
_MOST_TOTAL: Final = 1e9
_LEEWAY_SECONDS: Final = 2 * 86_400.0
_NOTHING: Final = msgspec.Raw(b"null")


class UnusableHistory(ValueError):
    """A checkpoint that can not be used; the message names the field."""


class OtherWorkload(UnusableHistory):
    """A checkpoint of what the autoscaler was for before."""


class _Fine(Struct, forbid_unknown_fields=True):
    reference_at: float
    weights: dict[int, int]


class _Oom(Struct, forbid_unknown_fields=True):
    floor_bytes: float
    proven_bytes: float
    at: float
    kills: int
    repeats: int
    kill_ids: list[str]


class _Before(Struct, forbid_unknown_fields=True):
    cpu_millicores: int | None = None
    memory_bytes: int | None = None


class _Annotation(Struct, forbid_unknown_fields=True):
    saved_at: str
    """The checkpoint's lastUpdateTime: histograms here hold only as long as nobody else has written since."""
    version: int = 1
    target: str = ""
    """The workload whose history it is; an autoscaler may be turned to another."""
    cpu: _Fine | None = None
    memory: _Fine | None = None
    first_sample_at: float | None = None
    last_sample_at: float | None = None
    windows: list[tuple[str, float, float]] = []
    oom: _Oom | None = None
    steps: list[tuple[float, float]] = []
    before: _Before | None = None
    runs: msgspec.Raw = _NOTHING


_annotations: Final = msgspec.json.Decoder(_Annotation)


def checkpoint_name(autoscaler: str, container: str) -> str:
    """As upstream names it; a name that would be too long ends in a hash."""
    name = f"{autoscaler}-{container}"
    if len(name) <= _MOST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MOST_NAME - 17]}-{digest}"


def to_checkpoint(
    namespace: str, autoscaler: str, key: ContainerKey, history: ContainerHistory, now: float
) -> Checkpoint:
    """A history as it is saved for an autoscaler."""
    container = key.container
    saved_at = to_rfc3339(now)
    annotation = _Annotation(
        saved_at=saved_at,
        target=str(key.workload),
        cpu=_fine(history.cpu),
        memory=_fine(history.memory),
        first_sample_at=history.first_sample_at,
        last_sample_at=history.last_sample_at,
        windows=[
            (one.pod_uid, one.ends_at, one.peak_bytes)
            for one in sorted(history.windows, key=lambda one: (-one.ends_at, one.pod_uid))[:_MOST_WINDOWS]
        ],
        oom=_saved_oom(history.oom),
        steps=list(history.steps),
        before=None if history.before is None else _Before(history.before.cpu_millicores, history.before.memory_bytes),
        runs=_NOTHING if history.runs is None else msgspec.Raw(msgspec.json.encode(history.runs)),
    )
    return Checkpoint(
        metadata=ObjectMeta(
            name=checkpoint_name(autoscaler, container),
            namespace=namespace,
            annotations={HISTORY_ANNOTATION: msgspec.json.encode(annotation).decode()},
        ),
        spec=CheckpointSpec(vpa_object_name=autoscaler, container_name=container),
        status=CheckpointStatus(
            last_update_time=saved_at,
            version=CHECKPOINT_VERSION,
            cpu_histogram=_upstream(history.cpu, buckets_from(CPU_FIRST_BUCKET)),
            memory_histogram=_upstream(history.memory, buckets_from(MEMORY_FIRST_BUCKET)),
            first_sample_start=None if history.first_sample_at is None else to_rfc3339(history.first_sample_at),
            last_sample_start=None if history.last_sample_at is None else to_rfc3339(history.last_sample_at),
            total_samples_count=history.samples,
        ),
    )


def from_checkpoint(
    saved: Checkpoint, settings: RecommenderSettings, now: float, target: Workload | None = None
) -> ContainerHistory:
    """The history in a checkpoint, ours or upstream's. Raises UnusableHistory.

    `target` is the workload it shall be used for; upstream's do not say whose they are.
    """
    if saved.metadata.name != checkpoint_name(saved.spec.vpa_object_name, saved.spec.container_name):
        raise UnusableHistory("spec: vpaObjectName and containerName do not belong to metadata.name")
    status = saved.status
    if status is None:
        raise UnusableHistory("status: is missing")
    if status.version != CHECKPOINT_VERSION:
        raise UnusableHistory(f"status.version: {status.version[:20]!r} is not {CHECKPOINT_VERSION}")
    latest = now + _LEEWAY_SECONDS + settings.memory_interval_seconds
    first = _time("status.firstSampleStart", status.first_sample_start, latest)
    last = _time("status.lastSampleStart", status.last_sample_start, latest)
    if not 0 <= status.total_samples_count < 2**53:
        raise UnusableHistory("status.totalSamplesCount: is out of range")
    own = _own(saved, latest)
    if own is not None and own.target and target is not None and own.target != str(target):
        raise OtherWorkload(f"it is of {own.target[:200]}")
    is_current = own is not None and own.saved_at == status.last_update_time
    if own is not None and is_current:
        first, last = own.first_sample_at, own.last_sample_at
    if first is not None and last is not None and first > last:
        raise UnusableHistory("status.firstSampleStart: is after lastSampleStart")
    at = now if last is None else last
    cpu = _histogram(
        "status.cpuHistogram",
        status.cpu_histogram,
        own.cpu if own and is_current else None,
        buckets_from(CPU_FIRST_BUCKET),
        latest,
    )
    memory = _histogram(
        "status.memoryHistogram",
        status.memory_histogram,
        own.memory if own and is_current else None,
        buckets_from(MEMORY_FIRST_BUCKET),
        latest,
    )
    cpu = _settled("status.cpuHistogram", cpu, at, settings.half_life_seconds)
    memory = _settled("status.memoryHistogram", memory, at, settings.half_life_seconds)
    heaviest = 1.1 * max(settings.cpu_sample_weight, 0.1) * status.total_samples_count + 1e-3
    if cpu is not None and _weight_at(cpu, at, settings.half_life_seconds) > heaviest:
        raise UnusableHistory("status.cpuHistogram.totalWeight: is more than totalSamplesCount samples can weigh")
    runs, set_aside = _runs(own, latest)
    return ContainerHistory(
        cpu=cpu,
        memory=memory,
        first_sample_at=first,
        last_sample_at=last,
        samples=status.total_samples_count,
        windows=() if own is None else tuple(MemoryWindow(*window) for window in own.windows),
        oom=OomEvidence() if own is None or own.oom is None else _evidence(own.oom),
        steps=() if own is None else tuple(own.steps),
        before=None
        if own is None or own.before is None
        else Resources(own.before.cpu_millicores, own.before.memory_bytes),
        runs=runs,
        set_aside=set_aside,
    )


def _fine(state: HistogramState | None) -> _Fine | None:
    if state is None:
        return None
    scale = _MOST_FINE_WEIGHT / max(weight for _, weight in state.weights)
    weights = {bucket: round(weight * scale) for bucket, weight in state.weights}
    return _Fine(state.reference_at, {bucket: weight for bucket, weight in weights.items() if weight})


def _upstream(state: HistogramState | None, buckets: Buckets) -> HistogramCheckpoint | None:
    if state is None:
        return None
    sums: dict[int, float] = {}
    for bucket, weight in state.weights:
        number = int(buckets.upstream[bucket])
        sums[number] = sums.get(number, 0.0) + weight
    scale = _MOST_WEIGHT / max(sums.values())
    weights = {str(number): round(weight * scale) for number, weight in sums.items()}
    return HistogramCheckpoint(
        reference_timestamp=to_rfc3339(state.reference_at),
        bucket_weights={number: weight for number, weight in weights.items() if weight},
        total_weight=state.total,
    )


def _saved_oom(evidence: OomEvidence) -> _Oom | None:
    if not evidence.kill_ids and not evidence.floor_bytes:
        return None
    return _Oom(
        evidence.floor_bytes,
        evidence.proven_bytes,
        evidence.at,
        evidence.kills,
        evidence.repeats,
        list(evidence.kill_ids),
    )


def _own(saved: Checkpoint, latest: float) -> _Annotation | None:
    """Our annotation, checked."""
    where = f"metadata.annotations[{HISTORY_ANNOTATION}]"
    text = (saved.metadata.annotations or {}).get(HISTORY_ANNOTATION)
    if text is None:
        return None
    if len(text) > _MOST_ANNOTATION:
        raise UnusableHistory(f"{where}: is longer than {_MOST_ANNOTATION} characters")
    try:
        own = _annotations.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnusableHistory(f"{where}: {str(error)[:200]}") from None
    if own.version != 1:
        raise UnusableHistory(f"{where}.version: {own.version} is not 1")
    times = [own.first_sample_at, own.last_sample_at, *(ends_at for _, ends_at, _ in own.windows)]
    times += [fine.reference_at for fine in (own.cpu, own.memory) if fine is not None]
    amounts = [peak for _, _, peak in own.windows]
    amounts += [amount for step in own.steps for amount in step]
    if len(own.steps) > STEPS:
        raise UnusableHistory(f"{where}.steps: are more than {STEPS}")
    if own.oom is not None:
        times.append(own.oom.at)
        amounts += [own.oom.floor_bytes, own.oom.proven_bytes]
        if own.oom.kills < 0 or not 0 <= own.oom.repeats <= 64 or len(own.oom.kill_ids) > MOST_KILL_IDS:
            raise UnusableHistory(f"{where}.oom: kills, repeats or kill_ids are out of range")
    if own.before is not None and not (
        0 <= (own.before.cpu_millicores or 0) <= _MOST_MILLICORES and 0 <= (own.before.memory_bytes or 0) <= _MOST_BYTES
    ):
        raise UnusableHistory(f"{where}.before: an amount is out of range")
    if not all(at is None or 0 <= at <= latest for at in times):
        raise UnusableHistory(f"{where}: a time is out of range")
    if not all(0 <= amount <= _MOST_BYTES for amount in amounts):
        raise UnusableHistory(f"{where}: an amount of memory is out of range")
    return own


def _runs(own: _Annotation | None, latest: float) -> tuple[JobRecord | None, str]:
    """The runs in our annotation, or why they are of no use: then they are learned anew, and all else holds."""
    if own is None or own.runs == _NOTHING:
        return None, ""
    try:
        return read_record(own.runs, latest), ""
    except UnusableRuns as error:
        return None, f"metadata.annotations[{HISTORY_ANNOTATION}].runs{error}"


def _evidence(oom: _Oom) -> OomEvidence:
    return OomEvidence(oom.floor_bytes, oom.proven_bytes, oom.at, oom.kills, oom.repeats, tuple(oom.kill_ids))


def _histogram(
    where: str, saved: HistogramCheckpoint | None, fine: _Fine | None, buckets: Buckets, latest: float
) -> HistogramState | None:
    """A histogram from our finer weights where they are there, else from upstream's: the same ends of buckets."""
    if saved is None or (not saved.bucket_weights and not saved.total_weight):
        return None
    total = saved.total_weight
    if not (math.isfinite(total) and total > 0):
        raise UnusableHistory(f"{where}.totalWeight: must be a number above 0")
    weights: dict[int, int] = {}
    for text, weight in (saved.bucket_weights or {}).items():
        if not text.isascii() or not text.isdigit() or len(text) > 3 or int(text) >= UPSTREAM_BUCKETS:
            raise UnusableHistory(f"{where}.bucketWeights: {text[:20]!r} is no bucket from 0 to {UPSTREAM_BUCKETS - 1}")
        if not 0 <= weight < 2**32:
            raise UnusableHistory(f"{where}.bucketWeights[{text}]: is out of range")
        weights[buckets.topmost(int(text))] = weight
    reference_at = _time(f"{where}.referenceTimestamp", saved.reference_timestamp, latest)
    if fine is not None:
        for bucket, weight in fine.weights.items():
            if not 0 <= bucket < buckets.count or not 0 <= weight <= _MOST_FINE_WEIGHT:
                raise UnusableHistory(f"metadata.annotations[{HISTORY_ANNOTATION}]: bucket {bucket} is out of range")
        if not _agree(fine, saved.bucket_weights or {}, buckets):
            raise UnusableHistory(f"{where}.bucketWeights: do not agree with annotation {HISTORY_ANNOTATION}")
        weights, reference_at = fine.weights, fine.reference_at
    if reference_at is None:
        raise UnusableHistory(f"{where}.referenceTimestamp: is missing")
    whole = sum(weights.values())
    if whole <= 0:
        raise UnusableHistory(f"{where}.bucketWeights: are all 0, though totalWeight is not")
    scale = total / whole
    return HistogramState(
        tuple((bucket, weight * scale) for bucket, weight in sorted(weights.items()) if weight), reference_at
    )


def _agree(fine: _Fine, weights: dict[str, int], buckets: Buckets) -> bool:
    """Whether both forms say the same, but for rounding."""
    sums: dict[int, float] = {}
    for bucket, weight in fine.weights.items():
        number = int(buckets.upstream[bucket])
        sums[number] = sums.get(number, 0.0) + weight
    scale = _MOST_WEIGHT / max(max(sums.values(), default=0.0), 1.0)
    numbers = {*sums, *(int(text) for text in weights)}
    return all(abs(sums.get(number, 0.0) * scale - weights.get(str(number), 0)) <= 2 for number in numbers)


def _settled(where: str, state: HistogramState | None, at: float, half_life_seconds: float) -> HistogramState | None:
    """The same histogram with a reference near its last sample, so that its weights are of a usual size."""
    if state is None:
        return None
    steps = math.floor((at - state.reference_at) / half_life_seconds)
    steps = max(steps, 0)
    scale = 2.0 ** -min(steps, 1000)
    weights = tuple((bucket, weight * scale) for bucket, weight in state.weights)
    settled = HistogramState(weights, state.reference_at + steps * half_life_seconds)
    if not settled.total <= _MOST_TOTAL:
        raise UnusableHistory(f"{where}.totalWeight: is more than any history weighs")
    if not settled.total > 0:
        raise UnusableHistory(f"{where}.totalWeight: has decayed to nothing")
    return settled


def _weight_at(state: HistogramState, at: float, half_life_seconds: float) -> float:
    exponent = (state.reference_at - at) / half_life_seconds
    return state.total * math.exp2(max(min(exponent, 60.0), -60.0))


def _time(where: str, text: str | None, latest: float) -> float | None:
    if text is None:
        return None
    try:
        at = from_rfc3339(text)
    except (ValueError, OverflowError):
        raise UnusableHistory(f"{where}: {text[:40]!r} is no time") from None
    if not 0 <= at <= latest:
        # Upstream writes year 1 where there has been no sample.
        if text.startswith("0001-01-01"):
            return None
        raise UnusableHistory(f"{where}: {text[:40]} lies in the future or too far back")
    return at
