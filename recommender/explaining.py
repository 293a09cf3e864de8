"""What a person is told of a workload's recommendation.

Owns the form: from samples and evidence through the estimate and every cap to the number. Facts only, in JSON's types.
"""

import math
from collections.abc import Sequence
from typing import Any

from elastipod.clock import to_rfc3339
from recommender.estimators.histogram import Estimates
from recommender.history import History
from recommender.ranges import Capped


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
        "cpu_millicores": _span(estimates.cpu.values[row].tolist(), 1000.0),
        "memory_bytes": _span(estimates.memory.values[row].tolist(), 1.0),
        "oom_kills": evidence.kills,
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


def _span(values: list[float], unit: float) -> dict[str, int | None]:
    return {
        name: math.ceil(value * unit) if math.isfinite(value) else None
        for name, value in zip(("lower", "target", "upper"), values, strict=True)
    }
