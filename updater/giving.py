"""Room made for those who wait: a resize without room, a pod that no node takes.

Owns which waiting one is helped when, on which node, and what donors are owed. Who gives what is room.py's matter; the
donors' own changes go through the same attempts as all others.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from elastipod.fit import desired, pod_sum
from elastipod.placement import may_run
from elastipod.pods import Pod
from elastipod.policy import Ceiling
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.facts import Urgency
from updater.fleet import Fleet
from updater.ledger import lack
from updater.room import DonorRules, Gift, choose_node, make_room, needs_back
from updater.sizes import Size, size_of
from updater.usage import UsageBook
from updater.wishes import Wish

_MOST_NODES: Final = 8
_AGAIN_SECONDS: Final = 60.0
_LOOK_AGAIN_SECONDS: Final = 10.0


@dataclass(slots=True)
class Debt:
    """What a donor had before it gave."""

    uid: str
    had: dict[str, Size]
    since: float
    wanted_back: dict[str, Size] = field(default_factory=dict)
    """What it needs now."""


@dataclass(frozen=True, slots=True)
class Need:
    """How much room one waiting pod needs on a node."""

    key: str
    node: str
    room: Resources


class Giving:
    """Donors, and what they are owed."""

    def __init__(self, fleet: Fleet, usage: UsageBook, rules: DonorRules, ceiling: Ceiling) -> None:
        self._fleet = fleet
        self._usage = usage
        self._rules = rules
        self._ceiling = ceiling
        self.debts: dict[str, Debt] = {}
        self._wishes: dict[str, Wish] = {}
        self._wished_at: dict[str, float] = {}
        self._not_before: dict[str, float] = {}

    def wish(self, key: str) -> Wish | None:
        """What a donor is to become now: smaller for another's sake, or what it had."""
        return self._wishes.get(key)

    def given(self, key: str) -> Mapping[str, Resources]:
        """The requests that a donor went down to, by container."""
        debt, pod = self.debts.get(key), self._fleet.pods.get(key)
        if debt is None or pod is None:
            return {}
        return {one.name: one.requests for one in pod.containers if one.name in debt.had}

    def forget(self, key: str) -> None:
        """The pod is gone."""
        self.debts.pop(key, None)
        self._wishes.pop(key, None)
        self._not_before.pop(key, None)

    def settled(self, key: str) -> None:
        """A wish was fulfilled, or can not be; a donor that has all it had is owed nothing any more."""
        self._wishes.pop(key, None)
        debt, pod = self.debts.get(key), self._fleet.pods.get(key)
        if debt is None or pod is None:
            return
        for name, had in list(debt.had.items()):
            container = pod.container(name)
            if container is None or not _is_less(size_of(container), had):
                debt.had.pop(name)
        debt.wanted_back.clear()
        if not debt.had:
            del self.debts[key]

    def expire(self, now: float) -> None:
        """A wish that found no fulfilment in a while is dropped."""
        for key in [key for key in self._wishes if now - self._wished_at.get(key, now) > _AGAIN_SECONDS]:
            self.settled(key)

    def tried(self, key: str, now: float) -> None:
        """No donors were found for a waiting pod; it is looked at again a little later."""
        self._not_before[key] = now + _LOOK_AGAIN_SECONDS

    def need_of_resize(self, pod: Pod, more: tuple[Resources, Resources], now: float) -> Need | None:
        """What a waiting resize lacks on its node; `more` in the scheduler's and in the kubelet's view."""
        room = self._fleet.ledger.room(pod.node_name)
        if room is None or now < self._not_before.get(pod.key, 0.0):
            return None
        lacking = lack(room, *more)
        return Need(pod.key, pod.node_name, lacking) if lacking.cpu or lacking.memory else None

    def needs_of_pending(self, now: float) -> list[list[Need]]:
        """For each pending pod that was not helped lately, the nodes worth trying, best first."""
        found: list[list[Need]] = []
        waiting = [self._fleet.pods[key] for key in self._fleet.pending if now >= self._not_before.get(key, 0.0)]
        for pod in sorted(waiting, key=lambda one: (-one.priority, one.created_at, one.key)):
            wanted, lacks = pod_sum(pod, desired), {}
            for name, node in self._fleet.ledger.nodes.items():
                room = self._fleet.ledger.room(name)
                if room is not None and may_run(pod, node, len(self._fleet.ledger.keys_on(name))):
                    lacks[name] = lack(room, wanted, wanted)
            if any(not (one.cpu or one.memory) for one in lacks.values()):
                # A node has the room: what keeps the pod off is not ours.
                continue
            found.append([Need(pod.key, node, lacks[node]) for node in choose_node(lacks)[:_MOST_NODES]])
        return [needs for needs in found if needs]

    def donors(self, need: Need, busy: Collection[str]) -> list[Pod]:
        """The pods of the node that may give: willing, not waiting themselves, not under way."""
        return [
            self._fleet.pods[key]
            for key in sorted(self._fleet.ledger.keys_on(need.node))
            if key != need.key
            and key not in busy
            and key not in self._wishes
            and self._fleet.pods[key].is_running
            and self._fleet.may_donate(key, self._ceiling)
        ]

    def promise(self, need: Need, donors: list[Pod], now: float) -> list[Gift]:
        """Take gifts for a need; nothing where they are not enough. The donors' wishes are set."""
        gifts = make_room(need.room, donors, self._usage.all(), now, self._rules) or []
        for gift in gifts:
            pod = self._fleet.pods[gift.key]
            goal = dict(gift.sizes)
            self._wishes[gift.key] = Wish(goal, Reason.DONATED, Urgency.STARVED, 1.0)
            self._wished_at[gift.key] = now
            debt = self.debts.setdefault(gift.key, Debt(pod.uid, {}, now))
            for name in goal:
                container = pod.container(name)
                if container is not None:
                    debt.had.setdefault(name, size_of(container))
            self._fleet.dirty.add(gift.key)
        if gifts:
            self._not_before[need.key] = now + _AGAIN_SECONDS
        return gifts

    def recover(self, now: float) -> None:
        """Debts of an earlier life: donors that nobody else sizes, and that have less than their template says."""
        for key, pod in self._fleet.pods.items():
            had = {
                one.name: size
                for one in pod.sized_containers
                if (size := self._fleet.template(pod).get(one.name)) is not None and _is_less(size_of(one), size)
            }
            is_unsized = had and key not in self.debts and pod.is_running and self._fleet.claim(key)[0] is None
            if is_unsized and self._fleet.may_donate(key, self._ceiling):
                self.debts[key] = Debt(pod.uid, had, now)

    def recall(self, busy: Collection[str]) -> list[str]:
        """Donors that need back what they gave, most important first; their wishes are set."""
        found: list[Pod] = []
        for key, debt in self.debts.items():
            pod = self._fleet.pods.get(key)
            if pod is None or key in busy:
                continue
            back = needs_back(pod, debt.had, self._usage.of(key), self._rules)
            if back and back != debt.wanted_back:
                debt.wanted_back = back
                self._wishes[key] = Wish(dict(back), Reason.RESTORED, Urgency.OWED, 1.0)
                # A debt is not dropped before it is paid.
                self._wished_at[key] = float("inf")
                self._fleet.dirty.add(key)
                found.append(pod)
        return [pod.key for pod in sorted(found, key=lambda one: (-one.priority, one.key))]


def _is_less(size: Size, had: Size) -> bool:
    return size.requests.cpu < had.requests.cpu or size.requests.memory < had.requests.memory
