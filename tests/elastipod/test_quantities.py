"""The quantity grammar, held against the client library's exact parser."""

import string
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from elastipod.quantities import (
    MAX_QUANTITY,
    QuantityError,
    Resources,
    format_cpu,
    format_memory,
    parse_cpu,
    parse_memory,
    parse_nano,
    show_memory,
    stated_memory,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("129e6", "129000000"),
        ("1E", "1e18"),
        ("1e3", "1000"),
        ("95647727n", "0.095647727"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
        ("0.1Ki", "102.4"),
        ("731815514666m", "731815514.666"),
        ("107374182400m", "107374182.4"),
        ("-2", "-2"),
        ("0", "0"),
    ],
)
def test_every_form_people_write_is_read_exactly_r21(text: str, amount: str) -> None:
    assert parse_nano(text) == int(Decimal(amount) * 10**9)


@pytest.mark.parametrize(
    "text", ["", ".", "e", "1e", "1ki", "1K", "1.1.", "1 ", " 1", "0x1", "1Mi1", "--1", "١", "1\n", "NaN", "inf"]
)
def test_what_is_no_quantity_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_nano(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("100m", "100m means 0.1 byte; did you mean 100Mi?"),
        ("1500m", "1500m means 1.5 bytes; did you mean 1500Mi?"),
        ("0.5", "0.5 means 0.5 byte; did you mean 0.5Mi?"),
        ("512", "512 means 512 bytes; did you mean 512Mi?"),
        ("1Ki", "1Ki means 1024 bytes; did you mean 1Mi?"),
        ("2e3", "2e3 means 2000 bytes; write it like 128Mi"),
    ],
)
def test_less_memory_than_a_page_is_a_slip_of_the_pen(text: str, says: str) -> None:
    with pytest.raises(QuantityError) as told:
        stated_memory(text)
    assert str(told.value) == says


@given(st.sampled_from(["0", "-100m", "4Ki", "731815514666m", "1Gi", "x", "1e18"]) | st.text(max_size=12))
def test_any_other_memory_is_as_kubernetes_reads_it(text: str) -> None:
    try:
        amount = stated_memory(text)
    except QuantityError as error:
        assert "means" in str(error) or "is not a quantity" in str(error)
    else:
        assert amount == parse_memory(text)
        assert amount <= 0 or amount >= 4096


@pytest.mark.parametrize("text", ["1e1000000", "9223372036854775808", "9" * 10_000_000, "1e99999999999", "8Ei"])
def test_what_is_too_large_saturates_and_never_wraps(text: str) -> None:
    assert parse_memory(text) == MAX_QUANTITY


@pytest.mark.parametrize(
    "text", ["1e-1000000", "0.0000000000000000001", "0." + "0" * 10_000_000 + "1", "1e-99999999999"]
)
def test_what_is_too_small_rounds_up_to_one_billionth(text: str) -> None:
    assert parse_nano(text) == 1


def test_memory_is_whole_bytes_rounded_up_r19() -> None:
    assert parse_memory("731815514666m") == 731815515
    assert format_memory(parse_memory("731815514666m")) == "731815515"


def test_a_person_sees_103mi_for_a_fractional_amount_r20() -> None:
    assert show_memory(parse_memory("107374182400m")) == "103Mi"


_numbers = st.from_regex(r"\A[+-]?(?:[0-9]{1,15}|[0-9]{1,12}\.[0-9]{0,9}|\.[0-9]{1,9})\Z")
_suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2", "e-3", "e+1"])


@given(_numbers, _suffixes)
def test_it_agrees_with_the_client_library(number: str, suffix: str) -> None:
    exact = parse_quantity(number + suffix) * 10**9
    nano = parse_nano(number + suffix)
    if abs(nano) < MAX_QUANTITY * 10**9:
        assert 0 <= abs(nano) - abs(exact) < 1


@given(st.text(alphabet=string.printable, max_size=200))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        parse_cpu(text)
        parse_memory(text)
    except QuantityError as error:
        assert len(str(error)) < 300


@given(st.integers(0, MAX_QUANTITY))
def test_memory_comes_back_from_its_text(amount: int) -> None:
    assert parse_memory(format_memory(amount)) == amount


@given(st.integers(0, 10**12))
def test_cpu_comes_back_from_its_text(amount: int) -> None:
    assert parse_cpu(format_cpu(amount)) == amount


def test_zero_is_set_and_none_is_not() -> None:
    assert Resources(0, None).or_else(Resources(5, 7)) == Resources(0, 7)
    assert Resources(None, 3) + Resources(None, None) == Resources(None, 3)


@pytest.mark.parametrize("text", ["1" * 10_000 + "x" * 31, "0" * 10_000 + "." + "1" * 10_000 + "\x00" * 31])
def test_a_long_text_that_is_no_quantity_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(QuantityError):
        parse_nano(text)
    assert time.process_time() - began < 0.5
