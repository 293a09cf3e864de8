"""Tokens as pods have them: bound to a pod, and so to its node."""

import uuid
from typing import Any

from tests.build import pod_json
from tests.kubernetes.apiserver import ApiServer

Json = dict[str, Any]


def token(server: ApiServer, namespace: str, account: str, node: str = "") -> str:
    """Of a pod on that node, which is made; of no pod where none is named."""
    spec: Json = {"expirationSeconds": 3600}
    if node:
        pod = pod_json(f"{account}-{uuid.uuid4().hex[:6]}", namespace, node=node, serviceAccountName=account)
        made = server.calls.post(f"/api/v1/namespaces/{namespace}/pods", pod)["metadata"]
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": made["name"], "uid": made["uid"]}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(server.calls.post(path, {"spec": spec})["status"]["token"])
