"""Containers whose doings every node can run: as a shell's script, and as a model for a runtime that only thinks.

Owns the two tellings of one thing, and the pod they go into. All nodes are given the same JSON.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.build import container_json, pod_json
from tests.kubernetes.images import BUSYBOX

Json = dict[str, Any]

MIB: Final = 1024 * 1024
USAGE_MODEL: Final = "elastipod.io/simulated-usage"
_IDLE_BYTES: Final = MIB
_FOREVER: Final = "3600"
# A pipe that nobody reads keeps dd, and the buffer it has filled, for as long as it is wanted.
_PRELUDE: Final = (
    "trap 'exit 143' TERM; d=$(mktemp -d); mkfifo $d/f; exec 3<>$d/f; rm -r $d; "
    "pause() { sleep $1 & wait $!; }; "
    "hold() { dd if=/dev/zero bs=$1M count=1 2>/dev/null >&3 & held=$!; }; "
)


@dataclass(frozen=True)
class Work:
    """What a container does: MiB held from each second on, and its end where it has one."""

    held: tuple[tuple[float, int], ...] = ()
    seconds: float | None = None
    exit_code: int = 0

    @property
    def script(self) -> str:
        """For a shell; what is killed inside ends it with that code."""
        if not self.held:
            seconds = _FOREVER if self.seconds is None else f"{self.seconds:g}"
            return f"trap 'exit 143' TERM; sleep {seconds} & wait $!; exit {self.exit_code}"
        parts, now = [_PRELUDE], 0.0
        for second, mib in self.held:
            if second > now:
                parts.append(f"pause {second - now:g}; kill $held 2>/dev/null; ")
                now = second
            parts.append(f"hold {mib}; " if mib else "held=; ")
        if self.seconds is not None:
            parts.append(f"pause {self.seconds - now:g}; exit {self.exit_code}")
        else:
            parts.append("wait $held; exit $?" if self.held[-1][1] else f"pause {_FOREVER}")
        return "".join(parts)

    @property
    def model(self) -> Json:
        """For the simulated runtime."""
        steps = [[second, 10, mib * MIB + _IDLE_BYTES] for second, mib in self.held]
        if not steps or steps[0][0] > 0:
            steps.insert(0, [0, 10, _IDLE_BYTES])
        model: Json = {"steps": steps, "exitCode": self.exit_code}
        return model if self.seconds is None else model | {"seconds": self.seconds}


IDLE: Final = Work()


def ends(seconds: float, exit_code: int = 0) -> Work:
    return Work(seconds=seconds, exit_code=exit_code)


def holds(mib: int) -> Work:
    return Work(held=((0, mib),))


def grows(mib: int, after: float) -> Work:
    """Nothing at first, then so much."""
    return Work(held=((0, 0), (after, mib)))


def shrinks(mib: int, after: float) -> Work:
    """So much at first, then nothing."""
    return Work(held=((0, mib), (after, 0)))


@dataclass(frozen=True)
class Worker:
    """A container and its model."""

    json: Json
    model: Json


def worker(name: str = "app", *, work: Work = IDLE, **more: Any) -> Worker:
    """A container that does this; amounts and further fields as `container_json` has them."""
    command = ["sh", "-c", work.script]
    made = container_json(name, image=BUSYBOX, command=command, imagePullPolicy="Never", **more)
    return Worker(made, work.model)


def pod(
    name: str, workers: Sequence[Worker], inits: Sequence[Worker] = (), node: str | None = None, **spec: Any
) -> Json:
    """A pod of these, that ends a second after it is asked to."""
    if inits:
        spec["initContainers"] = [one.json for one in inits]
    spec = {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False} | spec
    models = {one.json["name"]: one.model for one in (*inits, *workers)}
    made = pod_json(name, containers=[one.json for one in workers], node=node, **spec)
    made["metadata"]["annotations"] = {USAGE_MODEL: json.dumps(models)}
    return made


def restarts_for(*resources: str) -> list[Json]:
    """A resizePolicy that wants a restart for these."""
    return [{"resourceName": one, "restartPolicy": "RestartContainer"} for one in resources]
