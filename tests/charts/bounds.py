"""What the settings classes refuse, as JSON Schema says it, so that helm refuses it first.

Owns the bounds of each setting by itself. What contradicts another setting is refused by the chart's template
checks-settings.yaml. A test holds both to the classes.
"""

from typing import Any, Final

from recommender.settings import MAY_BE_NOTHING

Json = dict[str, Any]

_PORT: Final = "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
_PLACE: Final = rf"([A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]){_PORT}(/[^?#@ ]*)?"
_AMOUNT: Final = (
    r"0|([1-9][0-9]*(\.[0-9]+)?|0\.[1-9][0-9]*)[MGTPE]i?|([5-9]|[1-9][0-9]+)(Ki|k)|[1-9][0-9]{4,}"
    r"|[1-9](\.[0-9]+)?[eE]\+?([4-9]|1[0-8])"
)
"""An amount of memory of at least a page, or none."""

_ABOVE_0: Final[Json] = {"exclusiveMinimum": 0}
_NOT_BELOW_0: Final[Json] = {"minimum": 0}
_FRACTION: Final[Json] = {"minimum": 0, "maximum": 1}
_PERCENTILE: Final[Json] = {"exclusiveMinimum": 0, "maximum": 1}
_SOURCES: Final = " *(metrics|prometheus|actuators) *"

BOUNDS: Final[dict[str, dict[str, Json]]] = {
    "recommender": {
        "usage_source": {"pattern": f"^{_SOURCES}(,{_SOURCES}){{0,2}}$"},
        "prometheus_url": {"pattern": f"^(https?://{_PLACE})?$"},
        "prometheus_proxy": {"pattern": f"^(https?://([^@/?# ]*@)?{_PLACE})?$"},
        # They go by the environment, where a comma ends one.
        "prometheus_headers": {
            "items": {"type": "string", "pattern": "^[^:,\r\n]*[^:,\\s][^:,\r\n]*:[^,\r\n]*[^,\\s][^,\r\n]*$"}
        },
        "history_resolution_seconds": {"minimum": 60, "maximum": 3600},
        "target_percentile": _PERCENTILE,
        "lower_percentile": _PERCENTILE,
        "upper_percentile": _PERCENTILE,
        "oom_bump_ratio": {"minimum": 1},
    },
    "updater": {
        "interval_seconds": _ABOVE_0,
        "dead_band_fraction": _FRACTION,
        "shrink_fraction": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "step_seconds": _ABOVE_0,
        "restore_fraction": _FRACTION,
        "disruption_fraction": _FRACTION,
        "retry_first_seconds": _ABOVE_0,
        "retry_most_seconds": _ABOVE_0,
        "most_resizes_per_minute": {"minimum": 1},
        "most_requests_at_once": {"minimum": 1},
    },
    "admission": {
        "interval_seconds": _ABOVE_0,
        "request_seconds": _ABOVE_0,
        "canary_seconds": _ABOVE_0,
    },
    "actuator": {
        "memory_spike_max": {"pattern": f"^({_AMOUNT}|)$"},
        "step_least": {"pattern": f"^({_AMOUNT})$"},
        "node_reserve": {"pattern": f"^({_AMOUNT})$"},
        "memory_spike_max_factor": {"minimum": 1, "maximum": 1000},
        "hold_seconds": {"exclusiveMinimum": 0, "maximum": 60},
        "step_fraction": {"exclusiveMinimum": 0, "maximum": 4},
        "gap_fraction": {"minimum": 0, "maximum": 0.5},
        "rescues": {"minimum": 1, "maximum": 1000},
        "sample_seconds": {"anyOf": [{"type": "number", "enum": [0]}, {"type": "number", "minimum": 1, "maximum": 30}]},
        **dict.fromkeys(
            (
                "interval_seconds",
                "answer_seconds",
                "settle_seconds",
                "rescue_window_seconds",
                "retry_first_seconds",
                "retry_most_seconds",
            ),
            _ABOVE_0,
        ),
    },
}


def bounds(component: str, name: str, kind: str) -> Json:
    """What a setting of that JSON type is held to."""
    found = BOUNDS[component].get(name)
    if found is not None or kind not in ("integer", "number"):
        return found or {}
    if component == "recommender" and name not in MAY_BE_NOTHING:
        return _ABOVE_0
    return _NOT_BELOW_0
