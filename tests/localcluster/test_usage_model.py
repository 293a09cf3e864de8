"""Simulated containers: what their annotation may say, and what becomes of them."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.clock import ManualClock
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.runtime import ContainerSpec, Run, RunState, Sandbox
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.node.usagemodel import DEFAULT_MODEL, UsageStep, parse_usage_model
from elastipod.pods import QosClass

MIB = 1024 * 1024
SANDBOX = Sandbox("uid", "default", "web", QosClass.BURSTABLE)


async def started(clock: ManualClock, usage: object, memory: int | None = None) -> tuple[SimulatedRuntime, Run]:
    runtime = SimulatedRuntime(clock)
    spec = ContainerSpec(SANDBOX, "app", "ab" * 32, 0, (), usage_model=json.dumps(usage))
    run = await runtime.start(spec, GroupLimits(), GroupLimits(memory_limit_bytes=memory))
    return runtime, run


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "3", '"x"', '[[0, 1]]', '[[0, -1, 1]]', '[[5, 1, 1], [5, 1, 1]]', '{"cpu": "lots"}', '{"seconds": "3"}',
     '{"cpu": 1, "colour": 2}', '{"exitCode": 256}', '{"exitCode": true, "cpu": 1.5}', '[[NaN, 1, 1]]'],
)  # fmt: skip
def test_a_model_that_makes_no_sense_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="simulated-usage"):
        parse_usage_model(text, "app")


def test_models_may_be_given_per_container_and_in_quantities() -> None:
    text = '{"app": {"cpu": "250m", "memory": "64Mi", "seconds": 5}, "other": [[0, 1, 2]]}'
    assert parse_usage_model(text, "app").steps == (UsageStep(0.0, 250, 64 * MIB),)
    assert parse_usage_model(text, "other").steps == (UsageStep(0.0, 1, 2),)
    assert parse_usage_model(text, "third") is DEFAULT_MODEL


@given(
    st.text(max_size=50) | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps)
)
def test_no_text_crashes_the_reading(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_usage_model(text, "app")


async def test_a_container_ends_when_its_model_says() -> None:
    clock = ManualClock(100.0)
    runtime, _ = await started(clock, {"seconds": 30, "exitCode": 2})
    assert runtime.next_change_at() == 130.0
    clock.advance(29.9)
    assert runtime.ended() == []
    clock.advance(60.0)
    ended = runtime.ended()
    assert [(one.state, one.exit_code, one.finished_at) for one in ended] == [(RunState.EXITED, 2, 130.0)]


async def test_a_container_is_killed_at_its_limit_at_the_second_it_passes_it() -> None:
    clock = ManualClock(0.0)
    runtime, _ = await started(clock, [[0, 10, 50 * MIB], [7, 10, 150 * MIB]], 100 * MIB)
    clock.advance(100.0)
    ended = runtime.ended()[0]
    assert (ended.oom_killed, ended.signal, ended.finished_at) == (True, 9, 7.0)


async def test_a_container_that_is_held_stands_still_and_goes_on_when_it_gets_more() -> None:
    clock = ManualClock(0.0)
    runtime, run = await started(clock, {"steps": [[0, 10, 50 * MIB], [5, 10, 150 * MIB]], "seconds": 10}, 100 * MIB)
    identity = run.spec.container_id
    held: list[str] = []
    runtime.on_high = held.append
    runtime.set_high(identity, 90 * MIB)
    clock.advance(8.0)
    usage = runtime.usage(identity)
    assert usage is not None
    assert usage.memory_bytes == 90 * MIB
    assert held == [identity]
    assert runtime.next_change_at() is None
    runtime.set_limits(identity, GroupLimits(memory_limit_bytes=200 * MIB))
    runtime.set_high(identity, 190 * MIB)
    assert runtime.held_seconds(identity) == 3.0
    clock.advance(5.0)
    assert [(one.exit_code, one.oom_killed, one.finished_at) for one in runtime.ended()] == [(0, False, 13.0)]


async def test_a_container_that_is_let_go_without_more_is_killed() -> None:
    clock = ManualClock(0.0)
    runtime, run = await started(clock, [[0, 10, 50 * MIB], [5, 10, 150 * MIB]], 100 * MIB)
    runtime.set_high(run.spec.container_id, 90 * MIB)
    clock.advance(8.0)
    runtime.set_high(run.spec.container_id, None)
    assert [one.oom_killed for one in runtime.ended()] == [True]


async def test_time_that_was_held_counts_in_full_and_as_no_time_lived() -> None:
    clock = ManualClock(0.0)
    runtime, run = await started(clock, {"steps": [[0, 10, 50 * MIB], [5, 10, 150 * MIB]], "seconds": 10})
    runtime.set_high(run.spec.container_id, 90 * MIB)
    clock.advance(8.0)
    runtime.set_high(run.spec.container_id, None)
    clock.advance(1.0)
    assert runtime.held_seconds(run.spec.container_id) == 3.0
    assert runtime.next_change_at() == 13.0
    usage = runtime.usage(run.spec.container_id)
    assert usage is not None
    assert usage.cpu_seconds == pytest.approx(0.06)


async def test_cpu_is_capped_at_the_limit() -> None:
    clock = ManualClock(0.0)
    runtime, run = await started(clock, {"cpu": 1000, "memory": MIB})
    runtime.set_limits(run.spec.container_id, GroupLimits(cpu_limit_millicores=250))
    clock.advance(100.0)
    usage = runtime.usage(run.spec.container_id)
    assert usage is not None
    assert usage.cpu_seconds == pytest.approx(25.0)
