"""Random values of the chart, from its schema.

Owns the part of JSON Schema that values.schema.json uses. Where the schema leaves a Kubernetes object open, an example
is taken; a value that contradicts another is for the caller to sort out.
"""

from typing import Any, Final

from hypothesis import strategies as st

Json = dict[str, Any]

_EXAMPLES: Final[dict[str, list[Any]]] = {
    "affinity": [{}, {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}],
    "apiServerTo": [[], [{"ipBlock": {"cidr": "10.0.0.1/32"}}]],
    "containerSecurityContext": [{"readOnlyRootFilesystem": True}],
    "extraArgs": [[], ["--log-level=debug"]],
    "extraEnv": [[], [{"name": "TZ", "value": "UTC"}]],
    "extraVolumeMounts": [[], [{"name": "tmp", "mountPath": "/var/tmp"}]],
    "extraVolumes": [[], [{"name": "more", "emptyDir": {}}]],
    "matchExpressions": [[], [{"key": "team", "operator": "Exists"}]],
    "metricsFrom": [[], [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]],
    "dnsTo": [[], [{"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]],
    "prometheusTo": [[], [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]],
    "recommenderEgress": [[], [{"ports": [{"port": 3128, "protocol": "TCP"}]}]],
    "podSecurityContext": [{"runAsNonRoot": True, "runAsUser": 1000}],
    "tolerations": [[], [{"key": "spot", "operator": "Exists"}]],
    "topologySpreadConstraints": [
        [],
        [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    ],
    "global": [{}, {"of": "another chart"}],
}
# What contradicts other values in most of its forms; each is a test of its own.
_EXAMPLES.update(
    {
        "caBundle": [""],
        "digest": ["", "", f"sha256:{'5' * 64}"],
        "failurePolicy": ["Ignore"],
        "hostNetwork": [False],
        "issuerRef": [{}],
        "namespaces": [[]],
        "parent": [""],
        "readNodes": [False],
        "scope": ["cluster"],
        "secretName": [""],
        "lowerPercentile": [0.5, 0.25],
        "ownerWaitSeconds": [0, 0.25],
        "prometheusKeyFile": [""],
        "prometheusTokenFile": [""],
        "prometheusUrl": ["", "http://prometheus.monitoring:9090"],
        "requestSeconds": [1, 0.5],
        "serviceAccount": [
            {},
            {},
            {"annotations": {"team": "x"}},
            {"name": "own"},
            {"create": False, "name": "theirs"},
        ],
        "source": ["helm", "certManager"],
        "tag": ["", "1.2.3"],
        "targetPercentile": [0.9, 0.75],
        "upperPercentile": [0.95, 1],
        "usageSource": ["metrics"],
    }
)
_TEXTS: Final = ("", "a", "1", "true", "null", "0x1F", "a: b", "{{ x }}", '"', "'", "#", "é", " ", "-", "8Gi")


def values(schema: Json) -> st.SearchStrategy[Json]:
    """Any values that the schema allows."""
    found: st.SearchStrategy[Json] = _of(schema, schema["definitions"], "")
    return found


def _of(one: Json, known: Json, name: str, *, is_listed: bool = False) -> st.SearchStrategy[Any]:
    if name in _EXAMPLES:
        return st.sampled_from(_EXAMPLES[name])
    if "$ref" in one:
        return _of(known[one["$ref"].rpartition("/")[2]], known, name)
    for choice in ("allOf", "anyOf"):
        if choice in one:
            return st.one_of(*(_of(each, known, name) for each in one[choice]))
    if "enum" in one:
        return st.sampled_from(one["enum"])
    match one["type"]:
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(one.get("minimum", one.get("exclusiveMinimum", -1) + 1), one.get("maximum", 1 << 50))
        case "number":
            least = one.get("minimum", one.get("exclusiveMinimum", -1e-6) + 1e-6)
            most = one.get("maximum", one.get("exclusiveMaximum", 1e9 + 1e-6) - 1e-6)
            return st.floats(least, most, allow_nan=False).map(lambda value: round(value, 6))
        case "string":
            return _text(one)
        case "array":
            return st.lists(
                _of(one["items"], known, name, is_listed=True),
                min_size=one.get("minItems", 0),
                max_size=3,
                unique_by=str if one.get("uniqueItems") else None,
            )
    return _object(one, known, is_listed=is_listed)


def _text(one: Json) -> st.SearchStrategy[str]:
    if "pattern" not in one:
        return st.sampled_from([text for text in _TEXTS if len(text) >= one.get("minLength", 0)])
    # A pattern's end also stands before a last line break, for Python; not for others.
    text = st.from_regex(one["pattern"].replace("$", r"\Z"), fullmatch=False)
    return text.filter(lambda found: found.isascii() and len(found) <= one.get("maxLength", 100))


def _object(one: Json, known: Json, *, is_listed: bool) -> st.SearchStrategy[Json]:
    if "properties" in one:
        properties = {key: _of(each, known, key) for key, each in one["properties"].items()}
        # What a list's object must have; what the chart must have, values.yaml gives.
        required = {key: properties.pop(key) for key in one.get("required", ()) if is_listed}
        return st.fixed_dictionaries(required, optional=properties)
    keys = _of({"type": "string", **one["propertyNames"]}, known, "")
    return st.dictionaries(keys, _of(one["additionalProperties"], known, ""), max_size=2)
