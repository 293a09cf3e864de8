"""Nodes and running pods of a cluster that has no kubelet: what one would have told the API server."""

from tests.build import node_json, running_status
from tests.kubernetes.calls import Calls, Json
from tests.localcluster.served import MERGE, NODES


def add_node(calls: Calls, name: str = "n1", *, cpu: str = "4", memory: str = "8Gi", pods: str = "110") -> Json:
    """A ready node; a pod can only be resized where its node exists."""
    made = calls.post(NODES, node_json(name, cpu=cpu, memory=memory, pods=pods))
    return calls.patch(f"{NODES}/{name}", {"spec": {"taints": None}}, MERGE) if made["spec"].get("taints") else made


def run_pod(calls: Calls, pod: Json, node: str = "n1") -> Json:
    """A pod on that node, its containers running with what its spec asks for, as `/resize` wants to see them."""
    pod["spec"]["nodeName"] = node
    made = calls.post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
    return tell(calls, made)


def tell(calls: Calls, pod: Json) -> Json:
    """Actual is as desired: what a kubelet says once a resize is done."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
    status = running_status(pod) | {"observedGeneration": pod["metadata"].get("generation", 1)}
    return calls.patch(path, {"status": status}, MERGE)
