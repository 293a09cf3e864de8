"""Text to times and values."""

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recommender.sources.prometheus.points import points, without_gaps

PLAIN = (
    st.integers(0, 10**15 - 1).map(str)
    | st.floats(0, 1e15).map("{:.17f}".format).filter(lambda text: text.index(".") < 16)
    | st.floats(0, 100).map("{:.17f}".format)
)
OTHERS = ("NaN", "+Inf", "-1", "1e-07", "6.9E-05", "", ".", ".5", "1.2.3", "0x1", "1" * 17, "1" * 20 + ".5")


START = 1_800_000_000


def text_of(numbers: list[str], start: int = START) -> bytes:
    return ("[" + ",".join(f'[{start + 60 * at},"{text}"]' for at, text in enumerate(numbers)) + "]").encode()


def test_numbers_are_taken_and_the_rest_is_no_number() -> None:
    times, values = points(b'[[0,"NaN"],[60,"0.2"],[120,"+Inf"],[180,null],[240,"-Inf"]]')
    assert times.tolist() == [0, 60, 120, 180, 240]
    assert np.isfinite(values).tolist() == [False, True, False, False, False]


@pytest.mark.parametrize("raw", [b'[[0,"x"]]', b"[[0]]", b'{"a":1}', b'[[0,"1","2"]]'])
def test_what_are_no_points_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        points(raw)


@given(st.lists(st.lists(PLAIN, min_size=1, max_size=20), max_size=5))
@example([["0", "7.25", "12.125"], ["12345678", "123456789", "1234567.8", "12345678.9", "123456789012.5"]])
def test_points_without_gaps_are_what_each_of_them_says(series: list[list[str]]) -> None:
    """To two millionths: a core has 1000 millicores, and buckets are a twentieth wide."""
    found = without_gaps([text_of(one, START + number) for number, one in enumerate(series)], 60)
    for number, (one, read) in enumerate(zip(series, found, strict=True)):
        assert read is not None
        assert read[0] == START + number
        assert read[1] == pytest.approx([float(text) for text in one], rel=1e-6, abs=2e-6)


@pytest.mark.parametrize("text", OTHERS)
def test_a_series_with_another_number_is_left_to_be_read_by_itself(text: str) -> None:
    texts = [text_of(["1", "2"]), text_of(["1", text]), text_of(["3"])]
    first, other, last = without_gaps(texts, 60)
    assert other is None
    assert first is not None
    assert last is not None
    assert (first[1].tolist(), last[1].tolist()) == ([1, 2], [3])


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'[[0,"1"],[120,"2"]]', b'[[0.5,"1"],[60.5,"2"]]', b'[[0,"1]]', b'[[0,"1""2"],[60,"3"]]', b"[[0,1]]"],
)
def test_a_series_with_gaps_is_left_to_be_read_by_itself(text: bytes) -> None:
    first, other, last = without_gaps([text_of(["1", "2"]), text, text_of(["3"])], 60)
    assert other is None
    assert first is not None
    assert last is not None


def test_spoiled_text_is_read_as_amounts_or_not_at_all() -> None:
    """10,000 series with letters changed."""
    chance = random.Random(3)
    read = 0
    for _ in range(10_000):
        text = bytearray(text_of([str(chance.random() * 10**at) for at in range(6)]))
        for _ in range(chance.randint(1, 2)):
            text[chance.randrange(len(text))] = chance.choice(b'0189.,"[]e-N \xff')
        [found] = without_gaps([bytes(text)], 60)
        if found is not None:
            read += 1
            assert len(found[1]) == 6
            assert np.isfinite(found[1]).all()
            assert found[1].min() >= 0
    assert 500 < read < 9500
