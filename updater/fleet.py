"""What the updater knows of the cluster, indexed so that one change costs one pod and not all of them.

Owns which pods a change concerns, and the facts about one pod. Fed by reflectors (watching.py) or by a test. Which
workload a pod belongs to is members.py's matter.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec import field

from elastipod.api import RESOURCES_ANNOTATION, ElasticPolicy
from elastipod.eligible import GROUP_KIND, group_of
from elastipod.kube.disruptions import DisruptionLimit
from elastipod.limitmodes import LimitModes, limit_modes
from elastipod.limits import LimitRange, Quota
from elastipod.members import Members
from elastipod.nodeclass import node_class
from elastipod.optout import opted_out
from elastipod.owners import Owned
from elastipod.pods import Node, OwnerReference, Pod, Workload
from elastipod.policy import Ceiling, effective_policy
from updater.facts import Facts
from updater.ledger import Ledger
from updater.shape import FREE, PROPORTIONAL, Bounds, container_bounds
from updater.sizes import ASKED_ANNOTATION, Advice, BadSize, Size, Sizes, stated_sizes

_UNCLAIMED: Final = (None, "", "")

T = TypeVar("T")


class Controller(Owned, frozen=True, gc=False):
    """An owner of pods with the sizes its template gives them."""

    template: dict[str, Size] = field(default_factory=dict)


class Fleet:
    """Pods, nodes and what is said about them; `dirty` are the pods to decide about anew."""

    def __init__(self, recommender_names: Iterable[str], namespaces_off: Iterable[str] = ()) -> None:
        self._members = Members()
        self.pods: dict[str, Pod] = self._members.pods
        self.ledger = Ledger()
        self.dirty: set[str] = set()
        self.pending: set[str] = set()
        """Pods that the scheduler finds no room for."""
        self.needs_nodes = False
        """Whether any advice was by class of node."""
        self._ours = frozenset(recommender_names)
        self._off = frozenset(namespaces_off)
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
        if pod is None:
            self.dirty.discard(key)
        else:
            self.dirty.add(key)
        self._members.put_pod(key, pod)
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
        if self.needs_nodes:
            before = self.ledger.nodes.get(name)
            if before is None or node_class(before) != node_class(node):
                self.dirty |= self.pods.keys() & self.ledger.keys_on(name)
        return self.ledger.put_node(node)

    def put_owned(self, old: Owned | None, new: Owned | None) -> None:
        """A controller of pods, or of controllers."""
        self.dirty |= self._members.put_owned(old, new)

    def put_advice(self, key: str, target: Workload | None, advice: Advice | None) -> None:
        """An autoscaler as it is now, None when it is gone or targets nothing."""
        before = self._targets.pop(key, None)
        if before is not None:
            old = self._advice[before].pop(key)
            if before == target and old == advice:
                self._advice[before][key] = old
                self._targets[key] = before
                return
            if not self._advice[before]:
                del self._advice[before]
        if target is not None and advice is not None:
            self._targets[key] = target
            self._advice.setdefault(target, {})[key] = advice
            self.needs_nodes |= bool(advice.by_class)
        for one in {before, target}:
            if one is not None:
                self._advised_anew(one)

    def put_limit_range(self, key: str, limit_range: LimitRange | None) -> str:
        """A LimitRange; the namespace whose pods it concerns."""
        namespace = _put(self._limit_ranges, key, limit_range)
        self._bounds[namespace] = container_bounds(self.limit_ranges(namespace))
        self._decide_anew(namespace)
        return namespace

    def put_quota(self, key: str, quota: Quota | None) -> str:
        """A ResourceQuota; its namespace."""
        return _put(self._quotas, key, quota)

    def put_budget(self, key: str, budget: DisruptionLimit | None) -> str:
        """A PodDisruptionBudget; its namespace."""
        return _put(self._budgets, key, budget)

    def put_policy(self, key: str, policy: ElasticPolicy | None) -> str:
        """An ElasticPolicy; its namespace."""
        # Only what somebody names as a target makes pods one workload.
        old = self._policies.get(key.partition("/")[0], {}).get(key)
        namespace = _put(self._policies, key, policy)
        told = [one for one in (old, policy) if one is not None]
        if any(self._members.is_claimed(group_of(one)) for one in told):
            self._group_anew(namespace)
        if any(one.spec.limit_modes is not None for one in told):
            self._decide_anew(namespace)
        return namespace

    # What is known.

    def workload(self, key: str) -> Workload | None:
        """The workload of a known pod."""
        return self._members.workload(key)

    def workload_of(self, pod: Pod) -> Workload:
        """The workload of a pod that may not exist yet."""
        return self._members.resolve(pod)[0]

    def unknown_owner(self, pod: Pod) -> OwnerReference | None:
        """The owner at the end of a pod's chain that is not known here."""
        return self._members.unknown_owner(pod)

    def pods_of(self, workload: Workload) -> list[Pod]:
        """The pods of a workload that have not ended."""
        found = (self.pods[key] for key in self._members.keys(workload))
        return [pod for pod in found if not pod.is_terminal]

    def replicas(self, workload: Workload) -> int | None:
        """How many pods the workload's controller wants, where it says."""
        owned = self._members.controller(workload)
        return None if owned is None else owned.replicas

    def template(self, pod: Pod) -> Sizes:
        """The sizes that the pod's own controller gives its pods; empty where that is not known."""
        owned = self._members.owner(pod)
        return owned.template if isinstance(owned, Controller) else {}

    def limit_ranges(self, namespace: str) -> tuple[LimitRange, ...]:
        return tuple(self._limit_ranges.get(namespace, {}).values())

    def quotas(self, namespace: str) -> tuple[Quota, ...]:
        return tuple(self._quotas.get(namespace, {}).values())

    def budgets(self, pod: Pod) -> list[DisruptionLimit]:
        """The PodDisruptionBudgets that speak of a pod."""
        return [one for one in self._budgets.get(pod.namespace, {}).values() if one.covers(pod.namespace, pod.labels)]

    def claim(self, key: str) -> tuple[Advice | None, str, str]:
        """The advice for a pod, the names of those that quarrel about it, the recommender of one that is not ours."""
        if key not in self.pods:
            return _UNCLAIMED
        advice, conflict, foreign = self._claim(*self._members.placed(key))
        return self._allowed(self.pods[key], advice), conflict, foreign

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
        return self._facts(self.pods[key], *self._members.placed(key))

    def lacks_node(self, pod: Pod) -> bool:
        """Whether its size depends on the class of a node that is not known."""
        if not pod.node_name or pod.node_name in self.ledger.nodes:
            return False
        advice, _, _ = self._claim(*self._members.resolve(pod))
        return advice is not None and bool(advice.by_class)

    def facts_of(self, pod: Pod) -> Facts:
        """All that is said about a pod that may not exist yet."""
        return self._facts(pod, *self._members.resolve(pod))

    def _facts(self, pod: Pod, workload: Workload, choices: tuple[Workload, ...]) -> Facts:
        if pod.namespace in self._off:
            return Facts(namespace_off=True)
        advice, conflict, foreign = self._claim(workload, choices)
        advice = self._allowed(pod, advice)
        sizes, problem, asked = self.stated(pod)
        ranges = self._limit_ranges.get(pod.namespace)
        return Facts(
            None if advice is None else advice.on_node(self.ledger.nodes.get(pod.node_name)),
            conflict,
            foreign,
            sizes,
            problem,
            asked,
            tuple(ranges.values()) if ranges else (),
            self._bounds.get(pod.namespace, FREE),
            self._modes(pod, workload) if advice is not None and pod.namespace in self._policies else PROPORTIONAL,
        )

    def may_donate(self, key: str, ceiling: Ceiling) -> bool:
        """Whether a pod may give room: where a policy says so, or where we size it and nobody forbids it.

        A size that a person or the workload states is theirs and is not given away.
        """
        pod = self.pods.get(key)
        if pod is None or pod.namespace in self._off or not ceiling.may_donate:
            return False
        workload, choices = self._members.placed(key)
        policies = self._policies.get(pod.namespace, {}).values()
        owner = choices[-1] if workload.kind == GROUP_KIND else workload
        stated = effective_policy(pod, owner, policies, ceiling).donate
        if stated is False or self.stated(pod)[0]:
            return False
        advice, _, _ = self.claim(key)
        return stated is True or (advice is not None and advice.mode.may_resize)

    # How it is kept.

    def _annotations(self, pod: Pod) -> Iterable[dict[str, str]]:
        """The pod's own, then its owners', nearest first."""
        yield pod.annotations
        for owned in self._members.owners(pod):
            if not owned.only_copies:
                yield owned.annotations

    def _allowed(self, pod: Pod, advice: Advice | None) -> Advice | None:
        """The advice as far as neither the pod nor who controls it says that it is not to be sized."""
        return None if advice is None else advice.without(opted_out(("", one) for one in self._annotations(pod)))

    def _modes(self, pod: Pod, workload: Workload) -> LimitModes:
        found = limit_modes(workload, pod.labels, self._policies[pod.namespace].values())
        return PROPORTIONAL if found == PROPORTIONAL else found

    def _claim(self, workload: Workload, choices: tuple[Workload, ...]) -> tuple[Advice | None, str, str]:
        """The advice for a pod of a workload that might be sized as any of `choices`; see claim."""
        claims = self._advice.get(workload)
        if claims is None and not choices:
            return _UNCLAIMED
        found = list(claims.values()) if claims is not None else []
        for other in choices:
            if other != workload:
                # What other recommenders say there may be put in force by others.
                rivals = self._advice.get(other, {}).values()
                found += [one for one in rivals if one.recommender not in self._ours and one.mode != "Off"]
        if not found:
            return _UNCLAIMED
        # One that only recommends quarrels with nobody.
        acting = found if len(found) == 1 else [one for one in found if one.mode != "Off"] or found
        ours = [one for one in acting if one.recommender in self._ours]
        if not ours:
            return None, "", acting[0].recommender
        if len(acting) > 1:
            return None, ", ".join(sorted(one.name for one in acting)), ""
        return ours[0], "", ""

    def _advised_anew(self, workload: Workload) -> None:
        """What is said of a workload changed; its pods, and who might be its pods, are decided about anew."""
        was_claimed = self._members.is_claimed(workload)
        is_claimed = any(one.recommender in self._ours for one in self._advice.get(workload, {}).values())
        self.dirty |= self._members.claim(workload, is_claimed=is_claimed)
        if workload.kind == GROUP_KIND and is_claimed != was_claimed:
            self._group_anew(workload.namespace)

    def _decide_anew(self, namespace: str) -> None:
        self.dirty.update(key for key, pod in self.pods.items() if pod.namespace == namespace)

    def _group_anew(self, namespace: str) -> None:
        """A policy that is a target came, changed or is gone, or is a target no more."""
        policies = self._policies.get(namespace, {}).values()
        claimed = tuple(one for one in policies if self._members.is_claimed(group_of(one)))
        self.dirty |= self._members.group({namespace: claimed})


def _put(into: dict[str, dict[str, T]], key: str, value: T | None) -> str:
    namespace = key.partition("/")[0]
    of_namespace = into.setdefault(namespace, {})
    if value is None:
        of_namespace.pop(key, None)
    else:
        of_namespace[key] = value
    return namespace
