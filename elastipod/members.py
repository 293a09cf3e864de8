"""Which pods belong to which workload, in whatever order pods, owners and claims become known.

Owns the indices, so that one change costs the pods it concerns. As what a pod is sized is elastipod/eligible.py's rule.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from elastipod.api import ElasticPolicy
from elastipod.eligible import Eligible, chosen, eligible
from elastipod.owners import Owned
from elastipod.pods import OwnerReference, Pod, Workload

K = TypeVar("K")

_MOST_LEVELS: Final = 8


class Members:
    """Pods by workload and by owner. What changes answers with the keys of the pods that it concerns.

    `moved` is told of each known pod that left a workload for another: its key, and the workload it left.
    """

    def __init__(self, moved: Callable[[str, Workload], None] | None = None) -> None:
        self._moved = moved
        self.pods: dict[str, Pod] = {}
        self._workloads: dict[str, Workload] = {}
        self._by_workload: dict[Workload, set[str]] = {}
        self._eligible = Eligible()
        self._claimed: set[Workload] = set()
        self._groups: dict[str, tuple[ElasticPolicy, ...]] = {}
        """By namespace, the policies whose groups a pod may be sized as."""
        self._owned: dict[str, Owned] = {}
        """By UID. One that is no more still counts for the pods that name it."""
        self._uids: dict[Workload, str] = {}
        """Of the owners that exist, by what they are."""
        self._heirs: dict[str, set[str]] = {}
        """By an owner's UID: the keys of its pods."""
        self._children: dict[str, set[str]] = {}
        """By an owner's UID: the UIDs of the owners it owns."""

    # What changes.

    def put_pod(self, key: str, pod: Pod | None) -> None:
        """A pod as it is now, None when it is gone."""
        old = self.pods.get(key)
        if pod is not None:
            self.pods[key] = pod
        elif old is not None:
            del self.pods[key]
        owner, had = pod and pod.owner, old and old.owner
        if owner != had:
            if had is not None:
                _discard(self._heirs, had.uid, key)
            if owner is not None:
                self._heirs.setdefault(owner.uid, set()).add(key)
            if had is not None:
                self._let_go(had.uid)
        if pod is None or old is None or owner != had or (pod.namespace in self._groups and pod.labels != old.labels):
            self._place(key, pod)

    def put_owned(self, old: Owned | None, new: Owned | None) -> set[str]:
        """An owner appeared, changed or is gone; the pods that belong elsewhere now, or whose annotations changed."""
        if new is None:
            if old is not None and self._uids.get(_what(old)) == old.uid:
                del self._uids[_what(old)]
                self._let_go(old.uid)
            return set()
        known = self._owned.get(new.uid)
        self._owned[new.uid] = new
        what = _what(new)
        before = self._uids.get(what, new.uid)
        self._uids[what] = new.uid
        if before != new.uid:
            self._let_go(before)
        is_moved = known is None or known.owner != new.owner
        if is_moved:
            had = known and known.owner
            if had is not None:
                _discard(self._children, had.uid, new.uid)
            if new.owner is not None:
                self._children.setdefault(new.owner.uid, set()).add(new.uid)
            if had is not None:
                self._let_go(had.uid)
        elif known is not None and known.annotations == new.annotations:
            return set()
        found = self._below(new.uid)
        if is_moved:
            self._place_again(found)
        return found

    def claim(self, workload: Workload, *, is_claimed: bool) -> set[str]:
        """Whether somebody speaks for a workload; its pods, and those that might be its pods."""
        might_be = self._eligible.pods(workload)
        if is_claimed != (workload in self._claimed):
            (self._claimed.add if is_claimed else self._claimed.remove)(workload)
            self._place_again(might_be)
        return self.keys(workload).union(might_be)

    def group(self, changed: Mapping[str, tuple[ElasticPolicy, ...]]) -> set[str]:
        """The policies of these namespaces whose groups count are these now; the pods of the namespaces."""
        changed = {
            namespace: policies for namespace, policies in changed.items() if policies or namespace in self._groups
        }
        if not changed:
            return set()
        for namespace, policies in changed.items():
            self._groups[namespace] = policies
            if not policies:
                del self._groups[namespace]
        found = {key for key, pod in self.pods.items() if pod.namespace in changed}
        self._place_again(found)
        return found

    # What is known.

    def workload(self, key: str) -> Workload | None:
        """The workload of a known pod."""
        return self._workloads.get(key)

    def each(self) -> Iterator[tuple[Pod, Workload]]:
        """Every known pod and its workload."""
        return ((pod, self._workloads[key]) for key, pod in self.pods.items())

    def placed(self, key: str) -> tuple[Workload, tuple[Workload, ...]]:
        """The workload of a known pod, and what it might be sized as, where it has a choice."""
        return self._workloads[key], self._eligible.choices(key)

    def resolve(self, pod: Pod) -> tuple[Workload, tuple[Workload, ...]]:
        """The workload of a pod that may not exist yet, and what it might be sized as."""
        choices = eligible(pod, self._owned, self.policies(pod.namespace))
        return chosen(choices, self._claimed), choices

    def keys(self, workload: Workload) -> set[str]:
        """The keys of a workload's pods."""
        return self._by_workload.get(workload, set())

    def might_be(self, workload: Workload) -> list[str]:
        """The keys of the pods that might be sized as this workload, and as another."""
        return self._eligible.pods(workload)

    def is_claimed(self, workload: Workload) -> bool:
        """Whether somebody speaks for a workload."""
        return workload in self._claimed

    def policies(self, namespace: str) -> tuple[ElasticPolicy, ...]:
        """The policies of a namespace whose groups count."""
        return self._groups.get(namespace, ())

    def controller(self, workload: Workload) -> Owned | None:
        """The workload's own object, where it is known and there."""
        return self._owned.get(self._uids.get(workload, ""))

    def owner(self, pod: Pod) -> Owned | None:
        """A pod's own controller, where it is known."""
        return self._owned.get(pod.owner.uid) if pod.owner is not None else None

    def owners(self, pod: Pod) -> Iterator[Owned]:
        """What controls a pod and is known, nearest first."""
        reference, levels = pod.owner, 0
        while reference is not None and levels < _MOST_LEVELS:
            owned = self._owned.get(reference.uid)
            if owned is None:
                return
            yield owned
            reference, levels = owned.owner, levels + 1

    def unknown_owner(self, pod: Pod) -> OwnerReference | None:
        """The owner that a pod's chain ends in and that is not known."""
        reference = pod.owner
        for owned in self.owners(pod):
            reference = owned.owner
        return None if reference is None or reference.uid in self._owned else reference

    # How it is kept.

    def _place(self, key: str, pod: Pod | None) -> None:
        before = self._workloads.pop(key, None)
        if pod is None:
            if before is not None:
                _discard(self._by_workload, before, key)
            self._eligible.set(key, ())
            return
        workload, choices = self.resolve(pod)
        self._workloads[key] = workload
        self._eligible.set(key, choices)
        if workload == before:
            return
        self._by_workload.setdefault(workload, set()).add(key)
        if before is not None:
            _discard(self._by_workload, before, key)
            if self._moved is not None:
                self._moved(key, before)

    def _place_again(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._place(key, self.pods[key])

    def _below(self, uid: str) -> set[str]:
        """The pods below an owner, through owners it owns."""
        found: set[str] = set()
        seen: set[str] = set()
        todo = [uid]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                found |= self._heirs.get(one, set())
                todo += self._children.get(one, ())
        return found

    def _let_go(self, uid: str) -> None:
        """Forget an owner that is no more, and then its own, as soon as nothing names it."""
        while uid in self._owned and uid not in self._heirs and uid not in self._children:
            gone = self._owned[uid]
            if self._uids.get(_what(gone)) == uid:
                return
            del self._owned[uid]
            if gone.owner is None:
                return
            _discard(self._children, gone.owner.uid, uid)
            uid = gone.owner.uid


def _what(owned: Owned) -> Workload:
    return Workload(owned.namespace, owned.kind, owned.name)


def _discard(sets: dict[K, set[str]], key: K, value: str) -> None:
    of_key = sets.get(key)
    if of_key is not None:
        of_key.discard(value)
        if not of_key:
            del sets[key]
