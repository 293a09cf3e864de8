"""What a process reads of its size when it starts is recognised from its environment and its command."""

import json
from typing import Any

import pytest

from elastipod.kube.decoding import BadObject
from elastipod.kube.podrows import decode_pod
from elastipod.pods import StartSize
from elastipod.startsizes import Variable, start_sizes
from tests import build

MI = 1024**2


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("java -Xmx512m -jar app.jar", StartSize("memory", "argument -Xmx", 512 * MI)),
        ("java -Xmx512m -Xmx1g Main", StartSize("memory", "argument -Xmx", 1024 * MI)),
        ("/usr/bin/java -XX:MaxHeapSize=1073741824 Main", StartSize("memory", "argument -XX:MaxHeapSize", 1024 * MI)),
        ("java -XX:MaxRAMPercentage=75.0 Main", StartSize("memory", "argument -XX:MaxRAMPercentage")),
        ("java -jar app.jar", StartSize("memory", "program java")),
        ("/opt/jdk/bin/java Main", StartSize("memory", "program java")),
        ("node --max-old-space-size=400 server.js", StartSize("memory", "argument --max-old-space-size", 400 * MI)),
        ("node --max_old_space_size 400 a.js", StartSize("memory", "argument --max_old_space_size", 400 * MI)),
        ("node server.js", StartSize("memory", "program node")),
    ],
)
def test_a_runtimes_memory_is_recognised_in_its_command_r15(command: str, told: StartSize) -> None:
    assert start_sizes((), tuple(command.split())) == (told,)
    assert start_sizes((), ("/bin/sh", "-c", f"exec {command}")) == (told,)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("GOMEMLIMIT", "400MiB", StartSize("memory", "env GOMEMLIMIT", 400 * MI)),
        ("GOMEMLIMIT", "1048576", StartSize("memory", "env GOMEMLIMIT", MI)),
        ("GOMAXPROCS", "4", StartSize("cpu", "env GOMAXPROCS", 4000)),
        ("JAVA_TOOL_OPTIONS", "-Dx=y -Xmx2G", StartSize("memory", "env JAVA_TOOL_OPTIONS -Xmx", 2048 * MI)),
        (
            "JAVA_OPTS",
            "-XX:ActiveProcessorCount=2",
            StartSize("cpu", "env JAVA_OPTS -XX:ActiveProcessorCount", 2000),
        ),
        (
            "NODE_OPTIONS",
            "--max-old-space-size=512",
            StartSize("memory", "env NODE_OPTIONS --max-old-space-size", 512 * MI),
        ),
    ],
)
def test_a_runtimes_size_is_recognised_in_its_environment_r16(name: str, value: str, told: StartSize) -> None:
    assert start_sizes((Variable(name, value),), ()) == (told,)


@pytest.mark.parametrize(
    ("name", "value", "command"),
    [
        ("GOMEMLIMIT", "off", "server"),
        ("GOMEMLIMIT", "lots", "server"),
        ("GOMAXPROCS", "-1", "server"),
        ("GOMAXPROCS", "9" * 40, "server"),
        ("JAVA_OPTS", "-Dheap=-Xmx512m", "server"),
        ("OTHER", "-Xmx512m", "server --note=java"),
        ("OTHER", "", "kubectl get node n1"),
        ("OTHER", "", "javac Main.java"),
        ("OTHER", "", "node-exporter --web"),
        ("OTHER", "", ""),
    ],
)
def test_what_only_looks_like_a_runtimes_size_is_none(name: str, value: str, command: str) -> None:
    assert start_sizes((Variable(name, value),), tuple(command.split())) == ()


def test_a_stated_heap_replaces_the_guess_that_the_runtime_follows_its_limit() -> None:
    options = Variable("JAVA_TOOL_OPTIONS", "-Xmx256m")
    assert [one.amount for one in start_sizes((options,), ("java", "-jar", "app.jar"))] == [256 * MI]


def of_pod(**container: Any) -> tuple[StartSize, ...]:
    pod = build.pod_json(containers=[build.container_json(**container)])
    return decode_pod(json.dumps(pod).encode()).containers[0].start_sizes


def handed_down(resource: str, **more: str) -> list[dict[str, Any]]:
    return [{"name": "SIZE", "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}]


def test_a_size_that_the_api_hands_down_is_recognised_r15() -> None:
    assert of_pod(env=handed_down("limits.memory")) == (StartSize("memory", "env SIZE"),)
    assert of_pod(env=handed_down("requests.cpu", containerName="app")) == (StartSize("cpu", "env SIZE"),)


@pytest.mark.parametrize(
    "env", [handed_down("limits.memory", containerName="other"), handed_down("limits.storage"), []]
)
def test_what_is_handed_down_of_something_else_is_none(env: list[dict[str, Any]]) -> None:
    assert of_pod(env=env) == ()


def test_command_and_arguments_count_together() -> None:
    found = of_pod(command=["java"], args=["-Xmx100m", "Main"])
    assert found == (StartSize("memory", "argument -Xmx", 100 * MI),)


def test_a_long_command_is_read_and_not_kept() -> None:
    assert start_sizes((), ("java", "-Xmx100m", "x" * 100_000))[0].amount == 100 * MI


def test_an_environment_of_the_wrong_kind_is_an_object_that_can_not_be_read() -> None:
    pod = build.pod_json("web", containers=[build.container_json("app", env=None)])
    assert decode_pod(json.dumps(pod).encode()).containers[0].start_sizes == ()
    oddities: tuple[Any, ...] = ({}, 5, [{"name": 5}], [{"name": "A", "valueFrom": []}])
    for odd in oddities:
        pod["spec"]["containers"][0]["env"] = odd
        with pytest.raises(BadObject):
            decode_pod(json.dumps(pod).encode())
