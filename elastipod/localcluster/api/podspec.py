"""What the server fills in and computes for pods: defaults, canonical quantities, QoS class, sums.

Owns the rules of SetDefaults_Pod for the fields that matter here and of component-helpers' qos and resource packages.
Refuses nothing; that is validation.py's matter.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from elastipod.quantities import QuantityError, format_memory, parse_nano

Json = dict[str, Any]

_PROBE_DEFAULTS: Final = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)
_MOST_KEPT: Final = 64
"""A longer text is not worth a place in a cache."""
_NANO: Final = 1_000_000_000
_MILLI: Final = 1_000_000
_BINARY: Final = re.compile(r".*[KMGTPE]i")
_EXPONENT: Final = re.compile(r".*[eE][+-]?[0-9]+")
_DECIMAL_SUFFIXES: Final = (
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
    ("", 0),
    ("m", -3),
    ("u", -6),
)


def canonical_quantity(text: str | int | float) -> str:
    """The text that Kubernetes gives back for a quantity. Raises QuantityError."""
    shown = str(text)
    return _known_canonical(shown) if len(shown) <= _MOST_KEPT else _canonical_text(shown)


def _canonical_text(text: str) -> str:
    nano = parse_nano(text)
    if _BINARY.fullmatch(text) and nano % _NANO == 0 and abs(nano) >= 1024 * _NANO:
        return format_memory(nano // _NANO) if nano > 0 else f"-{format_memory(-nano // _NANO)}"
    if _EXPONENT.fullmatch(text):
        return text.replace("E", "e").replace("e+", "e")
    if nano == 0:
        return "0"
    for suffix, power in _DECIMAL_SUFFIXES:
        factor = 10 ** (9 + power)
        if nano % factor == 0:
            return f"{nano // factor}{suffix}"
    return f"{nano}n"


_known_canonical = lru_cache(maxsize=65_536)(_canonical_text)


def canonical_amounts(amounts: Mapping[str, Any]) -> Json:
    """Amounts in the one way that Kubernetes writes them."""
    return {key: canonical_quantity(text) for key, text in amounts.items()}


def set_pod_defaults(spec: Json, *, owner_of_spec: str = "Always") -> None:
    """Fill in a pod spec as decoding a manifest does; of a pod, or of a workload's template."""
    spec.setdefault("restartPolicy", owner_of_spec)
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for volume in spec.get("volumes") or ():
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
    for container in containers_of(spec):
        _set_container_defaults(container)
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports") or ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)
    set_resource_defaults(spec)


def set_pod_level_amounts(spec: Json) -> None:
    """A pod with amounts of its own has all of them: what its containers do together where it does not say.

    A limit is taken from containers that all have it, and is never less than the request.
    """
    wanted = spec.get("resources") or {}
    if not wanted.get("limits") and not wanted.get("requests"):
        return
    parts = {key: value for key, value in spec.items() if key not in ("resources", "overhead")}
    requests, limits = wanted.get("requests") or {}, wanted.get("limits") or {}
    together = {
        key: show_amount(key, max(amount, nano(requests.get(key, 0))))
        for key, amount in pod_amounts(parts, "limits").items()
        if key.startswith("hugepages-") or (key in ("cpu", "memory") and _all_limit(key, spec))
    }
    if limits := {**together, **limits}:
        wanted["limits"] = limits
    asked = {
        key: show_amount(key, amount)
        for key, amount in pod_amounts(parts, "requests").items()
        if key in ("cpu", "memory")
    }
    wanted["requests"] = {**limits, **asked, **requests}


def _all_limit(key: str, spec: Json) -> bool:
    return all(key in ((one.get("resources") or {}).get("limits") or {}) for one in containers_of(spec))


def _set_container_defaults(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for one in container.get("env") or ():
        if field := (one.get("valueFrom") or {}).get("fieldRef"):
            field.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            if (get := probe.get("httpGet")) is not None:
                get.setdefault("path", "/")
                get.setdefault("scheme", "HTTP")
            for key, value in _PROBE_DEFAULTS:
                probe[key] = probe.get(key) or value


def set_resource_defaults(spec: Json) -> None:
    """What every decoding of a pod fills in: requests from limits, resize policies, canonical quantities."""
    for container in containers_of(spec):
        wanted = container.get("resources")
        if not wanted:
            continue
        for part in ("requests", "limits"):
            if not wanted.get(part):
                wanted.pop(part, None)
            else:
                wanted[part] = {key: _canonical(text) for key, text in wanted[part].items()}
        if wanted.get("limits"):
            requests = wanted.get("requests") or {}
            wanted["requests"] = {**requests, **{key: v for key, v in wanted["limits"].items() if key not in requests}}


def _canonical(text: Any) -> Any:
    """Canonical and in whole thousandths where it is a quantity; what is none stays for validation to refuse."""
    shown = str(text)
    try:
        return _known_amount(shown) if len(shown) <= _MOST_KEPT else _amount(shown)
    except QuantityError:
        return text


def _amount(text: str) -> str:
    nano_amount = parse_nano(text)
    if nano_amount % _MILLI:
        return canonical_quantity(f"{-(-nano_amount // _MILLI)}m")
    # A stated plus is kept, as it is there.
    return f"+{canonical_quantity(text[1:])}" if text.startswith("+") else canonical_quantity(text)


_known_amount = lru_cache(maxsize=65_536)(_amount)


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"


def containers_of(spec: Mapping[str, Any]) -> Iterator[Json]:
    """Init containers, then containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container keeps running."""
    return container.get("restartPolicy") == "Always"


def qos_class(spec: Mapping[str, Any]) -> str:
    """As qos.ComputePodQOS: from pod-level resources where there are any, else from all containers."""
    pod_level = spec.get("resources") or {}
    sources = [pod_level] if pod_level.get("requests") or pod_level.get("limits") else []
    sources = sources or [one.get("resources") or {} for one in containers_of(spec)]
    any_set, guaranteed = False, True
    for wanted in sources:
        requests, limits = _positive(wanted.get("requests")), _positive(wanted.get("limits"))
        any_set = any_set or bool(requests or limits)
        guaranteed = guaranteed and set(limits) == {"cpu", "memory"} and requests == limits
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    found = {key: nano(text) for key, text in (amounts or {}).items() if key in ("cpu", "memory")}
    return {key: amount for key, amount in found.items() if amount > 0}


def nano(text: Any) -> int:
    """The amount in billionths; zero for what is no quantity."""
    shown = str(text)
    return _known_nano(shown) if len(shown) <= _MOST_KEPT else _nano(shown)


def _nano(text: str) -> int:
    try:
        return parse_nano(text)
    except QuantityError:
        return 0


_known_nano = lru_cache(maxsize=65_536)(_nano)


def is_quantity(text: Any) -> bool:
    """Whether it is an amount at all."""
    try:
        parse_nano(str(text))
    except QuantityError:
        return False
    return True


def amounts_of(resources: Mapping[str, Any] | None, part: str) -> dict[str, int]:
    """`requests` or `limits` in billionths."""
    return {key: nano(text) for key, text in ((resources or {}).get(part) or {}).items()}


def pod_amounts(
    spec: Mapping[str, Any], part: str, actual: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, int]:
    """What a pod asks for in all: containers and sidecars together, or the largest init step where that is more.

    `actual` holds amounts by container that count where they are larger (allocated, in force).
    """
    at_least = actual or {}

    def of(container: Mapping[str, Any]) -> dict[str, int]:
        return largest(amounts_of(container.get("resources"), part), at_least.get(container.get("name", ""), {}))

    running: dict[str, int] = {}
    for container in spec.get("containers") or ():
        running = added(running, of(container))
    sidecars: dict[str, int] = {}
    steps: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if is_sidecar(container):
            sidecars = added(sidecars, of(container))
            running = added(running, of(container))
            steps = largest(steps, sidecars)
        else:
            steps = largest(steps, added(sidecars, of(container)))
    total = largest(running, steps)
    total.update(amounts_of(spec.get("resources"), part))
    if part == "requests" or total:
        overhead = {key: nano(text) for key, text in (spec.get("overhead") or {}).items()}
        total = added(total, overhead)
    return total


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The sum for every key of either."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *(key for key in other if key not in one))}


def largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The larger of the two for every key of either."""
    keys = (*one, *(key for key in other if key not in one))
    return {key: max(one.get(key, other.get(key, 0)), other.get(key, one.get(key, 0))) for key in keys}


def show_amount(key: str, amount: int) -> str:
    """Billionths as Kubernetes would write them: memory with a binary suffix where it is exact."""
    if key.endswith("memory") and amount % (1024 * _NANO) == 0:
        return format_memory(amount // _NANO)
    return canonical_quantity(f"{amount}n")
