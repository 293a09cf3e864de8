"""What a person is told of a workload's recommendation.

Owns the form: from samples and evidence through the estimate and every cap to the number. Facts only, in JSON's types.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from elastipod.clock import to_rfc3339
from elastipod.pods import Workload
from elastipod.reasons import Reason
from recommender.banks import Speaker
from recommender.estimating import Estimating
from recommender.estimators.candidates import Estimator
from recommender.estimators.histogram import Estimates
from recommender.histogram import HistogramBank
from recommender.history import History
from recommender.ranges import Capped, Resource
from recommender.stated import Stated


def explain_container(
    name: str, row: int, history: History, estimates: Estimates, recommended: Sequence[Capped], now: float
) -> dict[str, Any]:
    """One container: `recommended` is what each VerticalPodAutoscaler on its workload made of the estimate."""
    evidence = history.oom(row)
    last = float(history.last_sample_at[row])
    return {
        "container": name,
        "cpu_samples": int(history.samples[row]),
        "confidence": round(float(estimates.confidence[row]), 4),
        "last_sample": None if math.isnan(last) else to_rfc3339(last),
        "last_sample_age_seconds": None if math.isnan(last) else round(now - last, 1),
        "highest": {
            "cpu_millicores": _highest(history.cpu, row, now, 1000.0),
            "memory_bytes": _highest(history.memory, row, now, 1.0),
        },
        "cpu_millicores": _span(estimates.cpu.values[row].tolist(), 1000.0),
        "memory_bytes": _span(estimates.memory.values[row].tolist(), 1.0),
        "oom_kills": evidence.kills,
        "oom_proven_bytes": math.ceil(evidence.proven_bytes),
        "last_oom_kill": to_rfc3339(evidence.at) if evidence.at else None,
        "oom_floor_bytes": math.ceil(evidence.floor_bytes),
        "recommended": [
            {"cpu_millicores": one.cpu and one.cpu.target, "memory_bytes": one.memory and one.memory.target}
            for one in recommended
        ],
        "caps": [
            {
                "resource": str(why.resource),
                "reason": str(why.reason),
                "why": why.reason.explanation,
                "amount": why.amount,
                "by": why.by,
            }
            for one in recommended
            for why in one.caps
        ],
    }


def explain_answers(estimating: Estimating, workload: Workload, row: int) -> dict[str, Any]:
    """Which estimator speaks for a container's resources and why, and how its limits are found."""
    stated = estimating.stated(workload)
    return {
        "estimators": {
            str(resource): _explain_speaker(stated, estimating.speaker(row, resource), resource)
            for resource in Resource
        },
        "limit_modes": {"cpu": str(stated.limits.cpu), "memory": str(stated.limits.memory)},
    }


def _explain_speaker(stated: Stated, speaker: Speaker | None, resource: Resource) -> dict[str, Any]:
    reason = stated.only_histogram or (Reason.TOO_LITTLE_RECORD if speaker is None else speaker.reason)
    candidate = None if speaker is None else speaker.candidate
    speaks = Estimator.HISTOGRAM if candidate is None else candidate.estimator
    found = {
        "speaks": str(speaks),
        "reason": str(reason),
        "why": reason.explanation,
        "changes_with": _CHANGES[reason],
        "moves_with": _MOVES[speaks] + ("; an OOM kill" if resource is Resource.MEMORY else ""),
    }
    if candidate is not None:
        found["how"] = candidate.how
    if speaker is None:
        return found
    unit = 1000.0 if resource is Resource.CPU else 1.0
    histogram = math.ceil(speaker.histogram * unit) if math.isfinite(speaker.histogram) else None
    return {**found, "histogram_says": histogram, "record_days": round(speaker.record_days, 2)}


def _highest(bank: HistogramBank, row: int, now: float, unit: float) -> int | None:
    """The most that was used, as far back as it counts; the end of its bucket."""
    [most] = bank.highest(np.array([row]), now, _LEAST_WEIGHT)
    return math.ceil(most * unit) if math.isfinite(most) else None


_LEAST_WEIGHT: Final = 1e-4
"""A sample of eight days ago weighs more than this, by upstream's half-life of a day."""
_CHANGES: Final = {
    Reason.ADMITTED: "more harm than the histogram does: then that speaks again",
    Reason.NO_BETTER_ESTIMATOR: "usage under which another reserves less and does no more harm",
    Reason.TOO_LITTLE_RECORD: "a day of usage",
    Reason.NO_ELASTIC_POLICY: "an ElasticPolicy that selects the workload",
    Reason.HISTOGRAM_STATED: "spec.estimator: Auto in the ElasticPolicy, or the recommender's setting estimator",
    Reason.SIZED_FOR_LONG: "updateMode InPlace or InPlaceOrRecreate",
}
"""What would change who speaks."""
_MOVES: Final = {
    Estimator.HISTOGRAM: "usage that moves its percentile; what is new counts most, half as much after a half-life",
    Estimator.PEAKS: "a higher peak at once, a lower one when the window is over",
    Estimator.QUANTILE: "what models foresee of the next five minutes",
    Estimator.RUNS: "each sample of a run, and each run that ends",
}
"""What would change what is said."""


def _span(values: list[float], unit: float) -> dict[str, int | None]:
    return {
        name: math.ceil(value * unit) if math.isfinite(value) else None
        for name, value in zip(("lower", "target", "upper"), values, strict=True)
    }
