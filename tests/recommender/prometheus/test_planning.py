"""What is asked at once."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.sources.prometheus.planning import (
    MOST_SAMPLES,
    Shard,
    Span,
    is_too_much,
    plan_shards,
    span_before,
)
from recommender.sources.prometheus.queries import Names, Selecting, one_of

spans = st.builds(
    lambda start, count, step: Span(start, start + (count - 1) * step, step),
    st.integers(0, 2_000_000_000),
    st.integers(1, 40_000),
    st.integers(1, 3600),
)


@given(spans, st.integers(1, 11_000))
def test_pieces_hold_each_time_once_r32(span: Span, points: int) -> None:
    pieces = span.cut(points)
    assert sum(piece.points for piece in pieces) == span.points
    assert all(piece.points <= points for piece in pieces)
    assert (pieces[0].start, pieces[-1].end) == (span.start, span.end)
    assert all(after.start - before.end == span.step for before, after in pairwise(pieces))


@given(spans)
def test_halving_ends(span: Span) -> None:
    pieces, levels = [span], 0
    while pieces := [half for piece in pieces[:4] for half in piece.halves()]:
        levels += 1
        assert all(half.points < span.points for half in pieces)
    assert levels <= 16


def test_two_weeks_of_minutes_are_asked_in_two_r32() -> None:
    span = span_before(1_800_000_000, 14 * 86_400, 60)
    assert span.points == 20_160
    assert [piece.points for piece in span.cut(11_000)] == [11_000, 9_160]


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.integers(1, 9), min_size=1, max_size=9),
        max_size=9,
    ),
    st.integers(1, 5000),
    st.integers(1, 100_000),
)
def test_shards_hold_each_pod_once(pods: dict[str, dict[str, int]], points: int, most: int) -> None:
    shards = plan_shards(pods, points, most)
    asked = [(name, pod) for one in shards for name in one.namespaces for pod in one.pods or pods[name]]
    assert sorted(asked) == sorted((name, pod) for name, found in pods.items() for pod in found)
    assert sum(one.series for one in shards) == sum(sum(found.values()) for found in pods.values())
    room = max(most // points, 1)
    assert all(one.series <= room or len(one.pods or one.namespaces) == 1 for one in shards)


def test_of_a_namespace_with_others_only_the_pods_are_asked_for() -> None:
    pods = {"shop": {"web-0": 1}, "bank": {"db-0": 1}}
    assert plan_shards(pods, 100, shared={"shop"}) == [Shard(("shop",), ("web-0",), 1), Shard(("bank",), (), 1)]


def test_nine_hundred_names_go_into_several_questions_r33() -> None:
    shards = plan_shards({"shop": {f"{'long-name-' * 20}{number}": 1 for number in range(900)}}, 2000)
    assert len(shards) > 1
    assert all(sum(len(pod) for pod in one.pods) < 40_000 for one in shards)


@pytest.mark.parametrize("pods_of_a_namespace", [1000, 10_000])
def test_a_quarter_of_a_million_series_are_asked_for_a_bounded_number_at_a_time_r34(pods_of_a_namespace: int) -> None:
    pods = {
        f"space-{number}": {f"pod-{pod}": 25 for pod in range(pods_of_a_namespace)}
        for number in range(10_000 // pods_of_a_namespace)
    }
    points = span_before(1_800_000_000, 8 * 86_400, 300).points
    shards = plan_shards(pods, points)
    assert sum(one.series for one in shards) == 250_000
    assert max(one.series * points for one in shards) <= MOST_SAMPLES


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (422, "query processing would load too many samples into memory", True),
        (503, "query timed out in expression evaluation", True),
        (504, "", True),
        (400, "exceeded maximum resolution of 11,000 points per timeseries", True),
        (400, "parse error", False),
        (401, "", False),
        (429, "", False),
    ],
)
def test_a_refusal_for_size_is_told_from_others_r34(status: int, message: str, expected: bool) -> None:
    assert is_too_much(status, message) is expected


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5, unique=True))
def test_a_name_is_only_a_name(names: list[str]) -> None:
    matcher = one_of("pod", names)
    quoted = matcher.partition("=")[2].removeprefix("~")
    # Within the quotes each quote and each backslash is escaped, and no line ends.
    assert re.fullmatch(r'"(?:[^"\\\n\r]|\\["\\nr])*"', quoted)


def test_regex_characters_in_names_are_escaped_r33() -> None:
    assert one_of("pod", ["a.b", "c+"]) == 'pod=~"a\\\\.b|c\\\\+"'


def test_pods_as_a_whole_and_their_networks_are_not_asked_for_r30() -> None:
    query = Selecting(Names()).memory(299_999, Shard(("shop",), ("a", "b")))
    assert 'container!=""' in query
    assert 'container!="POD"' in query
    assert 'namespace="shop"' in query
    assert 'pod=~"a|b"' in query
