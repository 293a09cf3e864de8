"""An API server in process, asked as HTTP would ask it."""

import random
from pathlib import Path
from typing import Any

import msgspec

from elastipod.clock import ManualClock
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.logs import LogSource
from elastipod.localcluster.api.requests import Request, Response
from elastipod.localcluster.api.store import Store

Json = dict[str, Any]

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Served:
    """Calls return the code and the decoded body."""

    def __init__(self, path: Path | None = None, *, logs: LogSource | None = None, remembered: int = 20_000) -> None:
        self.clock = ManualClock()
        self.store = Store(path, remembered_changes=remembered)
        self.api = ApiServer(self.clock, self.store, logs=logs, spread=random.Random(7))

    def response(
        self, method: str, path: str, body: bytes = b"", content_type: str = "", accept: str = "", **query: str
    ) -> Response:
        headers = {"content-type": content_type, "accept": accept}
        return self.api.handle(Request(method, path, query, headers, body))

    def call(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> tuple[int, Json]:
        raw = b"" if body is None else msgspec.json.encode(body)
        response = self.response(method, path, raw, content_type, **query)
        return response.code, msgspec.json.decode(response.body)

    def get(self, path: str, **query: str) -> Json:
        code, json = self.call("GET", path, **query)
        assert code == 200, json
        return json

    def post(self, path: str, body: Json, **query: str) -> Json:
        code, json = self.call("POST", path, body, **query)
        assert code == 201, json
        return json

    def patch(self, path: str, body: Any, content_type: str = STRATEGIC, **query: str) -> Json:
        code, json = self.call("PATCH", path, body, content_type, **query)
        assert code == 200, json
        return json

    def refused(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> Json:
        code, json = self.call(method, path, body, content_type, **query)
        assert json["kind"] == "Status"
        assert json["status"] == "Failure"
        assert json["code"] == code >= 400
        return json

    def put_pod(self, pod: Json, status: Json | None = None) -> Json:
        """A pod, and its status where given."""
        namespace = pod["metadata"].get("namespace", "default")
        made = self.post(f"/api/v1/namespaces/{namespace}/pods", pod)
        if status is None:
            return made
        path = f"/api/v1/namespaces/{namespace}/pods/{made['metadata']['name']}/status"
        return self.patch(path, {"status": status}, MERGE)


PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
AUTOSCALERS = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
