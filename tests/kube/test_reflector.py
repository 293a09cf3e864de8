"""A part's copy of a collection stays right whatever the server does."""

import asyncio
import json
import math
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from elastipod.clock import LoopClock, ManualClock
from elastipod.kube.connection import PatchType
from elastipod.kube.errors import Gone, KubeError, TooManyRequests, Unreachable
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import PODS, ResourceType
from elastipod.localcluster.simulation.virtualtime import run_virtually
from elastipod.pods import Pod

Script = list[Any]


def _pod(name: str, version: int, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "d", "uid": name, "resourceVersion": str(version)},
        "status": {"phase": phase},
    }


def _page(version: int, *pods: dict[str, Any], more: str = "") -> bytes:
    return json.dumps({"metadata": {"resourceVersion": str(version), "continue": more}, "items": pods}).encode()


def _event(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode()


class ScriptedServer:
    """Answers lists and watches from a script; an exception in it is raised; the end of the script stops the test."""

    call_seconds = math.inf

    def __init__(self, lists: Script, watches: list[Script]) -> None:
        self.lists, self.watches = lists, watches
        self.calls: list[str] = []
        self.over = asyncio.Event()

    async def list(self, resource: ResourceType, *, continue_token: str = "", **_: Any) -> bytes:
        self.calls.append(f"list{continue_token}")
        if not self.lists:
            self.over.set()
            await asyncio.Event().wait()
        answer = self.lists.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return bytes(answer)

    async def watch(self, resource: ResourceType, *, resource_version: str, **_: Any) -> AsyncGenerator[bytes, None]:
        self.calls.append(f"watch{resource_version}")
        if not self.watches:
            self.over.set()
            await asyncio.Event().wait()
        for item in self.watches.pop(0):
            if isinstance(item, KubeError):
                raise item
            yield item

    async def get(self, *_: Any, **__: Any) -> bytes:
        raise AssertionError("a reflector only lists and watches")

    async def create(self, *_: Any, **__: Any) -> bytes:
        raise AssertionError("a reflector only lists and watches")

    async def patch(self, *_: Any, patch_type: PatchType = PatchType.MERGE, **__: Any) -> bytes:
        raise AssertionError("a reflector only lists and watches")

    async def delete(self, *_: Any, **__: Any) -> bytes:
        raise AssertionError("a reflector only lists and watches")

    async def close(self) -> None:
        return


class Observed:
    """A reflector that ran against a script, and what its handler was told."""

    def __init__(self, lists: Script, watches: list[Script]) -> None:
        self.server = ScriptedServer(lists, watches)
        self.clock = ManualClock(0)
        self.changes: list[tuple[str, str]] = []
        self.reflector = Reflector(self.server, PODS, decode_pod, self.clock, on_change=self._note)

    def _note(self, key: str, old: Pod | None, new: Pod | None) -> None:
        self.changes.append((key, "gone" if new is None else "new" if old is None else "changed"))

    async def run(self) -> "Observed":
        task = asyncio.create_task(self.reflector.run())
        await asyncio.wait([task, asyncio.create_task(self.server.over.wait())], return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return self


async def test_pages_are_read_to_their_end_and_watched_from_the_lists_version() -> None:
    seen = await Observed([_page(5, _pod("a", 1), more="X"), _page(5, _pod("b", 2))], []).run()
    assert sorted(seen.reflector.items) == ["d/a", "d/b"]
    assert seen.server.calls == ["list", "listX", "watch5"]


async def test_an_object_that_is_read_anew_is_taken_where_it_is_newer_and_forgotten_where_it_is_gone() -> None:
    seen = await Observed([_page(5, _pod("a", 3)), _page(6, _pod("a", 2)), _page(7, _pod("a", 4)), _page(8)], []).run()
    for _ in range(3):
        await seen.reflector.refresh("d/a")
    assert seen.changes == [("d/a", "new"), ("d/a", "changed"), ("d/a", "gone")]


@pytest.mark.parametrize("as_event", [True, False])
async def test_after_410_one_list_is_compared_and_only_changes_are_told_f5_r48(as_event: bool) -> None:
    gone: Any = _event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}) if as_event else Gone(410, "", "")
    lists = [_page(5, _pod("a", 1), _pod("b", 2), _pod("c", 3)), _page(9, _pod("a", 1), _pod("b", 8, "Failed"))]
    seen = await Observed(lists, [[gone]]).run()
    assert seen.changes == [("d/a", "new"), ("d/b", "new"), ("d/c", "new"), ("d/c", "gone"), ("d/b", "changed")]
    assert seen.reflector.relists == 2


class IdleServer(ScriptedServer):
    """When the scripts are over nothing happens for ten minutes: what is asked to end does, or the peer is dead."""

    idle_seconds: list[float]

    async def watch(
        self, resource: ResourceType, *, resource_version: str, timeout_seconds: float = math.inf, **more: Any
    ) -> AsyncGenerator[bytes, None]:
        if self.watches:
            async for line in super().watch(resource, resource_version=resource_version, **more):
                yield line
            return
        self.calls.append(f"watch{resource_version}")
        self.idle_seconds.append(timeout_seconds)
        await asyncio.sleep(timeout_seconds)
        if sum(self.idle_seconds) >= 600:
            self.watches = [[_event("ADDED", _pod("e", 12))]]
        elif len(self.idle_seconds) % 2:
            raise Unreachable("nothing was said for longer than asked for")


def test_after_410_and_ten_idle_minutes_no_event_is_lost_and_nothing_is_listed_again_r48() -> None:
    async def run() -> None:
        pods = [_pod(name, version) for version, name in enumerate("abc", start=6)]
        expired = _event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
        # The fourth came while there was no watch.
        lists: Script = [_page(5), _page(10, *pods, _pod("d", 9))]
        server = IdleServer(lists, [[*(_event("ADDED", one) for one in pods), expired]])
        server.idle_seconds = []
        told: list[str] = []
        reflector = Reflector(
            server, PODS, decode_pod, LoopClock(), on_change=lambda key, _old, new: told.append(f"{key} {bool(new)}")
        )
        task = asyncio.create_task(reflector.run())
        while "d/e" not in reflector.items:
            await asyncio.sleep(1)
        task.cancel()
        assert told == ["d/a True", "d/b True", "d/c True", "d/d True", "d/e True"]
        assert reflector.relists == 2
        assert server.calls[:3] == ["list", "watch5", "list"]
        assert set(server.calls[3:]) <= {"watch10", "watch12"}
        assert len(server.idle_seconds) >= 2
        assert max(server.idle_seconds) <= 300
        assert asyncio.get_running_loop().time() < 1200

    run_virtually(run())


async def test_a_watch_that_ends_is_taken_up_where_it_was() -> None:
    seen = await Observed([_page(5)], [[_event("ADDED", _pod("a", 7))], [_event("BOOKMARK", _pod("", 12))]]).run()
    assert seen.server.calls == ["list", "watch5", "watch7", "watch12"]


async def test_duplicate_and_late_events_change_nothing_f9() -> None:
    events = [
        _event("MODIFIED", _pod("a", 8, "Failed")),
        _event("MODIFIED", _pod("a", 7)),
        _event("MODIFIED", _pod("a", 8, "Failed")),
    ]
    seen = await Observed([_page(5, _pod("a", 5))], [events]).run()
    assert seen.reflector.items["d/a"].phase == "Failed"
    assert seen.changes == [("d/a", "new"), ("d/a", "changed")]


async def test_a_list_from_the_past_is_refused_f8() -> None:
    watches: list[Script] = [[_event("DELETED", _pod("a", 9)), Gone(410, "Expired", "")]]
    seen = await Observed([_page(5, _pod("a", 5)), _page(5, _pod("a", 5)), _page(10)], watches).run()
    assert seen.reflector.items == {}
    assert seen.changes == [("d/a", "new"), ("d/a", "gone")]


async def test_rubbish_in_the_stream_costs_itself_only_f9() -> None:
    rubbish = [
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"type":"ADDED","object":3}',
        b'{"type":"ADDED","object":{"metadata":{"name":5}}}',
    ]
    seen = await Observed([_page(5)], [[*rubbish, _event("ADDED", _pod("a", 6))]]).run()
    assert list(seen.reflector.items) == ["d/a"]
    assert seen.reflector.bad_objects == len(rubbish)


async def test_what_is_known_stays_while_the_server_is_away_and_tries_get_rarer_f1() -> None:
    away: Script = [Unreachable("refused")]
    seen = await Observed([_page(5, _pod("a", 5))], [away] * 12).run()
    assert list(seen.reflector.items) == ["d/a"]
    assert seen.clock.now() >= 120, "twelve tries take at least two minutes"
    assert seen.reflector.relists == 1


async def test_retry_after_is_honoured_and_does_not_list_again_f3() -> None:
    seen = await Observed([_page(5)], [[TooManyRequests(429, "", "", retry_after_seconds=60)]]).run()
    assert 60 <= seen.clock.now() <= 66
    assert seen.server.calls == ["list", "watch5", "watch5"]


@pytest.mark.parametrize("told", [0.0, 86_400.0])
async def test_a_server_that_says_never_or_at_once_is_asked_with_patience_f3(told: float) -> None:
    busy: Script = [TooManyRequests(429, "", "", retry_after_seconds=told)]
    seen = await Observed([_page(5)], [busy] * 6).run()
    assert 20 <= seen.clock.now() <= 6 * 330


async def test_rubbish_in_a_page_costs_itself_only_and_what_was_known_of_it_stays_f9() -> None:
    odd = {**_pod("a", 6), "spec": {"containers": "none"}}
    nameless = {"metadata": {"name": 5}}
    lists = [_page(5, _pod("a", 1), _pod("b", 2)), _page(9, odd, _pod("b", 8, "Failed"), nameless, _pod("c", 9))]
    seen = await Observed(lists, [[Gone(410, "", "")]]).run()
    assert {key: pod.phase for key, pod in seen.reflector.items.items()} == {
        "d/a": "Running",
        "d/b": "Failed",
        "d/c": "Running",
    }
    assert seen.reflector.bad_objects == 2


@pytest.mark.parametrize("page", [b'{"items": 3}', b'{"items": [', b"\xff", b"[]"])
async def test_a_list_that_is_not_whole_is_no_answer_f9(page: bytes) -> None:
    seen = await Observed([_page(5, _pod("a", 5)), page, _page(9, _pod("a", 5))], [[Gone(410, "", "")]]).run()
    assert seen.changes == [("d/a", "new")]
    assert seen.server.calls == ["list", "watch5", "list", "list", "watch9"]
