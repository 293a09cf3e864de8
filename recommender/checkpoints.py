"""A container's history as a VerticalPodAutoscalerCheckpoint, and back.

Owns upstream's form, v3 (pkg/recommender/checkpoint, model/histogram), which upstream reads, and how it goes together
with our annotation (annotation.py). What does not make sense in v3 is refused as a whole and named, what does not in
the annotation by itself; nothing is guessed.
"""

import hashlib
import math
from typing import Final

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
from recommender.annotation import HISTORY_ANNOTATION, Fine, evidence_of, read_annotation, runs_of, to_annotation
from recommender.histogram import (
    CPU_FIRST_BUCKET,
    MEMORY_FIRST_BUCKET,
    UPSTREAM_BUCKETS,
    Buckets,
    HistogramState,
    buckets_from,
)
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings
from recommender.windows import MemoryWindow

_MOST_WEIGHT: Final = 10_000
_MOST_NAME: Final = 253
_MOST_TOTAL: Final = 1e9
_MOST_WORDS: Final = 1000
_LEEWAY_SECONDS: Final = 2 * 86_400.0
_LONG_INTERVAL_SECONDS: Final = 31 * 86_400.0


class UnusableHistory(ValueError):
    """A checkpoint that can not be used; the message names the field."""


class OtherWorkload(UnusableHistory):
    """A checkpoint of what the autoscaler was for before."""


class LiesAhead(UnusableHistory):
    """A checkpoint of a time that is still to come, by our clock."""


def checkpoint_name(autoscaler: str, container: str) -> str:
    """As upstream names it; a name that would be too long ends in a hash."""
    name = f"{autoscaler}-{container}"
    return name if len(name) <= _MOST_NAME else _hashed(name, name)


def second_name(autoscaler: str, container: str) -> str:
    """The name where another's history has upstream's: `web` with `api-cache`, and `web-api` with `cache`."""
    return _hashed(f"{autoscaler}-{container}", f"{autoscaler}/{container}")


def is_named_for(name: str, spec: CheckpointSpec) -> bool:
    """Whether a checkpoint has a name of what its spec says."""
    names = (checkpoint_name, second_name)
    return any(name == named(spec.vpa_object_name, spec.container_name) for named in names)


def _hashed(name: str, whose: str) -> str:
    digest = hashlib.sha256(whose.encode()).hexdigest()[:16]
    return f"{name[: _MOST_NAME - 17]}-{digest}"


def to_checkpoint(
    namespace: str, autoscaler: str, key: ContainerKey, history: ContainerHistory, now: float
) -> Checkpoint:
    """A history as it is saved for an autoscaler."""
    container = key.container
    saved_at = to_rfc3339(now)
    return Checkpoint(
        metadata=ObjectMeta(
            name=checkpoint_name(autoscaler, container),
            namespace=namespace,
            annotations={HISTORY_ANNOTATION: to_annotation(history, str(key.workload), saved_at)},
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
    saved: Checkpoint,
    settings: RecommenderSettings,
    now: float,
    target: Workload | None = None,
    memory_interval_seconds: float | None = None,
) -> ContainerHistory:
    """The history in a checkpoint, ours or upstream's. Raises UnusableHistory.

    `target` is the workload it shall be used for; upstream's do not say whose they are. The interval is the one that
    the autoscaler's policy states for the container.
    """
    if not is_named_for(saved.metadata.name, saved.spec):
        raise UnusableHistory("spec: vpaObjectName and containerName do not belong to metadata.name")
    status = saved.status
    if status is None:
        raise UnusableHistory("status: is missing")
    if status.version != CHECKPOINT_VERSION:
        raise UnusableHistory(f"status.version: {status.version[:20]!r} is not {CHECKPOINT_VERSION}")
    half_life = settings.half_life_seconds
    latest = now + _LEEWAY_SECONDS
    # Windows go on as they were opened, also where the policy states a shorter interval since.
    interval = max(memory_interval_seconds or 0.0, settings.memory_interval_seconds, _LONG_INTERVAL_SECONDS)
    latest_window = latest + interval
    first = _time("status.firstSampleStart", status.first_sample_start, latest)
    last = _time("status.lastSampleStart", status.last_sample_start, latest)
    if not 0 <= status.total_samples_count < 2**53:
        raise UnusableHistory("status.totalSamplesCount: is out of range")
    text = (saved.metadata.annotations or {}).get(HISTORY_ANNOTATION)
    own, set_aside = read_annotation(text, latest, latest_window)
    if own.target and target is not None and own.target != str(target):
        raise OtherWorkload(f"it is of {own.target[:200]}")
    is_current = own.saved_at != "" and own.saved_at == status.last_update_time
    if is_current:
        first = first if own.first_sample_at is None else own.first_sample_at
        last = last if own.last_sample_at is None else own.last_sample_at
    if first is not None and last is not None and first > last:
        raise UnusableHistory("status.firstSampleStart: is after lastSampleStart")
    at = now if last is None else last
    # Upstream rounds its references to the next half-life.
    cpu = _histogram(
        "status.cpuHistogram",
        status.cpu_histogram,
        own.cpu if is_current else None,
        buckets_from(CPU_FIRST_BUCKET),
        latest + half_life,
    )
    memory = _histogram(
        "status.memoryHistogram",
        status.memory_histogram,
        own.memory if is_current else None,
        buckets_from(MEMORY_FIRST_BUCKET),
        latest_window + half_life,
    )
    cpu = _settled("status.cpuHistogram", cpu, at, half_life)
    memory = _settled("status.memoryHistogram", memory, at, half_life)
    heaviest = 1.1 * max(settings.cpu_sample_weight, 0.1) * status.total_samples_count + 1e-3
    if cpu is not None and _weight_at(cpu, at, half_life) > heaviest:
        raise UnusableHistory("status.cpuHistogram.totalWeight: is more than totalSamplesCount samples can weigh")
    runs, unusable_runs = runs_of(own, latest)
    return ContainerHistory(
        cpu=cpu,
        memory=memory,
        first_sample_at=first,
        last_sample_at=last,
        samples=status.total_samples_count,
        windows=tuple(MemoryWindow(*window) for window in own.windows),
        oom=evidence_of(own),
        steps=tuple(own.steps),
        before=None if own.before is None else Resources(own.before.cpu_millicores, own.before.memory_bytes),
        runs=runs,
        is_anew=own.is_anew,
        set_aside="; ".join([*set_aside, *unusable_runs])[:_MOST_WORDS],
    )


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


def _histogram(
    where: str, saved: HistogramCheckpoint | None, fine: Fine | None, buckets: Buckets, latest: float
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


def _agree(fine: Fine, weights: dict[str, int], buckets: Buckets) -> bool:
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
    if at > latest:
        raise LiesAhead(f"{where}: {text[:40]} lies in the future")
    if at < 0:
        # Upstream writes year 1 where there has been no sample.
        if text.startswith("0001-01-01"):
            return None
        raise UnusableHistory(f"{where}: {text[:40]} lies too far back")
    return at
