"""What the updater knows of the cluster, indexed so that one change costs one pod and not all of them.

Owns which pods a change concerns, and the facts about one pod. Fed by reflectors (watching.py) or by a test.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec import field

from elastipod.api import RESOURCES_ANNOTATION, ElasticPolicy
from elastipod.limits import LimitRange, Quota
from elastipod.owners import Owned, topmost_workload
from elastipod.pods import Node, OwnerReference, Pod, Workload
from elastipod.policy import Ceiling, effective_policy
from updater.budget import DisruptionLimit
from updater.ledger import Ledger
from updater.shape import FREE, Bounds, container_bounds
from updater.sizes import ASKED_ANNOTATION, Advice, BadSize, Size, Sizes, stated_sizes
from updater.wishes import Facts

_MOST_LEVELS: Final = 8

T = TypeVar("T")
K = TypeVar("K")


class Controller(Owned, frozen=True, gc=False):
    """An owner of pods with the sizes its template gives them."""

    template: dict[str, Size] = field(default_factory=dict)


class Fleet:
    """Pods, nodes and what is said about them; `dirty` are the pods to decide about anew."""

    def __init__(self, recommender_names: Iterable[str], namespaces_off: Iterable[str] = ()) -> None:
        self.pods: dict[str, Pod] = {}
        self.ledger = Ledger()
        self.dirty: set[str] = set()
        self.pending: set[str] = set()
        """Pods that the scheduler finds no room for."""
        self._ours = frozenset(recommender_names)
        self._off = frozenset(namespaces_off)
        self._workloads: dict[str, Workload] = {}
        self._by_workload: dict[Workload, set[str]] = {}
        self._owned: dict[str, Owned] = {}
        self._by_owner: dict[str, set[str]] = {}
        self._children: dict[str, set[str]] = {}
        self._advice: dict[Workload, dict[str, Advice]] = {}
        self._targets: dict[str, Workload] = {}
        self._limit_ranges: dict[str, dict[str, LimitRange]] = {}
        self._bounds: dict[str, Bounds] = {}
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._budgets: dict[str, dict[str, DisruptionLimit]] = {}
        self._policies: dict[str, dict[str, ElasticPolicy]] = {}

    # What changes.

    def put_pod(self, key: str, pod: Pod | None) -> str:
        """A pod as it is now, None when it is gone; the node on which room was freed, or nothing."""
        old = self.pods.get(key)
        if pod is None:
            self.pods.pop(key, None)
            self.dirty.discard(key)
        else:
            self.pods[key] = pod
            self.dirty.add(key)
        if old is None or pod is None or old.owner != pod.owner:
            self._place(key, old, pod)
        if pod is not None and pod.is_unschedulable and not pod.node_name and pod.phase == "Pending":
            self.pending.add(key)
        else:
            self.pending.discard(key)
        return self.ledger.put_pod(key, pod)

    def put_node(self, name: str, node: Node | None) -> bool:
        """A node as it is now; True when it has more to give than before."""
        if node is None:
            self.ledger.drop_node(name)
            return False
        return self.ledger.put_node(node)

    def put_owned(self, old: Owned | None, new: Owned | None) -> None:
        """A controller of pods, or of controllers."""
        found = new or old
        if found is None:
            return
        if old is not None and old.owner is not None:
            _discard(self._children, old.owner.uid, old.uid)
        if new is None:
            self._owned.pop(found.uid, None)
        else:
            self._owned[new.uid] = new
            if new.owner is not None:
                self._children.setdefault(new.owner.uid, set()).add(new.uid)
        moved = old is None or new is None or old.owner != new.owner
        stated_anew = (old.annotations if old else {}) != (new.annotations if new else {})
        if moved or stated_anew:
            for key in self._below(found.uid):
                if moved:
                    self._place(key, self.pods.get(key), self.pods.get(key))
                self.dirty.add(key)

    def put_advice(self, key: str, target: Workload | None, advice: Advice | None) -> None:
        """An autoscaler as it is now, None when it is gone or targets nothing."""
        before = self._targets.pop(key, None)
        if before is not None:
            of_target = self._advice.get(before, {})
            old = of_target.pop(key, None)
            if before == target and old == advice and advice is not None:
                of_target[key] = advice
                self._targets[key] = before
                return
            if not of_target:
                self._advice.pop(before, None)
            self.dirty |= self._by_workload.get(before, set())
        if target is not None and advice is not None:
            self._targets[key] = target
            self._advice.setdefault(target, {})[key] = advice
            self.dirty |= self._by_workload.get(target, set())

    def put_limit_range(self, key: str, limit_range: LimitRange | None) -> str:
        """A LimitRange; the namespace whose pods it concerns."""
        namespace = _put(self._limit_ranges, key, limit_range)
        self._bounds[namespace] = container_bounds(self.limit_ranges(namespace))
        self.dirty.update(key for key, pod in self.pods.items() if pod.namespace == namespace)
        return namespace

    def put_quota(self, key: str, quota: Quota | None) -> str:
        """A ResourceQuota; its namespace."""
        return _put(self._quotas, key, quota)

    def put_budget(self, key: str, budget: DisruptionLimit | None) -> str:
        """A PodDisruptionBudget; its namespace."""
        return _put(self._budgets, key, budget)

    def put_policy(self, key: str, policy: ElasticPolicy | None) -> str:
        """An ElasticPolicy; its namespace."""
        return _put(self._policies, key, policy)

    # What is known.

    def workload(self, key: str) -> Workload | None:
        """The workload of a known pod."""
        return self._workloads.get(key)

    def workload_of(self, pod: Pod) -> tuple[Workload, OwnerReference | None]:
        """The workload of a pod that may not exist yet; the owner at the end of its chain that is not known here."""
        reference, levels = pod.owner, 0
        while reference is not None and levels < _MOST_LEVELS:
            owned = self._owned.get(reference.uid)
            if owned is None:
                break
            reference, levels = owned.owner, levels + 1
        return topmost_workload(pod, self._owned), reference

    def pods_of(self, workload: Workload) -> list[Pod]:
        """The pods of a workload that have not ended."""
        found = (self.pods[key] for key in self._by_workload.get(workload, ()) if key in self.pods)
        return [pod for pod in found if not pod.is_terminal]

    def replicas(self, workload: Workload) -> int | None:
        """How many pods the workload's controller wants, where it says."""
        stated = [
            owned.replicas
            for owned in self._owned.values()
            if (owned.namespace, owned.kind, owned.name) == (workload.namespace, workload.kind, workload.name)
        ]
        return stated[0] if stated else None

    def template(self, pod: Pod) -> Sizes:
        """The sizes that the pod's own controller gives its pods; empty where that is not known."""
        owned = self._owned.get(pod.owner.uid) if pod.owner is not None else None
        return owned.template if isinstance(owned, Controller) else {}

    def limit_ranges(self, namespace: str) -> tuple[LimitRange, ...]:
        return tuple(self._limit_ranges.get(namespace, {}).values())

    def quotas(self, namespace: str) -> tuple[Quota, ...]:
        return tuple(self._quotas.get(namespace, {}).values())

    def budgets(self, pod: Pod) -> list[DisruptionLimit]:
        """The PodDisruptionBudgets that speak of a pod."""
        return [one for one in self._budgets.get(pod.namespace, {}).values() if one.covers(pod.namespace, pod.labels)]

    def claim(self, key: str) -> tuple[Advice | None, bool, str]:
        """The advice that holds for a known pod; see claim_of."""
        workload = self._workloads.get(key)
        return (None, False, "") if workload is None else self.claim_of(workload)

    def claim_of(self, workload: Workload) -> tuple[Advice | None, bool, str]:
        """The advice that holds for a workload; whether several claim it; the recommender of one that is not ours."""
        found = self._advice.get(workload)
        if not found:
            return None, False, ""
        # One that only recommends quarrels with nobody.
        acting = [one for one in found.values() if one.mode != "Off"] or list(found.values())
        ours = [one for one in acting if one.recommender in self._ours]
        if not ours:
            return None, False, acting[0].recommender
        if len(acting) > 1:
            return None, True, ""
        return ours[0], False, ""

    def stated(self, pod: Pod) -> tuple[Sizes, str, bool]:
        """The sizes stated nearest to a pod, what is wrong with them, and whether a person asked for them."""
        for annotations in self._annotations(pod):
            text = annotations.get(RESOURCES_ANNOTATION)
            if text is None:
                continue
            asked = ASKED_ANNOTATION in annotations
            try:
                return stated_sizes(text), "", asked
            except BadSize as error:
                return {}, str(error), asked
        return {}, "", False

    def facts(self, key: str) -> Facts:
        """All that is said about a known pod; what the attempts and the usage add comes from the service."""
        return self.facts_of(self.pods[key], self._workloads[key])

    def facts_of(self, pod: Pod, workload: Workload) -> Facts:
        """All that is said about a pod of a workload, whether or not the pod exists yet."""
        advice, conflict, foreign = self.claim_of(workload)
        sizes, problem, asked = self.stated(pod)
        if pod.namespace in self._off:
            return Facts(foreign=foreign)
        ranges = self._limit_ranges.get(pod.namespace)
        return Facts(
            advice,
            conflict,
            foreign,
            sizes,
            problem,
            asked,
            tuple(ranges.values()) if ranges else (),
            self._bounds.get(pod.namespace, FREE),
        )

    def may_donate(self, key: str, ceiling: Ceiling) -> bool:
        """Whether a pod may give room: where a policy says so, or where we size it and nobody forbids it.

        A size that a person or the workload states is theirs and is not given away.
        """
        pod, workload = self.pods.get(key), self._workloads.get(key)
        if pod is None or workload is None or pod.namespace in self._off or not ceiling.may_donate:
            return False
        policies = self._policies.get(pod.namespace, {}).values()
        stated = effective_policy(pod, workload, policies, ceiling).donate
        if stated is False or self.stated(pod)[0]:
            return False
        advice, _, _ = self.claim(key)
        return stated is True or (advice is not None and advice.mode.may_resize)

    # How it is kept.

    def _annotations(self, pod: Pod) -> Iterable[dict[str, str]]:
        """The pod's own, then its owners', nearest first. A ReplicaSet only copies its Deployment's."""
        yield pod.annotations
        reference, levels = pod.owner, 0
        while reference is not None and levels < _MOST_LEVELS:
            owned = self._owned.get(reference.uid)
            if owned is None:
                return
            if owned.kind != "ReplicaSet" or owned.owner is None:
                yield owned.annotations
            reference, levels = owned.owner, levels + 1

    def _place(self, key: str, old: Pod | None, new: Pod | None) -> None:
        before = self._workloads.pop(key, None)
        if before is not None:
            _discard(self._by_workload, before, key)
        if old is not None and old.owner is not None:
            _discard(self._by_owner, old.owner.uid, key)
        if new is None:
            return
        workload = topmost_workload(new, self._owned)
        self._workloads[key] = workload
        self._by_workload.setdefault(workload, set()).add(key)
        if new.owner is not None:
            self._by_owner.setdefault(new.owner.uid, set()).add(key)

    def _below(self, uid: str) -> set[str]:
        """The pods below a controller, through controllers it owns."""
        found: set[str] = set()
        seen: set[str] = set()
        todo = [uid]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                found |= self._by_owner.get(one, set())
                todo += self._children.get(one, ())
        return found


def _put(into: dict[str, dict[str, T]], key: str, value: T | None) -> str:
    namespace = key.partition("/")[0]
    of_namespace = into.setdefault(namespace, {})
    if value is None:
        of_namespace.pop(key, None)
    else:
        of_namespace[key] = value
    return namespace


def _discard(sets: dict[K, set[str]], key: K, value: str) -> None:
    of_key = sets.get(key)
    if of_key is not None:
        of_key.discard(value)
        if not of_key:
            del sets[key]
