"""The five acts of the demo.

Owns what happens in each and which facts it ends with. Where facts come from is facts.py's matter, the words' form
story.py's.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from elastipod.cli.demo.facts import NotSeenError, Observer
from elastipod.cli.demo.manifests import NAMESPACE, autoscaler, command, container, deployment, job
from elastipod.cli.demo.story import Story
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import NotFound
from elastipod.kube.listing import list_rows
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, ELASTIC_NODES, JOBS, ResourceType
from elastipod.kube.rows import decode_elastic_node
from elastipod.pods import Pod
from elastipod.quantities import format_cpu, show_memory

NODE_CPU: Final = 2000
"""Millicores that the demo's node says it has."""
_READS: Final = 20_000
_LIMIT: Final = "96Mi"
_LEAP_MIB: Final = 200
_CALM_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02
_ASKED_SECONDS: Final = 3.0
"""After so long a request would be in force, had it room."""
_START_SECONDS: Final = 20.0


class Stage(Protocol):
    """What an act plays on."""

    story: Story
    clock: Clock
    connection: Connection
    observer: Observer
    enforcement: str
    folder: str
    """Where the demo's programs may write."""

    async def resize(self, name: str, cpu: str) -> None:
        """What a person does: `elastipod resize NAME --cpu CPU`."""
        ...


async def create(stage: Stage, resource: ResourceType, body: dict[str, Any]) -> None:
    """Create one object."""
    await stage.connection.create(resource, NAMESPACE, msgspec.json.encode(body))


async def spike_alone(stage: Stage) -> dict[str, Any]:
    """The genome job without elastipod."""
    stage.story.tell(
        f"A genome job starts: one process, no checkpoint, memory limit {_LIMIT}. No part of elastipod runs."
    )
    await create(stage, JOBS, _genome("genome-alone", {}))
    pod = await stage.observer.until_ended("genome-alone", 30)
    ended = pod.containers[0].termination
    stage.story.bad(
        f"Near its end it needs {_LEAP_MIB} MiB more at once. It is over: {ended.reason if ended else pod.phase}, "
        f"exit code {ended.exit_code if ended else '?'}; all its work is lost."
    )
    return _end_facts(pod)


async def until_protected(stage: Stage) -> None:
    """Return once an actuator has told that it watches the node."""
    deadline = stage.clock.monotonic() + _START_SECONDS
    while stage.clock.monotonic() < deadline:
        listed = await list_rows(stage.connection, ELASTIC_NODES, decode_elastic_node)
        if any(node.status is not None and node.status.spike_protection for node in listed):
            return
        await stage.clock.sleep(_LOOK_SECONDS)
    raise NotSeenError(f"waited {_START_SECONDS:.0f} s in vain for the actuator")


async def spike_with_elastipod(stage: Stage) -> dict[str, Any]:
    """The same job with elastipod."""
    stage.story.tell("The same job again, its memory watched by the actuator.")
    await create(stage, JOBS, _genome("genome", {"elastipod.io/memory-spike": "Pause"}))
    pod = await stage.observer.until_running("genome")
    before = pod.containers[0]
    machine = stage.observer.machine
    pids_before = machine.process_ids(pod, "genome.py")
    stage.story.tell(f"It runs as process {_shown_pids(pids_before)} and works.")
    memory: list[tuple[int, int]] = []
    pids_after: list[int] = []
    while (now := stage.observer.pod("genome")) is not None and not now.is_terminal:
        memory.append(machine.memory(now))
        if memory[-1][1] > memory[0][1]:
            pids_after = machine.process_ids(now, "genome.py") or pids_after
        await stage.clock.sleep(_LOOK_SECONDS)
        if len(memory) > 60 / _LOOK_SECONDS:
            break
    ended = await stage.observer.until_ended("genome", 5)
    log = await stage.observer.log(ended)
    after = ended.containers[0]
    stage.story.picture([one for one in memory if one != (0, 0)])
    facts = {
        **_end_facts(ended),
        "container_id_before": before.container_id,
        "container_id_after": after.container_id,
        "process_ids_before": pids_before,
        "process_ids_after": pids_after,
        "memory_limit_before": before.limits.memory,
        "memory_limit_after": after.limits.memory,
        "memory_limit_in_force_at_most": max((limit for _, limit in memory), default=0),
        "memory_used_at_most": max((used for used, _ in memory), default=0),
        "longest_hold_ms": machine.longest_hold_ms(ended, log),
        "output_complete": machine.is_complete(ended, log, f"complete {_READS} reads"),
    }
    if ended.phase == "Succeeded":
        stage.story.good(
            f"Memory leapt; the limit went from {show_memory(before.limits.memory)} to "
            f"{show_memory(after.limits.memory)}. {'Same' if pids_after == pids_before else 'Another'} process, "
            f"exit code {facts['exit_code']}, output {'complete' if facts['output_complete'] else 'incomplete'}."
        )
    else:
        stage.story.bad(f"It did not survive: {ended.phase}.")
    return facts


async def oversized_service(stage: Stage) -> None:
    """Start the service of act b; it is measured from now on."""
    web = container(
        "web",
        command("service.py", "40", "0.04"),
        {"cpu": "1", "memory": "768Mi"},
        {"cpu": "1500m", "memory": "1Gi"},
    )
    await create(stage, DEPLOYMENTS, deployment("web", web, {}, {"cpu": "40m", "memory": "50Mi"}))
    await create(stage, AUTOSCALERS, autoscaler("web"))


async def service_shrinks(stage: Stage, before: Pod) -> dict[str, Any]:
    """The service goes down to what it uses."""
    has = before.containers[0]
    machine, began = stage.observer.machine, stage.clock.monotonic()
    pids_before = machine.process_ids(before, "service.py")
    stage.story.tell(
        f"A service reserves {format_cpu(has.requests.cpu)} of CPU and {show_memory(has.requests.memory)}, "
        "and uses a twentieth of it."
    )

    def look() -> Pod | None:
        pod = stage.observer.pod("web")
        if pod is None or pod.uid != before.uid:
            return pod
        actual = pod.containers[0].actual_requests
        small = actual is not None and actual.cpu <= has.requests.cpu // 8 and actual.memory <= has.requests.memory // 8
        return pod if small else None

    after = await stage.observer.until("the service shrinks", 60, look)
    now = after.containers[0]
    stage.story.good(
        f"Now it holds {format_cpu(now.requests.cpu)} and {show_memory(now.requests.memory)}; "
        f"restarts {now.restart_count}, same container."
    )
    return {
        "kills": 0 if now.last_termination is None else 1,
        "restarts": now.restart_count,
        "same_container": now.container_id == has.container_id and after.uid == before.uid,
        "process_ids_before": pids_before,
        "process_ids_after": machine.process_ids(after, "service.py"),
        "seconds_waited": round(stage.clock.monotonic() - began, 2),
        **_sizes(before, after),
    }


async def pending_pod_runs(stage: Stage) -> dict[str, Any]:
    """Neighbours give what they do not use; one gets it back. However it ends, they make room for the next act."""
    try:
        return await _room_given_and_back(stage)
    finally:
        for name in ("cache", "index"):
            with suppress(NotFound):
                await stage.connection.delete(DEPLOYMENTS, NAMESPACE, name)


async def _room_given_and_back(stage: Stage) -> dict[str, Any]:
    switch = f"{stage.folder}/busy"
    for name in ("cache", "index"):
        spec = container(name, command("service.py", "20", "0.05", switch), {"cpu": "900m", "memory": "64Mi"})
        # Where pods are simulated, the cache becomes busy by itself.
        usage = (
            {"steps": [[0, "50m", "30Mi"], [21, "800m", "30Mi"]]}
            if name == "cache"
            else {"cpu": "50m", "memory": "30Mi"}
        )
        await create(stage, DEPLOYMENTS, deployment(name, spec, {"elastipod.io/donate": "true"}, usage))
    donors = [await stage.observer.until_running(name) for name in ("cache", "index")]
    held = {pod.name: pod.containers[0].requests.cpu for pod in donors}
    machine = stage.observer.machine
    pids_before = {pod.name: machine.process_ids(pod, "service.py") for pod in donors}
    stage.story.tell("Two neighbours reserve 0.9 cores each and use 0.05. The node is full by requests.")
    spec = container("report", command("batch.py", "6"), {"cpu": "900m", "memory": "32Mi"})
    await create(stage, JOBS, job("report", spec, {}, {"cpu": "20m", "memory": "12Mi", "seconds": 6}))
    created = stage.clock.monotonic()
    await stage.observer.until("the report is seen as pending", 10, lambda: _pending(stage, "report"))
    stage.story.tell("A report wants 0.9 cores: no node has them free, so it is pending.")
    report = await stage.observer.until_running("report", 60)
    waited = stage.clock.monotonic() - created
    gave = {pod.name: _cpu_now(stage, pod) for pod in donors}
    moved = [name for name in gave if gave[name] != held[name]]
    stage.story.good(
        f"After {waited:.1f} s it runs: "
        + ", ".join(f"{name} went from {format_cpu(held[name])} to {format_cpu(gave[name])}" for name in moved)
    )
    ended = await stage.observer.until_ended(report.labels["app"], 30)
    await _switch_on(switch)
    began = stage.clock.monotonic()
    stage.story.tell("The report is done. Now the neighbours become busy and need what they gave.")
    short = [pod for pod in donors if gave[pod.name] < held[pod.name]]

    def look() -> bool | None:
        return any(_cpu_now(stage, pod) >= held[pod.name] for pod in short) or None

    await stage.observer.until("a donor gets its own back", 60, look)
    back = stage.clock.monotonic() - began
    stage.story.good(f"After {back:.1f} s a donor has its own back.")
    now = [pod for name in ("cache", "index") if (pod := stage.observer.pod(name)) is not None]
    pids_after = {pod.name: machine.process_ids(pod, "service.py") for pod in now}
    return {
        "kills": sum(1 for pod in now if pod.containers[0].last_termination),
        "restarts": sum(pod.containers[0].restart_count for pod in now),
        "process_ids_before": pids_before,
        "process_ids_after": pids_after,
        "seconds_waited": round(waited, 2),
        "seconds_until_given_back": round(back, 2),
        "pending_pod_exit_code": ended.containers[0].termination.exit_code if ended.containers[0].termination else None,
        "cpu_requests_before": held,
        "cpu_requests_given": gave,
        "cpu_requests_after": {pod.name: pod.containers[0].requests.cpu for pod in now},
    }


async def resize_waits(stage: Stage) -> dict[str, Any]:
    """A resize without room waits for a neighbour's end."""
    spec = container("batch", command("batch.py", "6"), {"cpu": "1600m", "memory": "32Mi"})
    await create(
        stage,
        JOBS,
        job("batch", spec, {"elastipod.io/donate": "false"}, {"cpu": "20m", "memory": "12Mi", "seconds": 6}),
    )
    await stage.observer.until_running("batch")
    before = await stage.observer.until_running("web")
    free = NODE_CPU - sum(pod.containers[0].requests.cpu for pod in stage.observer.all_pods() if not pod.is_terminal)
    wanted = before.containers[0].requests.cpu + max(free, 0) + 300
    stage.story.tell(
        f"A person asks for {format_cpu(wanted)} for the service; the node has {format_cpu(max(free, 0))} free."
    )
    pids_before = stage.observer.machine.process_ids(before, "service.py")
    asked_at = stage.clock.monotonic()
    asking = asyncio.create_task(stage.resize("deployment/web", format_cpu(wanted)))
    try:
        await stage.clock.sleep(_ASKED_SECONDS)
        was_waiting = _cpu_now(stage, before) < wanted
        ended = await stage.observer.until_ended("batch", 40)
        at = stage.clock.monotonic()
        stage.story.tell("It waits. Its neighbour ends.")

        def look() -> bool | None:
            return _cpu_now(stage, before) >= wanted or None

        await stage.observer.until("the waiting resize happens", 30, look)
        now = stage.clock.monotonic()
        waited, waited_in_all = now - at, now - asked_at
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
    after = stage.observer.pod("web")
    assert after is not None
    stage.story.good(
        f"{waited:.1f} s after the neighbour's end the service has it. Restarts: {after.containers[0].restart_count}."
    )
    return {
        "kills": 0 if after.containers[0].last_termination is None else 1,
        "restarts": after.containers[0].restart_count,
        "process_ids_before": pids_before,
        "process_ids_after": stage.observer.machine.process_ids(after, "service.py"),
        "was_waiting": was_waiting,
        "seconds_waited": round(waited_in_all, 2),
        "seconds_waited_after_room": round(waited, 2),
        "neighbour_exit_code": ended.containers[0].termination.exit_code if ended.containers[0].termination else None,
        **_sizes(before, after),
        "same_container": after.containers[0].container_id == before.containers[0].container_id,
    }


def _genome(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    argv = command("genome.py", str(_READS), str(_LEAP_MIB), str(_CALM_SECONDS))
    spec = container(name, argv, {"cpu": "200m", "memory": "64Mi"}, {"cpu": "2", "memory": _LIMIT})
    leap = 40 + _LEAP_MIB
    usage = {"steps": [[0, "400m", "40Mi"], [_CALM_SECONDS, "900m", f"{leap}Mi"]], "seconds": _CALM_SECONDS + 3}
    return job(name, spec, annotations, usage)


def _end_facts(pod: Pod) -> dict[str, Any]:
    one = pod.containers[0]
    ended = one.termination
    return {
        "kills": int(ended is not None and ended.is_oom_kill),
        "restarts": one.restart_count,
        "exit_code": ended.exit_code if ended else None,
        "reason": ended.reason if ended else "",
        "memory_limit": one.limits.memory,
    }


def _sizes(before: Pod, after: Pod) -> dict[str, Any]:
    had, has = before.containers[0], after.containers[0]
    return {
        "cpu_request_before": had.requests.cpu,
        "cpu_request_after": has.requests.cpu,
        "memory_request_before": had.requests.memory,
        "memory_request_after": has.requests.memory,
        "cpu_limit_before": had.limits.cpu,
        "cpu_limit_after": has.limits.cpu,
        "memory_limit_before": had.limits.memory,
        "memory_limit_after": has.limits.memory,
    }


def _pending(stage: Stage, app: str) -> Pod | None:
    pod = stage.observer.pod(app)
    return pod if pod and pod.is_unschedulable else None


def _cpu_now(stage: Stage, pod: Pod) -> int:
    """The CPU request in force."""
    now = stage.observer.pod(pod.labels["app"])
    if now is None:
        return 0
    actual = now.containers[0].actual_requests
    return min(now.containers[0].requests.cpu, actual.cpu if actual is not None else 0)


def _shown_pids(pids: list[int]) -> str:
    return ", ".join(str(pid) for pid in pids)


async def _switch_on(path: str) -> None:
    await asyncio.to_thread(_touch, path)


def _touch(path: str) -> None:
    with open(path, "x", encoding="ascii"):
        pass
