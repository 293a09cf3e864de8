"""What the server says of itself: version, groups, resources, and schemas enough for kubectl.

Owns discovery in both forms, /version, health and OpenAPI v3. Everything comes from the table of kinds.
"""

from functools import lru_cache
from typing import Any, Final

from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.kinds import Kind, group_versions
from elastipod.localcluster.api.requests import Request, Response, answer, encode

Json = dict[str, Any]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERSION: Final = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+elastipod",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-08-26T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_SUBRESOURCE_KINDS: Final = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
}
_SUBRESOURCE_VERBS: Final = {"log": ["get"], "eviction": ["create"], "binding": ["create"]}
# Strategic merge is left out on purpose: where it stands, kubectl looks here for merge keys instead of in itself.
_PATCH_TYPES: Final = ("application/json-patch+json", "application/merge-patch+json")
_PODS_NOT_SERVED: Final = ("exec", "attach", "portforward", "proxy", "ephemeralcontainers")
_NOT_SERVED: Final = {
    "authorization.k8s.io": "access reviews are not served: whoever reaches the local cluster may do everything",
    "authentication.k8s.io": "token reviews are not served: the local cluster asks nobody who they are",
    "apiextensions.k8s.io": "further kinds can not be defined in the local cluster",
}


def answer_for(request: Request) -> Response | None:
    """The answer for a path that means no object, or none where there is nothing. Raises ApiFailure."""
    path = request.path.rstrip("/")
    match path:
        case "/healthz" | "/livez" | "/readyz":
            return Response(200, b"ok", "text/plain")
        case "/version":
            return answer(_VERSION)
        case "/api" | "/apis":
            return _groups(path, request.accept)
        case "/openapi/v3":
            places = [_group_path(one) for one in group_versions()]
            return answer({"paths": {one: {"serverRelativeURL": f"/openapi/v3/{one}"} for one in places}})
    found = _of_group(path)
    if found is None:
        _refuse_by_name(path)
    return found


def _of_group(path: str) -> Response | None:
    """What is said of one group or one of its versions."""
    for group_version, kinds in group_versions().items():
        if path == f"/{_group_path(group_version)}":
            return answer(_resource_list(group_version, kinds))
        if path == f"/openapi/v3/{_group_path(group_version)}":
            return Response(200, _openapi(group_version))
        if path == f"/apis/{group_version.split('/')[0]}":
            return answer(_group(group_version.split("/")[0]))
    return None


def _refuse_by_name(path: str) -> None:
    if path.startswith("/openapi/v2"):
        raise ApiFailure(404, "OpenAPI v2 is not served by the local cluster; v3 is, under /openapi/v3")
    parts = path.split("/")
    if len(parts) > 2 and parts[1] == "apis" and parts[2] in _NOT_SERVED:
        raise ApiFailure(404, _NOT_SERVED[parts[2]], reason="NotFound")
    # /api/v1/namespaces/NAMESPACE/pods/POD/SUBRESOURCE, and of a proxy what is asked behind it.
    if len(parts) > 7 and parts[5] == "pods" and parts[7] in _PODS_NOT_SERVED:
        raise ApiFailure(501, f"pods/{parts[7]} is not served by the local cluster", reason="NotImplemented")


def _groups(path: str, accept: str) -> Response:
    wanted = "" if path == "/api" else "/"
    versions = {one: kinds for one, kinds in group_versions().items() if ("/" in one) is bool(wanted)}
    if "as=APIGroupDiscoveryList" in accept.split(",", 1)[0] and "v=v2;" in f"{accept.split(',', 1)[0]};":
        items: dict[str, Json] = {}
        for group_version, kinds in versions.items():
            group, _, version = group_version.rpartition("/")
            item = items.setdefault(group, {"metadata": {"name": group} if group else {}, "versions": []})
            found = {"version": version, "resources": [_discovered(one) for one in kinds], "freshness": "Current"}
            item["versions"].append(found)
        body = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": list(items.values()),
        }
        return Response(200, encode(body), _AGGREGATED)
    if path == "/api":
        return answer({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
    groups = [_group(one.split("/")[0]) for one in versions]
    return answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


def _group(group: str) -> Json:
    versions = [
        {"groupVersion": one, "version": one.split("/")[1]} for one in group_versions() if one.startswith(f"{group}/")
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def _discovered(kind: Kind) -> Json:
    resource = kind.resource
    found: Json = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    if kind.subresources:
        found["subresources"] = []
        for name in kind.subresources:
            group, version, answered = _subresource_kind(kind, name)
            response = {"group": group, "version": version, "kind": answered}
            verbs = _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])
            found["subresources"].append({"subresource": name, "responseKind": response, "verbs": verbs})
    return found


def _subresource_kind(kind: Kind, name: str) -> tuple[str, str, str]:
    resource = kind.resource
    return _SUBRESOURCE_KINDS.get(name, (resource.group, resource.version, resource.kind))


def _resource_list(group_version: str, kinds: list[Kind]) -> Json:
    found: list[Json] = []
    for kind in kinds:
        one: Json = {
            "name": kind.resource.plural,
            "singularName": kind.singular,
            "namespaced": kind.resource.namespaced,
            "kind": kind.resource.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            one["shortNames"] = list(kind.short_names)
        if kind.categories:
            one["categories"] = list(kind.categories)
        found.append(one)
        for name in kind.subresources:
            group, version, answered = _subresource_kind(kind, name)
            sub: Json = {
                "name": f"{kind.resource.plural}/{name}",
                "singularName": "",
                "namespaced": kind.resource.namespaced,
                "kind": answered,
                "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
            }
            if (group, version) != (kind.resource.group, kind.resource.version):
                sub |= {"group": group, "version": version}
            found.append(sub)
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found}


def _group_path(group_version: str) -> str:
    return f"apis/{group_version}" if "/" in group_version else f"api/{group_version}"


@lru_cache(maxsize=64)
def _openapi(group_version: str) -> bytes:
    """As much as kubectl needs to leave validation to the server: which kinds take patches and `fieldValidation`."""
    paths: dict[str, Json] = {}
    schemas: dict[str, Json] = {}
    for kind in group_versions()[group_version]:
        resource = kind.resource
        named = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schemas[f"{resource.group or 'core'}.{resource.version}.{resource.kind}"] = {
            "type": "object",
            "x-kubernetes-group-version-kind": [named],
        }
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ]
        path = resource.path("{namespace}" if resource.namespaced else None, "{name}")
        operation = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": named,
            "parameters": parameters,
            "requestBody": {"content": {one: {"schema": {"type": "object"}} for one in _PATCH_TYPES}},
            "responses": {"200": {"description": "OK"}},
        }
        paths[path] = {"patch": operation}
    info = {"title": "elastipod local cluster", "version": _VERSION["gitVersion"]}
    return encode({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}})
