"""What the cluster withholds, noticed at the seam; the answers are those of real API servers."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from elastipod.clock import ManualClock
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.errors import Forbidden, KubeError, NotFound, NotServed, RawStatus, Unreachable, status_error
from elastipod.kube.lacks import LacksConnection
from elastipod.kube.resources import AUTOSCALERS, ELASTIC_NODES, POD_METRICS, PODS

NO_PATH = RawStatus(404, b"404 page not found\n")


def status(code: int, reason: str, message: str) -> RawStatus:
    return RawStatus(code, msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": message}))


def no_right(verb: str, resource: str) -> RawStatus:
    return status(403, "Forbidden", f'it is forbidden: User "u" cannot {verb} resource "{resource}" in API group ""')


class Server(InterceptedConnection):
    """Answers each call as it is told to."""

    def __init__(self) -> None:
        super().__init__(self)
        self.answer: RawStatus | None = None
        self.calls = 0

    async def handle(self, call: Call) -> bytes:
        self.calls += 1
        if self.answer is not None:
            raise status_error(self.answer)
        return b"{}"

    async def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        yield await self.handle(call)


class World:
    def __init__(self) -> None:
        self.server, self.clock = Server(), ManualClock()
        self.connection = LacksConnection(self.server, self.clock)

    def resize(self, answer: RawStatus | None) -> KubeError | None:
        return self.ask(Call(Verb.PATCH, PODS, "default", "web-0", "resize"), answer)

    def ask(self, call: Call, answer: RawStatus | None) -> KubeError | None:
        """What it failed with."""
        self.server.answer = answer

        async def ask() -> None:
            if call.verb is Verb.WATCH:
                _ = [line async for line in call.stream(self.connection)]
            else:
                await call.send(self.connection)

        try:
            asyncio.run(ask())
        except KubeError as error:
            return error
        return None


def test_a_missing_right_is_told_by_verb_and_kind_until_it_is_back() -> None:
    world = World()
    assert isinstance(world.resize(no_right("patch", "pods/resize")), Forbidden)
    assert world.connection.lacks() == ("may not patch pods/resize",)
    assert world.resize(None) is None
    assert world.connection.lacks() == ()


def test_a_watch_that_is_refused_is_told_and_one_that_tells_something_is_there() -> None:
    world = World()
    call = Call(Verb.WATCH, AUTOSCALERS)
    world.ask(call, no_right("watch", "verticalpodautoscalers"))
    assert world.connection.lacks() == ("may not watch verticalpodautoscalers.autoscaling.k8s.io",)
    assert world.ask(call, None) is None
    assert world.connection.lacks() == ()


@pytest.mark.parametrize(
    "answer",
    [
        status(403, "Forbidden", "pods is forbidden: exceeded quota: q"),
        status(404, "NotFound", 'pods "web-0" not found'),
        status(409, "Conflict", "the object has been modified"),
        status(422, "Invalid", "it is invalid"),
    ],
)
def test_every_other_answer_shows_that_the_right_is_there(answer: RawStatus) -> None:
    world = World()
    world.resize(no_right("patch", "pods/resize"))
    world.resize(answer)
    assert world.connection.lacks() == ()


def test_no_answer_at_all_shows_nothing() -> None:
    world = World()
    world.resize(no_right("patch", "pods/resize"))

    class Away(Server):
        async def handle(self, call: Call) -> bytes:
            raise Unreachable("refused")

    world.connection.inner = Away()
    assert isinstance(world.resize(None), Unreachable)
    assert world.connection.lacks() == ("may not patch pods/resize",)


def test_an_api_server_without_resize_is_asked_once_and_again_after_ten_minutes() -> None:
    world = World()
    for _ in range(20):
        assert isinstance(world.resize(NO_PATH), NotServed)
    assert world.server.calls == 1
    assert world.connection.lacks() == ("pods/resize is not served",)
    world.clock.advance(601)
    assert world.connection.lacks() == ()
    assert world.resize(None) is None
    assert world.server.calls == 2


def test_a_kind_whose_definition_is_missing_is_asked_for_until_it_is_back() -> None:
    world = World()
    call = Call(Verb.LIST, AUTOSCALERS)
    for _ in range(3):
        assert isinstance(world.ask(call, NO_PATH), NotServed)
    assert world.server.calls == 3
    assert world.connection.lacks() == ("verticalpodautoscalers.autoscaling.k8s.io is not served",)
    assert world.ask(call, None) is None
    assert world.connection.lacks() == ()


@pytest.mark.parametrize(
    ("call", "answer", "keeps"),
    [
        (Call(Verb.LIST, AUTOSCALERS), NO_PATH, True),
        (Call(Verb.PATCH, ELASTIC_NODES, None, "n1", "status"), NO_PATH, True),
        (Call(Verb.LIST, AUTOSCALERS), no_right("list", "verticalpodautoscalers"), False),
        (Call(Verb.LIST, POD_METRICS), NO_PATH, False),
    ],
)
def test_a_definition_that_is_missing_keeps_from_being_ready_until_it_is_back_and_nothing_else_does(
    call: Call, answer: RawStatus, *, keeps: bool
) -> None:
    world = World()
    world.ask(call, answer)
    assert bool(world.connection.missing_definition()) is keeps
    world.ask(call, None)
    assert world.connection.missing_definition() == ""


def test_a_kind_that_is_served_in_one_place_is_served_in_all() -> None:
    world = World()
    world.ask(Call(Verb.LIST, AUTOSCALERS, "team"), NO_PATH)
    world.ask(Call(Verb.GET, AUTOSCALERS, "default", "web"), None)
    assert world.connection.lacks() == ()


def test_a_path_that_is_not_served_is_told_from_an_object_that_is_not_there() -> None:
    in_json = status(404, "NotFound", "the server could not find the requested resource")
    assert [type(status_error(one)) for one in (NO_PATH, in_json)] == [NotServed, NotServed]
    assert type(status_error(status(404, "NotFound", 'pods "web-0" not found'))) is NotFound
