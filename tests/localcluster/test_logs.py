"""What `kubectl logs` may ask of a container's output, and what it gets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.clock import ManualClock
from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.logs import LogWish, log_wish
from elastipod.localcluster.api.requests import Request
from elastipod.localcluster.node.logs import read_log
from elastipod.localcluster.node.shim import _now, _write_lines

T0 = 1_780_000_000.0
STAMPS = [f"2026-05-28T20:26:{40 + second}.000000000Z" for second in range(4)]
SAID = b"".join(f"{stamp} F line {number}\n".encode() for number, stamp in enumerate(STAMPS))


async def shown(path: Path, wish: LogWish) -> str:
    return b"".join([piece async for piece in read_log(str(path), wish, ManualClock(), lambda: False)]).decode()


@pytest.mark.parametrize(
    ("wish", "lines"),
    [
        (LogWish(), ["line 0", "line 1", "line 2", "line 3"]),
        (LogWish(tail=2), ["line 2", "line 3"]),
        (LogWish(tail=0), []),
        (LogWish(tail=9), ["line 0", "line 1", "line 2", "line 3"]),
        (LogWish(since=T0 + 1.5), ["line 2", "line 3"]),
        (LogWish(since=T0 + 2), ["line 2", "line 3"]),
        (LogWish(since=T0 + 60), []),
        (LogWish(tail=1, since=T0), ["line 3"]),
        (LogWish(tail=3, since=T0 + 3), ["line 3"]),
        (LogWish(has_timestamps=True, tail=1), [f"{STAMPS[3]} line 3"]),
        (LogWish(limit_bytes=10), ["line 0", "lin"]),
        (LogWish(limit_bytes=len(STAMPS[0]) + 3, has_timestamps=True), [f"{STAMPS[0]} li"]),
        (LogWish(limit_bytes=10, follows=True), ["line 0", "lin"]),
    ],
)
async def test_of_the_output_the_part_is_shown_that_is_wished(tmp_path: Path, wish: LogWish, lines: list[str]) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(SAID)
    assert (await shown(path, wish)).splitlines() == lines


async def test_a_line_in_pieces_is_one_line_with_one_time(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text("".join(f"{STAMPS[0]} {one}\n" for one in ("P a", "F b", "P c")))
    assert await shown(path, LogWish()) == "ab\nc"
    assert await shown(path, LogWish(has_timestamps=True)) == f"{STAMPS[0]} ab\n{STAMPS[0]} c"


async def test_what_is_added_while_it_is_followed_is_shown_once_it_is_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(SAID[:60])
    added = [SAID[60:100], SAID[100:]]

    def goes_on() -> bool:
        if not added:
            return False
        with path.open("ab") as file:
            file.write(added.pop(0))
        return True

    reading = read_log(str(path), LogWish(follows=True), ManualClock(), goes_on)
    pieces = [piece.decode() async for piece in reading]
    assert "".join(pieces).splitlines() == ["line 0", "line 1", "line 2", "line 3"]
    assert all(piece.endswith("\n") for piece in pieces)


@given(st.lists(st.binary(max_size=60), max_size=12), st.booleans())
async def test_whatever_is_said_comes_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], has_long_line: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "0.log"
    said = [*pieces, *([b"x" * 50_000, b"\n"] if has_long_line else [])]
    with path.open("ab", buffering=0) as file:
        rest = b""
        for piece in said:
            rest = _write_lines(file.fileno(), rest + piece)
        if rest:
            file.write(b"%s P %s\n" % (_now(), rest))
    found = b"".join([piece async for piece in read_log(str(path), LogWish(), ManualClock(), lambda: False)])
    assert found == b"".join(said)


def wish(**query: str) -> LogWish:
    return log_wish(Request("GET", "/", query), "web", T0)


def test_a_query_is_read_as_kubernetes_reads_it() -> None:
    assert wish() == LogWish()
    found = wish(tailLines="5", sinceSeconds="60", limitBytes="100", timestamps="true", previous="true", follow="1")
    assert found == LogWish(5, T0 - 60, 100, has_timestamps=True, is_previous=True, follows=True)
    assert wish(sinceTime="2026-05-28T20:26:40Z").since == T0
    assert wish(sinceSeconds="9223372036854775807").since == 0


@pytest.mark.parametrize(
    ("query", "code", "named"),
    [
        ({"tailLines": "many"}, 400, "tailLines"),
        ({"tailLines": "-1"}, 422, "tailLines"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds"),
        ({"limitBytes": "0"}, 422, "limitBytes"),
        ({"limitBytes": "9" * 5000}, 400, "limitBytes"),
        ({"sinceTime": "yesterday"}, 400, "sinceTime"),
        ({"sinceTime": "2026-05-28T20:26:40Z", "sinceSeconds": "1"}, 422, "[]: Forbidden: at most one of"),
        ({"stream": "Stdout"}, 400, "stream"),
    ],
)
def test_what_can_not_be_asked_is_refused_by_name(query: dict[str, str], code: int, named: str) -> None:
    with pytest.raises(ApiFailure) as told:
        wish(**query)
    assert (told.value.code, named in told.value.message) == (code, True)
