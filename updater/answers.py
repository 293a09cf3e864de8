"""What was answered before, so that it is not asked again.

Owns the memory of a pod's requests: how many lately, what a node called infeasible, what the API server refused, how
long to hold back, and whether somebody else changed what we wrote.
"""

from collections.abc import Mapping

from elastipod.pods import Pod
from elastipod.reasons import Reason
from updater.facts import Urgency
from updater.plan import Resize
from updater.sizes import Size, size_of

Shape = tuple[tuple[str, Size], ...]


def shape(sizes: Mapping[str, Size]) -> Shape:
    """Sizes as a key."""
    return tuple(sorted(sizes.items()))


class Answers:
    """What is remembered of each pod; all of it can be lost without harm."""

    def __init__(self, most_per_minute: int = 2) -> None:
        self._most_per_minute = most_per_minute
        self._sent_at: dict[str, list[float]] = {}
        self._unanswered: dict[str, Resize] = {}
        self._wrote: dict[str, tuple[str, dict[str, Size]]] = {}
        self._infeasible: dict[str, dict[tuple[str, Shape], float]] = {}
        self._refused: dict[str, dict[Shape, tuple[float, Reason]]] = {}
        self._held_back: dict[str, tuple[float, Reason]] = {}
        self._stood_off: dict[str, float] = {}

    def sent(self, key: str, uid: str, sizes: dict[str, Size], now: float) -> None:
        """A request was accepted, and all containers have these sizes since."""
        times = self._sent_at.setdefault(key, [])
        times.append(now)
        del times[: -self._most_per_minute]
        self._unanswered.pop(key, None)
        self._wrote[key] = (uid, sizes)
        self._held_back.pop(key, None)

    def unanswered(self, resize: Resize) -> None:
        """No answer came: whether it was accepted, the pod itself will show."""
        self._unanswered[resize.key] = resize

    def settle(self, pod: Pod, now: float) -> None:
        """Know an accepted request whose answer was lost for our own."""
        resize = self._unanswered.get(pod.key)
        if resize is None or resize.uid != pod.uid:
            return
        if all(size_of(one) == resize.sizes[one.name] for one in pod.containers if one.name in resize.sizes):
            self.sent(pod.key, pod.uid, {one.name: size_of(one) for one in pod.containers}, now)

    def sent_at(self, key: str) -> float | None:
        """When the last request for a pod was accepted."""
        times = self._sent_at.get(key)
        return times[-1] if times else None

    def pause_until(self, key: str, now: float) -> float | None:
        """When the pod may be asked again, where it was asked too often in the last minute."""
        recent = [at for at in self._sent_at.get(key, ()) if now - at < 60.0]
        return recent[-self._most_per_minute] + 60.0 if len(recent) >= self._most_per_minute else None

    def infeasible(self, resize: Resize, node: str, until: float) -> None:
        """This size will not fit this node; another node, another size or a larger node may do."""
        self._infeasible.setdefault(resize.uid, {})[(node, shape(resize.sizes))] = until

    def refused(self, resize: Resize, reason: Reason, until: float) -> None:
        """The API server refused this shape for good."""
        self._refused.setdefault(resize.uid, {})[shape(resize.sizes)] = (until, reason)

    def hold_back(self, key: str, until: float, reason: Reason) -> None:
        """Nothing is asked of the pod before an instant."""
        self._held_back[key] = (until, reason)

    def stand_off(self, key: str, until: float) -> None:
        """Leave the pod to whoever changed it."""
        self._stood_off[key] = until
        self._wrote.pop(key, None)

    def against(self, resize: Resize, node: str, now: float) -> tuple[float, Reason] | None:
        """Until when this is not to be asked, and why."""
        found: list[tuple[float, Reason]] = []
        if resize.urgency > Urgency.ASKED:
            # A kill, a debt and a person's word break a stand-off.
            found.append((self._stood_off.get(resize.key, 0.0), Reason.OVERRIDDEN))
        asked = shape(resize.sizes)
        found.append((self._infeasible.get(resize.uid, {}).get((node, asked), 0.0), Reason.INFEASIBLE))
        found.append(self._refused.get(resize.uid, {}).get(asked, (0.0, Reason.REFUSED)))
        found.append(self._held_back.get(resize.key, (0.0, Reason.REFUSED)))
        longest = max(found, key=lambda one: one[0])
        return longest if longest[0] > now else None

    def change_by_another(self, pod: Pod) -> tuple[bool, bool]:
        """Whether someone else changed what we wrote, and whether that was a mere raise of memory, as after a spike."""
        wrote = self._wrote.get(pod.key)
        if wrote is None or wrote[0] != pod.uid:
            return False, False
        ours = wrote[1]
        changed = [one for one in pod.containers if size_of(one) != ours.get(one.name)]
        is_raise = all(
            one.name in ours
            and one.requests.cpu_millicores == ours[one.name].requests.cpu_millicores
            and one.limits.cpu_millicores == ours[one.name].limits.cpu_millicores
            and one.requests.memory >= ours[one.name].requests.memory
            and one.limits.memory >= ours[one.name].limits.memory
            for one in changed
        )
        return bool(changed), is_raise

    def room_freed(self, key: str) -> None:
        """One that was given up for want of room may be asked again."""
        if self._held_back.get(key, (0.0, None))[1] is Reason.DEFERRED:
            del self._held_back[key]

    def node_grew(self, node: str) -> None:
        """What did not fit the node may fit now."""
        for known in self._infeasible.values():
            for one in [one for one in known if one[0] == node]:
                del known[one]

    def rules_changed(self, uid: str, key: str) -> None:
        """What was refused may be allowed now."""
        self._refused.pop(uid, None)
        self._held_back.pop(key, None)

    def forget(self, key: str, uid: str) -> None:
        """The pod is gone."""
        for by_key in (self._sent_at, self._unanswered, self._wrote, self._held_back, self._stood_off):
            by_key.pop(key, None)
        self._infeasible.pop(uid, None)
        self._refused.pop(uid, None)
