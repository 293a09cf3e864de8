"""A node's hands: what a local cluster's node needs of cgroups, done on real ones.

Owns the reading of a group's limits, usage and kills out of both versions' files. Fulfils
`elastipod.localcluster.node.hands.CgroupHands`.
"""

import math
from typing import Final

from actuator.cgroup import limit_told, limit_writes, millicores_of_shares, shares_of_weight
from actuator.cgrouptree import CgroupTree
from elastipod.localcluster.node.hands import GroupLimits, GroupUsage

_NANO: Final = 1_000_000_000
_MICRO: Final = 1_000_000


class NodeHands(CgroupTree):
    """CgroupTree with a group's limits, usage and kills."""

    @property
    def enforcement(self) -> str:
        return f"cgroup v{self.version}"

    def apply(self, group: str, limits: GroupLimits) -> None:
        """Put all three in force; what is in force already is not written again."""
        self.write_all(limit_writes(self.version, group, self.read(group), limits))

    def read(self, group: str) -> GroupLimits:
        """What is in force, in the kubelet's reading."""
        memory = self.memory_limit(group)
        if self.version == 1:
            shares = self.number(group, "cpu.shares") or 0
            quota, period = self.number(group, "cpu.cfs_quota_us"), self.number(group, "cpu.cfs_period_us")
        else:
            shares = shares_of_weight(self.number(group, "cpu.weight") or 1)
            first, second = self.text(group, "cpu.max").split()
            quota, period = (None if first == "max" else int(first)), int(second)
        limit = quota * 1000 // period if quota is not None and quota > 0 and period else None
        return GroupLimits(millicores_of_shares(shares), limit, memory)

    def memory_limit(self, group: str) -> int | None:
        """The memory limit; None where there is none."""
        return limit_told(self.number(group, "memory.max" if self.version == 2 else "memory.limit_in_bytes"))

    def usage(self, group: str) -> GroupUsage:
        stat = numbers(self.text(group, "memory.stat"))
        if self.version == 2:
            memory = self.number(group, "memory.current") or 0
            inactive = stat.get("inactive_file", 0)
            cpu = numbers(self.text(group, "cpu.stat")).get("usage_usec", 0) / _MICRO
        else:
            memory = self.number(group, "memory.usage_in_bytes") or 0
            inactive = stat.get("total_inactive_file", 0)
            cpu = (self.number(group, "cpuacct.usage") or 0) / _NANO
        return GroupUsage(cpu, memory, max(memory - inactive, 0))

    def oom_kills(self, group: str) -> int:
        """Processes of this group that the kernel killed for want of memory."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        return numbers(self.text(group, file)).get("oom_kill", 0)

    def pressure(self, group: str) -> float:
        """The share of the last ten seconds in which some task waited for memory; 0 where the kernel does not say."""
        if self.version == 1:
            return 0.0
        try:
            text = self.text(group, "memory.pressure")
        except OSError:
            return 0.0
        return pressure(text)


def numbers(text: str) -> dict[str, int]:
    """The `name number` lines of a file."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if number.isdigit():
            found[name] = int(number)
    return found


def pressure(text: str) -> float:
    """The avg10 of PSI's `some` line, as a fraction."""
    for word in text.split("\n", 1)[0].split():
        if word.startswith("avg10="):
            value = float(word.removeprefix("avg10="))
            return value / 100 if math.isfinite(value) else 0.0
    return 0.0
