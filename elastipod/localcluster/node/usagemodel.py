"""What a simulated container does with its life.

Owns the annotation `elastipod.io/simulated-usage`, JSON: one model for all containers of the pod, or an object of
models by container name. A model is a list of steps `[second, millicores, bytes]`, or
`{"cpu": 250, "memory": 67108864, "seconds": 60, "exitCode": 0}`, with `steps` in place of cpu and memory where they
change. Amounts may be quantities ("250m", "64Mi").
"""

import bisect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from elastipod.quantities import QuantityError, parse_cpu, parse_memory

_MOST_STEPS: Final = 100_000


@dataclass(frozen=True, slots=True)
class UsageStep:
    """From this second of a container's life on it uses so much."""

    second: float
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class UsageModel:
    """What a container does."""

    steps: tuple[UsageStep, ...] = (UsageStep(0.0, 10, 16 * 1024 * 1024),)
    seconds: float | None = None
    """When it ends by itself; None for never."""
    exit_code: int = 0

    def at(self, second: float) -> UsageStep:
        return self.steps[max(bisect.bisect_right(self.steps, second, key=lambda one: one.second) - 1, 0)]

    def after(self, second: float) -> UsageStep | None:
        """The step that comes next."""
        index = bisect.bisect_right(self.steps, second, key=lambda one: one.second)
        return self.steps[index] if index < len(self.steps) else None


DEFAULT_MODEL: Final = UsageModel()


def parse_usage_model(text: str, container: str) -> UsageModel:
    """The model of one container of a pod. Raises ValueError that says what is wrong."""
    if not text:
        return DEFAULT_MODEL
    try:
        json = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"elastipod.io/simulated-usage is not JSON: {error}") from None
    if isinstance(json, dict) and json and not set(json) & {"cpu", "memory", "seconds", "exitCode", "steps"}:
        json = json.get(container)
        if json is None:
            return DEFAULT_MODEL
    try:
        return _model(json)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"elastipod.io/simulated-usage: {error}") from None


def _model(json: Any) -> UsageModel:
    if isinstance(json, list):
        return UsageModel(_steps(json))
    if not isinstance(json, dict):
        raise ValueError("a list of steps or an object is wanted")
    unknown = set(json) - {"cpu", "memory", "seconds", "exitCode", "steps"}
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
    first = DEFAULT_MODEL.steps[0]
    steps = (
        _steps(json["steps"])
        if "steps" in json
        else (
            UsageStep(
                0.0,
                _cpu(json.get("cpu", first.cpu_millicores)),
                _memory(json.get("memory", first.memory_bytes)),
            ),
        )
    )
    seconds = json.get("seconds")
    exit_code = json.get("exitCode", 0)
    if not isinstance(exit_code, int) or not 0 <= exit_code <= 255:
        raise ValueError("exitCode is a number from 0 to 255")
    return UsageModel(steps, None if seconds is None else _second(seconds), exit_code)


def _steps(json: list[Any]) -> tuple[UsageStep, ...]:
    if not json or len(json) > _MOST_STEPS:
        raise ValueError(f"from 1 to {_MOST_STEPS} steps are wanted")
    steps = tuple(UsageStep(_second(second), _cpu(cpu), _memory(memory)) for second, cpu, memory in json)
    if any(one.second >= other.second for one, other in itertools.pairwise(steps)):
        raise ValueError("steps are ordered by their second")
    return steps


def _second(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError(f"{value!r} is no number of seconds")
    return float(value)


def _cpu(value: Any) -> int:
    return _amount(value, parse_cpu)


def _memory(value: Any) -> int:
    return _amount(value, parse_memory)


def _amount(value: Any, parse: Callable[[str], int]) -> int:
    if isinstance(value, str):
        try:
            value = parse(value)
        except QuantityError as error:
            raise ValueError(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no amount")
    return value
