"""Where spec, node and cgroup stand to one another about one container's limit.

Owns what is known of the three, and whether an older size may still be put in force over what we wrote. Decides nothing
about spikes.
"""

import math

from actuator.spikerules import SpikeRules


class Agreement:
    """One container's. `written_bytes` is what an earlier run wrote and had not seen in the spec, or 0."""

    __slots__ = (
        "_force_seconds", "_is_behind", "_shown_bytes", "_under_way_until", "in_force_bytes", "is_resizing",
        "spec_bytes", "written_bytes",
    )  # fmt: skip

    def __init__(self, rules: SpikeRules, spec_bytes: int, written_bytes: int, now: float) -> None:
        self.spec_bytes = self._shown_bytes = spec_bytes
        """The limit in the spec, as far as we know; and as it was shown last."""
        self.written_bytes = written_bytes
        """The highest limit we wrote; no patch may carry less."""
        self.in_force_bytes: int | None = spec_bytes
        """The limit that the node says is in force; None where it does not say."""
        self.is_resizing = False
        """Whether the node has a resize of the pod still to put in force, be it of its CPU."""
        self._force_seconds = rules.force_seconds
        # An earlier run's request may be under way as well.
        self._under_way_until = now + rules.force_seconds if written_bytes else -math.inf
        self._is_behind = False

    def shown(self, spec_bytes: int, in_force_bytes: int | None, *, is_resizing: bool = False) -> None:
        """What the cluster shows of the container: its spec, and what the node says is in force or has still to be."""
        if spec_bytes < self.written_bytes <= self._shown_bytes:
            # The spec had come up to what we wrote: somebody lowered it since.
            self.written_bytes = spec_bytes
        self.spec_bytes = self._shown_bytes = spec_bytes
        self.in_force_bytes, self.is_resizing = in_force_bytes, is_resizing
        self._is_behind = self._is_behind and is_resizing

    def begun(self, now: float) -> None:
        """A raise is to be asked: what the node has to put in force by now is older than it."""
        self.asked(now)
        self._is_behind = self.is_resizing

    def asked(self, now: float) -> None:
        """A request of ours is under way."""
        self._under_way_until = now + self._force_seconds

    def is_under_way(self, now: float) -> bool:
        """Whether a request of ours may still be put in force, and be an older one than what is written."""
        return self.written_bytes != self.in_force_bytes and now < self._under_way_until

    @property
    def is_node_behind(self) -> bool:
        """Whether the node has an earlier size still to put in force, and would lower with it what we wrote."""
        return self._is_behind or (self.in_force_bytes is not None and self.in_force_bytes < self.written_bytes)
