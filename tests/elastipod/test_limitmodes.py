"""Which limit mode holds, and the limit that is apart from its request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import ElasticPolicy, ElasticPolicySpec, LimitModesJson, ObjectMeta, WorkloadSelector
from elastipod.limitmodes import LimitMode, LimitModes, independent_limit, limit_modes
from elastipod.pods import Workload

WEB = Workload("a", "Deployment", "web")


def policy(name: str | None = None, *, cpu: str | None = None, memory: str | None = None) -> ElasticPolicy:
    spec = ElasticPolicySpec(
        selector=None if name is None else WorkloadSelector(name=name),
        limit_modes=LimitModesJson(cpu=cpu, memory=memory),
    )
    return ElasticPolicy(metadata=ObjectMeta(namespace="a", name=name or "all"), spec=spec)


def test_limits_are_proportional_where_nobody_says_otherwise() -> None:
    without = ElasticPolicy(metadata=ObjectMeta(namespace="a", name="without"))
    assert limit_modes(WEB, {}, [without]) == LimitModes(LimitMode.PROPORTIONAL, LimitMode.PROPORTIONAL)


def test_the_narrowest_statement_counts_for_each_resource_by_itself() -> None:
    stated = [policy(cpu="Unset", memory="Unset"), policy("web", memory="Independent"), policy("other", cpu="Unset")]
    assert limit_modes(WEB, {}, stated) == LimitModes(cpu=LimitMode.UNSET, memory=LimitMode.INDEPENDENT)


@pytest.mark.parametrize("text", ["independent", "", "Auto"])
def test_a_mode_that_does_not_exist_is_no_statement(text: str) -> None:
    assert limit_modes(WEB, {}, [policy("web", cpu=text), policy(cpu="Unset")]).cpu is LimitMode.UNSET


amounts = st.integers(1, 2**40)


@given(amounts, amounts, st.none() | amounts)
def test_a_limit_apart_is_the_upper_bound_and_never_below_the_request(
    request: int, limit: int, upper: int | None
) -> None:
    found = independent_limit(request, limit, upper)
    assert found is not None
    assert found >= request
    assert found in (request, limit if upper is None else upper)


def test_no_limit_is_added_where_there_is_none() -> None:
    assert independent_limit(100, None, 300) is None
