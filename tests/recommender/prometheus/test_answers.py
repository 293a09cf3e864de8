"""Bytes to series."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recommender.sources.prometheus.answers import BadAnswer, Elements, Series, label_sets_answer, range_answer
from recommender.sources.prometheus.points import points
from tests.recommender.prometheus.loopback import compact, matrix


def read(elements: Elements[Any], body: bytes, size: int) -> tuple[list[Any], Any]:
    found: list[Any] = []
    for start in range(0, len(body), size):
        found += elements.feed(body[start : start + size])
    last, envelope = elements.close()
    return found + last, envelope


HARD_LABELS = ('a]]},{"metric":{}', "]}", "}]", '"', "\\", "é", "\n", "]]}]}")


@given(
    st.lists(st.tuples(st.sampled_from(HARD_LABELS) | st.text(max_size=8), st.integers(0, 5)), max_size=6),
    st.integers(1, 200),
    st.lists(st.sampled_from(HARD_LABELS), max_size=2),
)
def test_series_arrive_whole_however_the_bytes_are_cut(
    series: list[tuple[str, int]], size: int, warnings: list[str]
) -> None:
    told = [({"pod": pod}, [[60 * at, str(at)] for at in range(count + 1)]) for pod, count in series]
    elements = range_answer()
    found, envelope = read(elements, matrix(told, warnings=warnings), size)
    assert [one.metric for one in found] == [labels for labels, _ in told]
    assert [points(one.values)[1].tolist() for one in found] == [list(range(count + 1)) for _, count in series]
    assert envelope.warnings == warnings
    assert elements.bad == 0


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(HARD_LABELS), min_size=1)), st.integers(1, 99))
def test_label_sets_arrive_whole(sets: list[dict[str, str]], size: int) -> None:
    found, _ = read(label_sets_answer(), compact({"status": "success", "data": sets}), size)
    assert found == sets


def test_a_broken_series_costs_only_itself() -> None:
    body = matrix([({"pod": name}, [[0, "1"]]) for name in "abcd"]).replace(b'"pod":"b"', b'"pod":b')
    elements = range_answer()
    found, _ = read(elements, body, 1000)
    assert [one.metric["pod"] for one in found] == ["a", "c", "d"]
    assert elements.bad == 1


def test_an_answer_that_is_cut_off_anywhere_is_known_as_such() -> None:
    body = matrix([({"pod": name}, [[0, "1"], [60, "2"]]) for name in "abc"], warnings=["slow"])
    for end in range(len(body)):
        with pytest.raises(BadAnswer):
            read(range_answer(), body[:end], 64)


def test_an_endless_series_is_given_up() -> None:
    endless = matrix([])[:-3] + b'{"metric":{"a":"' + b"x" * 10_000_000
    with pytest.raises(BadAnswer, match="without a whole series"):
        read(range_answer(), endless, 100_000)


def test_any_bytes_are_read_or_refused() -> None:
    """10,000 answers with bytes changed, removed, doubled or cut."""
    chance = random.Random(5)
    labels = [{"namespace": "shop", "pod": f"web-{number}", "container": "app"} for number in range(4)]
    body = matrix([(one, [[60 * at, str(at / 7)] for at in range(12)]) for one in labels])
    refused = 0
    for _ in range(10_000):
        elements = range_answer()
        try:
            found, _ = read(elements, mutated(body, chance), 200)
        except BadAnswer:
            refused += 1
            continue
        for one in found:
            assert isinstance(one, Series)
            try:
                times, values = points(one.values)
            except ValueError:
                continue
            assert len(times) == len(values)
    assert 1000 < refused < 9900


def mutated(body: bytes, chance: random.Random) -> bytes:
    """The same with one to three places spoiled."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(body))
        match chance.randrange(5):
            case 0:
                body = body[:at]
            case 1:
                body = body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
            case 2:
                body = body[:at] + body[at + chance.randint(1, 30) :]
            case 3:
                body = body[:at] + body[at - 20 : at] * chance.randint(1, 3) + body[at:]
            case _:
                word = chance.choice((b"NaN", b"1e999", b"-1", b"null", b'"', b"]]},{", b"[" * 2000, b"\xff", b"1e308"))
                body = body[:at] + word + body[at:]
        if not body:
            return body
    return body
