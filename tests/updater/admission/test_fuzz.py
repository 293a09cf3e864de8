"""Whatever is sent gets an answer that allows, or is refused by name; quickly. ELASTIPOD_FUZZ_CASES asks for more."""

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests import build
from tests.updater.admission.world import World, new_pod, review_json
from updater.admission.canary import CANARY
from updater.admission.review import BadReview

CASES: Final = int(os.environ.get("ELASTIPOD_FUZZ_CASES", "2000"))

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 2**63, 1.5, "", "x", "0", "-1", "1e1000000", "9223372036854775808", "0.1Ki", "NaN"),
    *("\u202e\x00\n", "é" * 1000, "a" * 100_000, [], {}, [[]], {"": {}}, [None], {"cpu": None}, {"cpu": "1" * 5000}),
    *("Always", "Guaranteed", '{"app": 1}', "[" * 1000),
)


def _reviews(owner: Any) -> list[Any]:
    """Sound ones, to be spoilt."""
    stated = {"elastipod.io/resources": json.dumps({"app": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}})}
    init = [build.container_json("setup", cpu_limit="1"), build.container_json("proxy", cpu_limit="1")]
    init[1]["restartPolicy"] = "Always"
    both = [build.container_json(cpu="1", memory="1Gi", cpu_limit="1", memory_limit="1Gi")]
    pods = [
        new_pod(owner, initContainers=init, cpu_limit="1"),
        new_pod(owner, containers=both, annotations=stated),
        new_pod(owner, resources={"requests": {"cpu": "1"}}),
    ]
    config_map = {"metadata": {"labels": {CANARY: "ab12"}, "annotations": {"kept": "yes"}}}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    return [*(review_json(pod) for pod in pods), review_json(config_map, resource=resource)]


def _spoilt(review: Any, draw: random.Random) -> bytes:
    text = json.dumps(review)
    for _ in range(draw.randrange(1, 4)):
        text = draw.choice((_with_odd_value, _with_odd_value, _without, _twice, _cut, _flipped))(text, draw)
    return text.encode("utf-8", "surrogatepass")


def _places(node: Any) -> list[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [place for key in keys for place in ((node, key), *_places(node[key]))]


def _changed(text: str, draw: random.Random, change: Callable[[Any, Any], None]) -> str:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return text
    places = _places(whole)
    if places:
        change(*draw.choice(places))
    return json.dumps(whole)


def _with_odd_value(text: str, draw: random.Random) -> str:
    def change(node: Any, key: Any) -> None:
        node[key] = draw.choice(_ODD)

    return _changed(text, draw, change)


def _without(text: str, draw: random.Random) -> str:
    def change(node: Any, key: Any) -> None:
        del node[key]

    return _changed(text, draw, change)


def _twice(text: str, draw: random.Random) -> str:
    def change(node: Any, key: Any) -> None:
        if isinstance(node, list):
            node.append(node[key])
        else:
            node[f"{key}2"] = node[key]

    return _changed(text, draw, change)


def _cut(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text) + 1)] if draw.random() < 0.2 else text


def _flipped(text: str, draw: random.Random) -> str:
    if not text:
        return text
    at = draw.randrange(len(text))
    return text[:at] + chr(draw.choice((0, 34, 44, 58, 91, 93, 123, 125, 255, 0xD800, 0x1F600))) + text[at + 1 :]


async def test_nothing_that_is_sent_makes_it_fail_or_takes_long(tmp_path: Path) -> None:
    draw = random.Random(7)
    async with World(tmp_path, owner_wait_seconds=0.0) as world:
        await world.autoscaler(memory="200Mi", containers=("app", "proxy", "setup"))
        await world.limit_range(max={"cpu": "2"}, min={"cpu": "10m"})
        reviews = _reviews(await world.deployment())
        answered = longest = 0.0
        for _ in range(CASES):
            body = _spoilt(draw.choice(reviews), draw)
            began = time.process_time()
            try:
                told = json.loads(await world.admission.admit(body))
            except BadReview as bad:
                assert str(bad)
            else:
                assert told["response"]["allowed"] is True
                answered += 1
            longest = max(longest, time.process_time() - began)
        assert world.count("admissions_total", outcome="InternalError") == 0
        assert world.count("admissions_total", outcome="SizedAtCreation") > CASES / 20
        assert answered > CASES / 3
        # Of this process' own time, as the machine may be busy with something else.
        assert longest < 1.0
