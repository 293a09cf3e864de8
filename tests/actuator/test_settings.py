from typing import Any, cast

import pytest

from actuator.settings import ActuatorSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory_spike", "Maybe"), ("hold_seconds", 0.0), ("hold_seconds", float("nan")), ("hold_seconds", 1e9),
     ("step_least", "many"), ("step_least", "16m"), ("node_reserve", "-1"), ("memory_spike_max", "1e"),
     ("gap_fraction", 2.0), ("rescues", 0)],
)  # fmt: skip
def test_a_bad_setting_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        ActuatorSettings(**cast("Any", {name: value}))
