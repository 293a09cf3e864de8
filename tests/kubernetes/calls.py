"""Plain calls to a real API server, with the names that `tests.localcluster.served` has for the embedded one."""

import http.client
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from tests.localcluster.served import MERGE, STRATEGIC

Json = dict[str, Any]


class Calls:
    """One connection, kept, for one thread; answers are the code and the decoded body."""

    def __init__(self, server: str, authority: Path, token: str, user: str = "") -> None:
        self._to = (server, authority, token)
        parts = urlsplit(server)
        assert parts.hostname is not None
        tls = ssl.create_default_context(cafile=str(authority))
        self._connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=tls, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if user:
            self._headers["Impersonate-User"] = user

    def impersonating(self, user: str) -> "Calls":
        """As that user, `system:serviceaccount:NAMESPACE:NAME` for a pod's, judged by the API server's own rules."""
        return Calls(*self._to, user)

    def another(self) -> "Calls":
        """The same, for another thread."""
        return Calls(*self._to)

    def call(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> tuple[int, Json]:
        raw = None if body is None else msgspec.json.encode(body)
        target = f"{quote(path, safe='/:')}?{urlencode(query)}" if query else quote(path, safe="/:")
        headers = self._headers | ({"Content-Type": content_type or "application/json"} if raw else {})
        try:
            self._connection.request(method, target, raw, headers)
            answer = self._connection.getresponse()
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            # The server had closed what was kept open.
            self.close()
            self._connection.request(method, target, raw, headers)
            answer = self._connection.getresponse()
        said = answer.read()
        # An API behind the aggregator that is not up yet has only words for it.
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, msgspec.json.decode(said) if is_json else {"message": said.decode("utf-8", "replace")}

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

    def delete(self, path: str, **query: str) -> Json:
        code, json = self.call("DELETE", path, **query)
        assert code in (200, 202), json
        return json

    def refused(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> Json:
        code, json = self.call(method, path, body, content_type, **query)
        assert json["kind"] == "Status", json
        assert json["status"] == "Failure", json
        assert json["code"] == code >= 400, json
        return json

    def put_pod(self, pod: Json, status: Json | None = None) -> Json:
        """A pod, and its status where given."""
        namespace = pod["metadata"].get("namespace", "default")
        made = self.post(f"/api/v1/namespaces/{namespace}/pods", pod)
        if status is None:
            return made
        path = f"/api/v1/namespaces/{namespace}/pods/{made['metadata']['name']}/status"
        return self.patch(path, {"status": status}, MERGE)

    def close(self) -> None:
        self._connection.close()
