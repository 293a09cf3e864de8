"""Which node takes a pod.

Owns the choice: room as the scheduler counts it, slots, selectors, taints. Binds nothing.
"""

from collections.abc import Iterable, Mapping

import msgspec

from elastipod.fit import desired, node_room, pod_sum
from elastipod.pods import Node, Pod, Taint, Toleration
from elastipod.quantities import Resources


class Room:
    """What is free on each node, by the pods that are counted there."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        """By node and UID."""
        self._node_of: dict[str, str] = {}
        self._free: dict[str, Resources] = {}
        """Of nodes of which nothing changed since it was asked for."""

    def put_node(self, name: str, node: Node | None) -> None:
        """Know a node as it is now; None where it is gone."""
        self._free.pop(name, None)
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node

    def count(self, pod: Pod) -> None:
        """Count a pod on its node, as it is now, and nowhere else."""
        self.leave_out(pod.uid)
        if pod.node_name and not pod.is_terminal:
            self._node_of[pod.uid] = pod.node_name
            self._pods.setdefault(pod.node_name, {})[pod.uid] = pod
            self._free.pop(pod.node_name, None)

    def leave_out(self, uid: str) -> None:
        """Count a pod no longer."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._pods[node][uid]
            self._free.pop(node, None)

    def place(self, pod: Pod) -> str | None:
        """The node with most room that can take the pod; it is counted there from now on."""
        self.leave_out(pod.uid)
        asked = pod_sum(pod, desired)
        fitting = [node for node in self.nodes.values() if not self._objection(node, pod, asked)]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: (-self._left(node, asked), node.name))
        self.count(msgspec.structs.replace(pod, node_name=best.name))
        return best.name

    def explain(self, pod: Pod) -> str:
        """Why no node takes the pod, in the scheduler's words."""
        asked = pod_sum(pod, desired)
        counted: dict[str, int] = {}
        for node in self.nodes.values():
            reason = self._objection(node, pod, asked)
            counted[reason] = counted.get(reason, 0) + 1
        told = ", ".join(f"{number} {reason}" for reason, number in sorted(counted.items()))
        return f"0/{len(self.nodes)} nodes are available: {told}." if told else "no nodes available to schedule pods"

    def _objection(self, node: Node, pod: Pod, asked: Resources) -> str:
        """What is against it; empty where nothing is."""
        free = self._free_on(node)
        taint = _untolerated(node, pod)
        objections = (
            (node.is_unschedulable, "node(s) were unschedulable"),
            (not node.is_ready, "node(s) were not ready"),
            (
                any(node.labels.get(key) != value for key, value in pod.node_selector.items()),
                "node(s) didn't match Pod's node affinity/selector",
            ),
            (taint is not None, f"node(s) had untolerated taint {{{taint}}}"),
            (len(self._on(node)) >= node.allocatable_pods, "Too many pods"),
            (0 < asked.cpu > free.cpu, "Insufficient cpu"),
            (0 < asked.memory > free.memory, "Insufficient memory"),
        )
        return next((text for holds, text in objections if holds), "")

    def _left(self, node: Node, asked: Resources) -> float:
        left = self._free_on(node) - asked
        return left.cpu / max(node.allocatable.cpu, 1) + left.memory / max(node.allocatable.memory, 1)

    def _free_on(self, node: Node) -> Resources:
        free = self._free.get(node.name)
        if free is None:
            free = self._free[node.name] = node_room(node, self._on(node).values()).free_for_scheduler
        return free

    def _on(self, node: Node) -> Mapping[str, Pod]:
        return self._pods.get(node.name, {})


def _untolerated(node: Node, pod: Pod) -> str | None:
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not _is_tolerated(taint, pod.tolerations):
            return f"{taint.key}: {taint.value}"
    return None


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        (not one.effect or one.effect == taint.effect)
        and (one.key == taint.key or (not one.key and one.operator == "Exists"))
        and (one.operator == "Exists" or one.value == taint.value)
        for one in tolerations
    )
