"""A server that answers badly: late, half, too much, or with a mind to do harm."""

import json
import random
import threading
from typing import Any

import numpy as np
import pytest
from msgspec import Raw

from elastipod.clock import SystemClock
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from recommender.joining import filled
from recommender.settings import RecommenderSettings
from recommender.sources.past import Unknown
from recommender.sources.prometheus.access import PrometheusAccess
from recommender.sources.prometheus.answers import BadAnswer, Series, range_answer
from recommender.sources.prometheus.client import Late, PrometheusClient, PrometheusError, Refused, Unusable
from recommender.sources.prometheus.counting import count
from recommender.sources.prometheus.discovering import Found, discover
from recommender.sources.prometheus.folding import Fold
from recommender.sources.prometheus.grid import MOST_BYTES, Grid, Instance, Wanted
from recommender.sources.prometheus.loading import HistoryLoader, Loaded
from recommender.sources.prometheus.planning import Span, span_before
from recommender.sources.prometheus.queries import Names, Selecting
from tests.recommender.past import history_of
from tests.recommender.prometheus.loopback import (
    Answer,
    Answering,
    Question,
    answering,
    compact,
    failure,
    matrix,
    vector,
)
from tests.recommender.prometheus.test_answers import mutated, read

NOW = 1_800_000_000
SPAN = Span(NOW - 3600 * 23, NOW, 3600)
WEB = Workload("shop", "Deployment", "web")
KEY = ContainerKey(WEB, "app")
SETTINGS = RecommenderSettings()
LABELS = [{"namespace": "shop", "pod": f"web-{number}", "container": "app"} for number in range(4)]
WANTED = {
    Instance("shop", labels["pod"], "app"): Wanted(KEY, Unknown(NOW), f"uid-{labels['pod']}") for labels in LABELS
}


def usage(question: Question, scale: float = 1.0) -> bytes:
    """A tenth of a core and 200 MB, at all times that are asked for."""
    start, end, step = (int(question.params[name]) for name in ("start", "end", "step"))
    amount = 0.1 if "rate(" in question.params["query"] else 2e8
    values = [[at, str(amount * scale)] for at in range(start, end + 1, step)]
    return matrix([(labels, values) for labels in LABELS])


def client_of(url: str, timeout_seconds: float = 5.0) -> PrometheusClient:
    return PrometheusClient(PrometheusAccess(url), SystemClock(), timeout_seconds=timeout_seconds)


def load(answer: Answering, *, timeout_seconds: float = 5.0) -> Loaded:
    found = Found(Selecting(), Selecting(), None)
    with answering(answer) as url:
        client = client_of(url, timeout_seconds)
        try:
            return HistoryLoader(client, SETTINGS).load(
                found, SPAN, WANTED, now=NOW, largest_node=Resources(64_000, 2**38)
            )
        finally:
            client.close()


def test_a_good_answer_is_taken() -> None:
    loaded = load(lambda question: Answer(usage(question)))
    assert loaded.problems == []
    assert loaded.histories[KEY].samples == 4 * 24 * 60


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(b"<html>login</html>"), "not what Prometheus answers"),
        (Answer(b"", 500), "HTTP 500"),
        (Answer(failure("no such metric", "bad_data"), 400), "no such metric"),
        (Answer(b"x" * 1000, 302, {"Location": "http://127.0.0.1:1/"}), "HTTP 302"),
        (Answer(failure("half of it")), "half of it"),
        (Answer(matrix([(LABELS[0], [[NOW, "1"]])])[:-20]), "cut off"),
        (Answer(matrix([(LABELS[0], [[NOW, "1"]])]), is_cut=True), "hung up"),
        (Answer(b"\x1f\x8b" + bytes(100), 200, {"Content-Encoding": "gzip"}), "not what Prometheus answers"),
    ],
)
def test_what_is_no_answer_is_told_and_lowers_nothing(answer: Answer, told: str) -> None:
    with pytest.raises(PrometheusError, match=told):
        load(lambda _: answer)


def test_a_server_that_hangs_is_given_up_in_time() -> None:
    clock = SystemClock()
    begun = clock.monotonic()
    with pytest.raises(Late):
        load(lambda _: Answer(b'{"status":', stalls=True), timeout_seconds=0.2)
    assert clock.monotonic() - begun < 10


def test_questions_are_posted_and_ask_for_whole_seconds_r33() -> None:
    asked: list[Question] = []

    def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(usage(question))

    span = span_before(NOW + 0.123456, 3600.9, 60)
    with answering(answer) as url:
        client = client_of(url)
        HistoryLoader(client, SETTINGS).load(Found(Selecting(), Selecting(), None), span, WANTED, now=NOW + 0.123456)
        client.close()
    assert len(asked) == 2
    for one in asked:
        assert one.headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert one.path == "/api/v1/query_range"
        assert all(one.params[name].isdecimal() for name in ("start", "end", "step"))


def test_what_takes_too_long_is_asked_in_halves_r34() -> None:
    def answer(question: Question) -> Answer:
        span = int(question.params["end"]) - int(question.params["start"])
        return Answer(failure("query timed out"), 503) if span > 30 * 300 else Answer(usage(question))

    span = Span(NOW - 300 * 100, NOW, 300)
    with answering(answer) as url:
        client = client_of(url)
        loaded = HistoryLoader(client, SETTINGS).load(Found(Selecting(), None, None), span, WANTED, now=NOW)
        client.close()
    assert loaded.problems == []
    assert loaded.histories[KEY].samples == 4 * 101 * 5


@pytest.mark.parametrize(
    ("more", "told"), [({"warnings": ["store b is down"]}, "store b is down"), ({"isPartial": True}, "partial")]
)
def test_a_partial_answer_holds_for_what_is_in_it_and_is_told(more: dict[str, object], told: str) -> None:  # F20
    def answer(question: Question) -> Answer:
        whole = json.loads(usage(question))
        whole["data"]["result"] = whole["data"]["result"][:1]
        return Answer(compact(whole | more))

    loaded = load(answer)
    assert loaded.histories[KEY].samples == 24 * 60
    assert loaded.missing == set()
    assert told in loaded.problems[0]


def test_a_shard_that_can_not_be_had_whole_is_named_and_counts_not_at_all_r34() -> None:
    """Half of a history might lack its peaks."""

    def answer(question: Question) -> Answer:
        return Answer(b"", 500) if "rate(" in question.params["query"] else Answer(usage(question))

    loaded = load(answer)
    assert loaded.histories == {}
    assert loaded.missing == {KEY}
    assert "cpu of shop" in loaded.problems[0]


def test_of_a_container_with_very_many_series_the_server_makes_one() -> None:  # F27
    asked: list[str] = []

    def answer(question: Question) -> Answer:
        asked.append(question.params["query"])
        return Answer(usage(question))

    wanted = {instance: Wanted(KEY, Unknown(NOW), series=1000) for instance in WANTED}
    with answering(answer) as url:
        client = client_of(url)
        HistoryLoader(client, SETTINGS).load(Found(Selecting(), None, None), SPAN, wanted, now=NOW)
        HistoryLoader(client, SETTINGS).load(Found(Selecting(), None, None), SPAN, WANTED, now=NOW)
        client.close()
    assert [query.startswith("max by (namespace,pod,container) (rate(") for query in asked] == [True, False]


def test_a_server_that_is_down_is_not_asked_on_and_on_r34() -> None:
    asked: list[Question] = []
    lock = threading.Lock()

    def answer(question: Question) -> Answer:
        with lock:
            asked.append(question)
        return Answer(b"", 502)

    wanted = {
        Instance(f"space-{number}", f"pod-{pod}", "app"): Wanted(KEY, Unknown(NOW))
        for number in range(40)
        for pod in range(100)
    }
    span = Span(NOW - 300 * 10_000, NOW, 300)
    with answering(answer) as url:
        client = client_of(url)
        loader = HistoryLoader(client, SETTINGS)
        with pytest.raises(Refused, match="502"):
            loader.load(Found(Selecting(), Selecting(), None), span, wanted, now=NOW)
        client.close()
    assert len(asked) <= 6


@pytest.mark.parametrize("scale", [1000.0, 1e6, 1e9, 1 / 1024 / 8, 1 / 1024**2])
def test_amounts_in_another_unit_are_refused(scale: float) -> None:  # F21
    loaded = load(lambda question: Answer(usage(question, scale)))
    assert loaded.histories == {}
    assert any("another unit" in problem for problem in loaded.problems)


def test_of_a_thousand_streams_in_another_unit_none_is_taken() -> None:  # F21
    """Containers from 30 MB to 4 GB, of which a tenth to all that they ask for is used."""
    chance = random.Random(3)
    for _ in range(1000):
        scale = chance.choice((1 / 1024, 1 / 1024**2, 1 / 1000, 1024.0, 1024.0**2))
        grid = Grid(SPAN, Names(), MOST_BYTES, WANTED)
        wanted = {}
        for instance in WANTED:
            used = 3e7 * 130 ** chance.random()
            wanted[instance] = Wanted(KEY, Unknown(NOW), request_bytes=int(used * 10 ** chance.random()))
            values = [[at, str(used * scale)] for at in range(SPAN.start, NOW + 1, 3600)]
            labels = {"namespace": instance.namespace, "pod": instance.pod, "container": instance.container}
            grid.take(Series(labels, Raw(compact(values))))
        fold = Fold(SETTINGS, NOW)
        problem = count(fold, grid, wanted, is_memory=True, most=2e10)
        assert "another unit" in problem
        assert fold.histories() == {}


def test_a_history_of_another_pods_making_is_nobodys() -> None:
    forged = [({"namespace": "kube-system", "pod": "dns-0", "container": "dns"}, [[NOW, "1"]])]
    loaded = load(lambda _: Answer(matrix(forged)))
    assert loaded.histories == {}


def test_a_hundred_thousand_series_of_one_container_are_one_container() -> None:  # F27
    """And one whose label is a megabyte long is nobody's."""
    labels = {"namespace": "shop", "pod": "web-0", "container": "app"}
    sets = [{**labels, "id": f"/kubepods/{number}"} for number in range(100_000)]
    sets += [{**labels, "pod": "x" * 1_000_000}, labels]
    body = compact({"status": "success", "data": sets})
    with answering(lambda _: Answer(body)) as url:
        client = client_of(url, 30.0)
        found = HistoryLoader(client, SETTINGS).instances(Found(None, Selecting(), None), SPAN)
        client.close()
    assert found == {Instance("shop", "web-0", "app"): 100_001}


def test_an_answer_without_end_is_given_up() -> None:
    body = matrix([])[:-3] + b'{"metric":{"pod":"' + b"x" * 6_000_000
    with pytest.raises(Unusable, match="without a whole series"):
        load(lambda _: Answer(body))


def test_an_answer_to_a_small_question_is_small() -> None:
    with answering(lambda _: Answer(vector([({"job": "x" * 9_000_000}, 1)]))) as url:
        client = client_of(url)
        with pytest.raises(PrometheusError, match="longer than"):
            discover(client, NOW)
        client.close()


def test_an_answer_of_another_shape_to_a_small_question_is_refused() -> None:
    shapes: tuple[Any, ...] = (
        [], {"result": 5}, {"result": [5]}, {"result": [{"metric": 1, "value": [1, "1"]}]}, None, "x"
    )  # fmt: skip
    for data in shapes:
        with answering(lambda _, data=data: Answer(compact({"status": "success", "data": data}))) as url:  # type: ignore[misc]
            client = client_of(url)
            with pytest.raises(Unusable):
                client.numbers("up")
            client.close()


def test_spoiled_answers_are_refused_or_hold_amounts() -> None:
    chance = random.Random(7)
    body = matrix([(one, [[at, "2e8"] for at in range(SPAN.start, NOW + 1, 3600)]) for one in LABELS])
    refused = 0
    with answering(lambda _: Answer(mutated(body, chance))) as url:
        client = client_of(url)
        for _ in range(1000):
            grid = Grid(SPAN, Names(), MOST_BYTES, WANTED)
            try:
                client.range("x", SPAN, grid.take)
            except (Unusable, Refused):
                refused += 1
                continue
            rows = [row for _, row in grid.rows()]
            assert len(rows) <= len(WANTED)
            assert all(((row >= 0) & (row <= MOST_BYTES) | np.isnan(row)).all() for row in rows)
        client.close()
    assert 100 < refused < 900


def test_ten_thousand_spoiled_answers_lose_and_lower_nothing_that_was_known() -> None:
    """What is known of a container stays, whatever is told of its past: every kill, every sample, the highest peak."""
    chance = random.Random(11)
    body = matrix([(one, [[at, "2e8"] for at in range(SPAN.start, NOW + 1, 3600)]) for one in LABELS])
    ours = history_of(SETTINGS, NOW, days=2, cores=0.5, memory=5e8, living_uid="uid-web-0")
    assert ours.memory is not None
    [(peak, weight)] = ours.memory.weights
    taken = 0
    for _ in range(10_000):
        grid, elements = Grid(SPAN, Names(), MOST_BYTES, WANTED), range_answer()
        try:
            found, _ = read(elements, mutated(body, chance), 4096)
        except BadAnswer:
            continue
        for series in found:
            grid.take(series)
        fold = Fold(SETTINGS, NOW)
        unknown = Unknown(NOW, ours.first_sample_at, NOW - 40_000)
        of = [Wanted(KEY, unknown, WANTED[instance].living_uid) for instance in grid.instances]
        fold.add_memory(SPAN, grid.amounts, of)
        for past in fold.histories().values():
            taken += 1
            both = filled(ours, past, SETTINGS.half_life_seconds)
            assert both.memory is not None
            assert both.samples >= ours.samples
            weights = dict(both.memory.weights)
            assert max(weights) >= peak
            assert weights.get(peak, 0.0) >= 0.99 * weight or max(weights) > peak
            assert all(one > 0 for one in weights.values())
    assert taken > 1000
