"""Whether the webhook has effect is told by what comes back, and by nothing else."""

import json
import math
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import Connection
from elastipod.kube.errors import BadRequest, Conflict, Forbidden, KubeError, NotFound, ServerError, Unreachable
from elastipod.kube.namespaces import NamespacesConnection
from elastipod.kube.resources import CONFIG_MAPS
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics
from tests.updater.admission.world import Json, World, patched, review_json
from updater.admission.canary import CANARY, Canary, mark, outcome, why_not_known
from updater.admission.settings import AdmissionSettings

NAMESPACE = "default"


def config_map(asked: Any = "ab12", **meta: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {CANARY: asked}, **meta}}


def marked(body: Json) -> Json:
    """After the webhook's patch."""
    found: Json = jsonpatch.apply_patch(body, mark(json.dumps(body).encode()))
    return found


def config_map_review(body: Json, **request: Any) -> Json:
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    return review_json(body, NAMESPACE, **{"resource": resource, **request})


class Asking(InterceptedConnection):
    """An API server that asks a webhook about ConfigMaps while one is given, or fails."""

    def __init__(self, inner: Connection) -> None:
        super().__init__(inner)
        self.webhook: World | None = None
        self.failure: KubeError | None = None
        self.made: list[Json] = []
        self.replays = False

    async def handle(self, call: Call) -> bytes:
        if call.resource is not CONFIG_MAPS:
            return await super().handle(call)
        if self.failure is not None:
            raise self.failure
        assert call.dry_run
        made = json.loads(await super().handle(call))
        if self.webhook is not None:
            told = json.loads(await self.webhook.admission.admit(json.dumps(config_map_review(made)).encode()))
            made = patched(made, told["response"])
        self.made.append(made)
        return json.dumps(self.made[0] if self.replays else made).encode()


class Watched(World):
    """A webhook with a canary, and the API server between them."""

    asking: Asking

    def __init__(self, folder: Path, canary_namespace: str = NAMESPACE) -> None:
        def through(to: Connection) -> Connection:
            self.asking = Asking(to)
            return self.asking

        super().__init__(folder, through=through, canary_namespace=canary_namespace, canary_seconds=1e-9)
        self.asking.webhook = self

    async def effect(self) -> float:
        """What the metric says after one more look."""
        await self.admission.canary.look()
        return self.count("admission_effective")


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_the_webhook_answers_what_it_was_asked_and_leaves_the_rest() -> None:
    assert marked(config_map())["metadata"]["annotations"] == {CANARY: "ab12"}
    kept = config_map(annotations={"kept": "yes"})
    assert marked(kept)["metadata"]["annotations"] == {"kept": "yes", CANARY: "ab12"}
    assert marked(marked(kept)) == marked(kept)


@pytest.mark.parametrize(
    "body",
    [{}, [], None, {"metadata": 5}, config_map(""), config_map(7), config_map("a" * 64), config_map(labels=None)],
)
def test_what_does_not_ask_or_is_no_object_passes_as_it_is(body: Any) -> None:
    assert mark(json.dumps(body).encode()) == []


def test_only_the_answer_to_what_was_asked_counts() -> None:
    back = json.dumps(marked(config_map())).encode()
    assert outcome(back, "ab12") is Reason.DONE
    assert outcome(back, "ab13") is Reason.NOT_PATCHED
    assert outcome(json.dumps(config_map()).encode(), "ab12") is Reason.NOT_PATCHED
    assert outcome(b"{", "ab12") is Reason.NOT_PATCHED


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("refused"), Reason.UNREACHABLE),
        (ServerError(503, "ServiceUnavailable", "later"), Reason.UNREACHABLE),
        (Forbidden(403, "Forbidden", 'User "x" cannot create resource "configmaps" in API group ""'), Reason.FORBIDDEN),
        (Forbidden(403, "Forbidden", "exceeded quota: share"), Reason.REFUSED),
        (NotFound(404, "NotFound", 'namespaces "gone" not found'), Reason.REFUSED),
        (BadRequest(400, "BadRequest", "no"), Reason.REFUSED),
        (Conflict(409, "AlreadyExists", "exists"), Reason.REFUSED),
    ],
)
def test_where_nothing_came_back_it_is_told_why(error: KubeError, reason: Reason) -> None:
    assert why_not_known(error) is reason


async def test_while_the_webhook_is_asked_the_metric_is_1_and_when_not_0(watched: Watched) -> None:
    assert await watched.effect() == 1
    watched.asking.webhook = None
    assert await watched.effect() == 0
    watched.asking.webhook = watched
    assert await watched.effect() == 1
    assert watched.count("admission_canaries_total", outcome="Done") == 2
    assert watched.count("admission_canaries_total", outcome="NotPatched") == 1
    assert not json.loads(await watched.connection.list(CONFIG_MAPS))["items"]


async def test_an_answer_of_yesterday_is_none(watched: Watched) -> None:
    watched.asking.replays = True
    assert await watched.effect() == 1
    assert await watched.effect() == 0


async def test_before_the_first_look_and_while_the_api_server_is_away_nothing_is_known(watched: Watched) -> None:
    assert math.isnan(watched.count("admission_effective"))
    assert await watched.effect() == 1
    watched.asking.failure = Unreachable("refused")
    assert math.isnan(await watched.effect())
    assert watched.count("admission_canaries_total", outcome="Unreachable") == 1
    watched.asking.failure = None
    assert await watched.effect() == 1


async def test_each_change_is_logged_once_with_its_reason(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "updater.admission.canary")
    for webhook in (watched, watched, None, None, watched):
        watched.asking.webhook = webhook
        await watched.admission.canary.look()
    told = [(one.message, one.facts["reason"]) for one in caplog.records]  # type: ignore[attr-defined]
    assert told == [
        ("dry run came back patched", "Done"),
        ("dry run did not come back patched", "NotPatched"),
        ("dry run came back patched", "Done"),
    ]


async def test_a_webhook_without_effect_stays_ready(watched: Watched) -> None:
    watched.asking.webhook = None
    async with watched:
        await watched.settle()
        assert watched.count("admission_effective") == 0
        assert await watched.obstacle() == ""


async def test_it_looks_in_its_own_namespace_where_only_some_others_may_be_read(watched: Watched) -> None:
    some = NamespacesConnection(watched.asking, ["team-a", "team-b"])
    canary = Canary(some, watched.clock, watched.admission.settings, Metrics())
    await canary.look()
    assert [one["metadata"]["namespace"] for one in watched.asking.made] == [NAMESPACE]


@pytest.mark.parametrize("namespace", [NAMESPACE, ""])
async def test_it_looks_on_its_own_where_a_namespace_is_named(tmp_path: Path, namespace: str) -> None:
    watched = Watched(tmp_path, canary_namespace=namespace)
    async with watched:
        await watched.settle()
        assert bool(watched.asking.made) is bool(namespace)


@pytest.mark.parametrize("request_", [{"operation": "UPDATE"}, {"subResource": "status"}])
async def test_a_config_map_that_is_not_new_passes(watched: Watched, request_: Json) -> None:
    review = config_map_review(config_map(), **request_)
    assert "patch" not in json.loads(await watched.admission.admit(json.dumps(review).encode()))["response"]


@pytest.mark.parametrize("name", ["Elastipod", "a/b", "-a", "a" * 64, "a\n"])
def test_what_no_namespace_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="canary_namespace"):
        AdmissionSettings(canary_namespace=name)
