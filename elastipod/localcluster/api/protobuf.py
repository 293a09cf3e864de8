"""The protobuf bodies of kubectl's own generators (`create namespace`, `create deployment`, ...), as JSON.

Owns the wire format and the few messages those commands send, from the generated.proto files of k8s.io/api. A field
that is not listed is refused rather than lost: the same object as JSON or YAML is always taken.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import ApiFailure, bad_request

Json = dict[str, Any]

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_DEEPEST: Final = 20

Fields = Mapping[int, tuple[str, str]]
"""By number: the JSON name and the type; `[]` before it for a list, `{}` for a map from text."""


def _fields(text: str) -> dict[int, tuple[str, str]]:
    """`1 name string, 2 replicas int`."""
    found = (one.split() for one in text.split(","))
    return {int(number): (name, kind) for number, name, kind in found}


_MESSAGES: Final[Mapping[str, Fields]] = {
    "ObjectMeta": _fields(
        "1 name string, 2 generateName string, 3 namespace string, 5 uid string, 6 resourceVersion string,"
        "7 generation ignored, 8 creationTimestamp ignored, 11 labels {}string, 12 annotations {}string,"
        "14 finalizers []string"
    ),
    "Quantity": _fields("1 string string"),
    "IntOrString": _fields("1 type int, 2 intVal int, 3 strVal string"),
    "LabelSelector": _fields("1 matchLabels {}string"),
    "Empty": {},
    "Namespace": _fields("1 metadata ObjectMeta, 2 spec Empty, 3 status Empty"),
    "ConfigMap": _fields("1 metadata ObjectMeta, 2 data {}string, 3 binaryData {}bytes, 4 immutable bool"),
    "ResourceQuota": _fields("1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status Empty"),
    "ResourceQuotaSpec": _fields("1 hard {}Quantity, 2 scopes []string"),
    "PriorityClass": _fields(
        "1 metadata ObjectMeta, 2 value int, 3 globalDefault bool, 4 description string, 5 preemptionPolicy string"
    ),
    "PodDisruptionBudget": _fields("1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status BudgetStatus"),
    "PodDisruptionBudgetSpec": _fields(
        "1 minAvailable IntOrString, 2 selector LabelSelector, 3 maxUnavailable IntOrString"
    ),
    "BudgetStatus": _fields("3 disruptionsAllowed int, 4 currentHealthy int, 5 desiredHealthy int, 6 expectedPods int"),
    "Deployment": _fields("1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status Empty"),
    "DeploymentSpec": _fields(
        "1 replicas int, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy Empty, 5 minReadySeconds int,"
        "7 paused bool"
    ),
    "Job": _fields("1 metadata ObjectMeta, 2 spec JobSpec, 3 status Empty"),
    "JobSpec": _fields(
        "1 parallelism int, 2 completions int, 3 activeDeadlineSeconds int, 6 template PodTemplateSpec,"
        "7 backoffLimit int"
    ),
    "CronJob": _fields("1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status Empty"),
    "CronJobSpec": _fields("1 schedule string, 3 concurrencyPolicy string, 5 jobTemplate JobTemplateSpec"),
    "JobTemplateSpec": _fields("1 metadata ObjectMeta, 2 spec JobSpec"),
    "HorizontalPodAutoscaler": _fields("1 metadata ObjectMeta, 2 spec ScalerSpec, 3 status ScalerStatus"),
    "ScalerSpec": _fields(
        "1 scaleTargetRef CrossVersionObjectReference, 2 minReplicas int, 3 maxReplicas int, 4 metrics []MetricSpec"
    ),
    "ScalerStatus": _fields("3 currentReplicas int, 4 desiredReplicas int"),
    "CrossVersionObjectReference": _fields("1 kind string, 2 name string, 3 apiVersion string"),
    "MetricSpec": _fields("1 type string, 4 resource ResourceMetricSource"),
    "ResourceMetricSource": _fields("1 name string, 2 target MetricTarget"),
    "MetricTarget": _fields("1 type string, 2 value Quantity, 3 averageValue Quantity, 4 averageUtilization int"),
    "PodTemplateSpec": _fields("1 metadata ObjectMeta, 2 spec PodSpec"),
    "PodSpec": _fields(
        "2 containers []Container, 3 restartPolicy string, 4 terminationGracePeriodSeconds int, 6 dnsPolicy string,"
        "7 nodeSelector {}string, 10 nodeName string, 11 hostNetwork bool, 12 hostPID bool, 13 hostIPC bool,"
        "14 securityContext Empty, 16 hostname string, 17 subdomain string, 19 schedulerName string"
    ),
    "Container": _fields(
        "1 name string, 2 image string, 3 command []string, 4 args []string, 5 workingDir string,"
        "6 ports []ContainerPort, 8 resources ResourceRequirements, 13 terminationMessagePath string,"
        "14 imagePullPolicy string, 16 stdin bool, 17 stdinOnce bool, 18 tty bool, 20 terminationMessagePolicy string"
    ),
    "ContainerPort": _fields("1 name string, 2 hostPort int, 3 containerPort int, 4 protocol string, 5 hostIP string"),
    "ResourceRequirements": _fields("1 limits {}Quantity, 2 requests {}Quantity"),
    "Eviction": _fields("1 metadata ObjectMeta, 2 deleteOptions DeleteOptions"),
    "DeleteOptions": _fields(
        "1 gracePeriodSeconds int, 2 preconditions Preconditions, 3 orphanDependents bool, 4 propagationPolicy string,"
        "5 dryRun []string"
    ),
    "Preconditions": _fields("1 uid string, 2 resourceVersion string"),
    "Unknown": _fields("1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding string, 4 contentType string"),
    "TypeMeta": _fields("1 apiVersion string, 2 kind string"),
}
_KINDS: Final = (
    *(
        "Namespace",
        "ConfigMap",
        "ResourceQuota",
        "PriorityClass",
        "PodDisruptionBudget",
        "Deployment",
        "Job",
        "CronJob",
        "HorizontalPodAutoscaler",
    ),
    *("Eviction", "DeleteOptions"),
)


def json_of(body: bytes) -> Json:
    """The object in a protobuf body. Raises ApiFailure: 415 for a kind that is not taken so, 400 for rubbish."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body is no Kubernetes protobuf: it does not begin with its mark")
    try:
        envelope = _message("Unknown", body[len(_MAGIC) :], "")
        type_meta = envelope.get("typeMeta") or {}
        kind = type_meta.get("kind", "")
        if not kind:
            raise bad_request("the body is no Kubernetes protobuf: it does not say of which kind it is")
        if kind not in _KINDS:
            raise ApiFailure(
                415, f"{kind or 'this kind'} is not taken as protobuf by the local cluster: send it as JSON"
            )
        raw = base64.b64decode(envelope.get("raw", ""))
        return {"apiVersion": type_meta.get("apiVersion", ""), "kind": kind, **_message(kind, raw, "")}
    except (IndexError, UnicodeDecodeError, ValueError):
        raise bad_request("the body is no Kubernetes protobuf: it is cut short or damaged") from None


def _message(name: str, data: bytes, path: str) -> Json:
    if path.count(".") > _DEEPEST:
        raise ValueError(path)
    fields = _MESSAGES[name]
    found: Json = {}
    for number, value in _records(data):
        if number not in fields:
            if value in (0, b""):
                continue
            where = f"{path or name} (field {number})"
            raise ApiFailure(415, f"{where} is not taken as protobuf by the local cluster: send the object as JSON")
        key, kind = fields[number]
        if kind.startswith("[]"):
            found.setdefault(key, []).append(_value(kind[2:], value, f"{path}.{key}") or "")
        elif kind.startswith("{}"):
            entry = dict(_records(_bytes(value)))
            found.setdefault(key, {})[_bytes(entry.get(1, b"")).decode()] = (
                _value(kind[2:], entry.get(2, b""), f"{path}.{key}") or ""
            )
        elif (decoded := _value(kind, value, f"{path}.{key}")) is not None:
            found[key] = decoded
    return found


def _value(kind: str, value: int | bytes, path: str) -> Any:
    match kind:
        case "int":
            return _signed(value)
        case "bool" | "ignored":
            return True if value and kind == "bool" else None
        case "string":
            # Unset texts are written too, as empty ones.
            return _bytes(value).decode() or None
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "Quantity":
            return _message(kind, _bytes(value), path).get("string", "0")
    message = _message(kind, _bytes(value), path)
    if kind == "IntOrString":
        return message.get("strVal", "") if message.get("type") else message.get("intVal", 0)
    return message


def _signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("text where a number stands")
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where text stands")
    return value


def _records(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut short")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number without end")
