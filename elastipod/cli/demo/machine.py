"""What stands under the demo's pods: this machine's kernel, or the simulated runtime.

Owns the facts that no API tells: processes, memory and the limit in force, how long a container was held.
"""

from pathlib import Path
from typing import Final, Protocol

from elastipod.localcluster.node.hands import CgroupHands
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.pods import Pod, QosClass

_STALL: Final = "longest stall "


class Machine(Protocol):
    """Answers for the first container of a pod."""

    def process_ids(self, pod: Pod, program: str) -> list[int]:
        """The processes of the pod that run that program."""
        ...

    def memory(self, pod: Pod) -> tuple[int, int]:
        """Memory in use and the limit in force, in bytes; zeros where there is none."""
        ...

    def longest_hold_ms(self, pod: Pod, log: str) -> float | None:
        """The longest time that the container was kept waiting."""
        ...

    def is_complete(self, pod: Pod, log: str, last_words: str) -> bool:
        """Whether a pod that is over did all its work."""
        ...


class Kernel:
    """Real processes in real cgroups."""

    def __init__(self, hands: CgroupHands) -> None:
        self._hands = hands

    def process_ids(self, pod: Pod, program: str) -> list[int]:
        try:
            return sorted(pid for pid in self._hands.processes(pod_group(pod)) if program in _command_line(pid))
        except OSError:
            return []

    def memory(self, pod: Pod) -> tuple[int, int]:
        identity = _container_id(pod)
        if not identity:
            return 0, 0
        group = f"{pod_group(pod)}/{identity}"
        try:
            return self._hands.usage(group).memory_bytes, self._hands.read(group).memory_limit_bytes or 0
        except OSError:
            return 0, 0

    def longest_hold_ms(self, _pod: Pod, log: str) -> float | None:
        """What the program itself measured."""
        for line in log.splitlines():
            if line.startswith(_STALL):
                return float(line.removeprefix(_STALL).split()[0])
        return None

    def is_complete(self, _pod: Pod, log: str, last_words: str) -> bool:
        return last_words in log


class Thought:
    """Simulated containers: they print nothing, and their work is to live their model to its end."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime
        self._longest: dict[str, float] = {}

    def process_ids(self, pod: Pod, _program: str) -> list[int]:
        found = self._runtime.process_id(_container_id(pod))
        return [found] if found else []

    def memory(self, pod: Pod) -> tuple[int, int]:
        identity = _container_id(pod)
        usage, limits = self._runtime.usage(identity), self._runtime.limits(identity)
        return usage.memory_bytes if usage else 0, (limits.memory_limit_bytes or 0) if limits else 0

    def longest_hold_ms(self, pod: Pod, _log: str) -> float | None:
        for identity, since, until in self._runtime.holds():
            if until is not None:
                self._longest[identity] = max(self._longest.get(identity, 0.0), until - since)
        return round(self._longest.get(_container_id(pod), 0.0) * 1000, 3)

    def is_complete(self, pod: Pod, _log: str, _last_words: str) -> bool:
        ended = pod.containers[0].termination
        return ended is not None and ended.exit_code == 0


def pod_group(pod: Pod) -> str:
    """A pod's cgroup below the node's root, as a kubelet with the cgroupfs driver lays it out."""
    qos = "" if pod.qos_class is QosClass.GUARANTEED else f"{pod.qos_class.lower()}/"
    return f"kubepods/{qos}pod{pod.uid}"


def _container_id(pod: Pod) -> str:
    return pod.containers[0].container_id.partition("://")[2] if pod.containers else ""


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
