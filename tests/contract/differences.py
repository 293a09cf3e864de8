"""What the embedded API server does not do as a real one does, and why; docs/local-apiserver.md tells the same.

Everything else is the contract. A difference that is not here is a fault.
"""

from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]


@dataclass(frozen=True)
class Unserved:
    """A request that a real server takes and the embedded one refuses by name."""

    what: str
    """As the documentation has it."""
    method: str
    path: str
    code: int
    says: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)


NAMESPACE = "/api/v1/namespaces/default"
POD = f"{NAMESPACE}/pods/web-0"
CONFIG_MAP = {"metadata": {"name": "it"}}
JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
SECRET = b"k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret"


def _quota(**spec: Any) -> Json:
    return {"metadata": {"name": "it"}, "spec": spec}


UNSERVED: Final = (
    Unserved("server-side apply", "PATCH", POD, 415, "server-side apply is not served", {}, APPLY),
    *(
        Unserved(f"`pods/{name}`", "POST", f"{POD}/{name}", 501, f"pods/{name} is not served", {})
        for name in ("exec", "attach", "portforward", "proxy", "ephemeralcontainers")
    ),
    Unserved(
        "access reviews",
        *("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 404, "access reviews are not served"),
        {},
    ),
    Unserved(
        "token reviews", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", 404, "token reviews are not served", {}
    ),
    Unserved(
        "further custom kinds",
        *("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", 404, "further kinds can not be defined"),
        {},
    ),
    Unserved("OpenAPI v2", "GET", "/openapi/v2", 404, "OpenAPI v2 is not served"),
    Unserved("other kinds", "GET", f"{NAMESPACE}/secrets", 404, "could not find the requested resource"),
    Unserved("answers as YAML", "GET", f"{NAMESPACE}/pods", 406, "not to be had", accept="application/yaml"),
    Unserved("answers as protobuf", "GET", f"{NAMESPACE}/pods", 406, "not to be had", accept=PROTOBUF),
    Unserved(
        "protobuf of what no `kubectl create` sends",
        *("POST", f"{NAMESPACE}/configmaps", 415, "is not taken as protobuf", SECRET, PROTOBUF),
    ),
    Unserved(
        "YAML aliases",
        *("POST", f"{NAMESPACE}/configmaps", 400, "aliases are not served"),
        *(b"metadata: {name: it, labels: &a {x: y}, annotations: *a}", "application/yaml"),
    ),
    Unserved(
        "Indexed jobs",
        *("POST", "/apis/batch/v1/namespaces/default/jobs", 422, "Indexed jobs are not served"),
        {"metadata": {"name": "it"}, "spec": {"completionMode": "Indexed", "completions": 2, "template": JOB_TEMPLATE}},
    ),
    Unserved(
        "failure policies of jobs",
        *("POST", "/apis/batch/v1/namespaces/default/jobs", 422, "failure policies are not served"),
        {"metadata": {"name": "it"}, "spec": {"podFailurePolicy": {"rules": []}, "template": JOB_TEMPLATE}},
    ),
    Unserved(
        "claim templates of StatefulSets",
        *("POST", "/apis/apps/v1/namespaces/default/statefulsets", 422, "claims are not served"),
        {"metadata": {"name": "it"}, "spec": {"volumeClaimTemplates": [{"metadata": {"name": "it"}}]}},
    ),
    Unserved(
        "quotas of other resources",
        *("POST", f"{NAMESPACE}/resourcequotas", 422, "is not counted by the local cluster"),
        _quota(hard={"services": "1"}),
    ),
    Unserved(
        "scopes of quotas",
        *("POST", f"{NAMESPACE}/resourcequotas", 422, "scopes are not served"),
        _quota(hard={"pods": "1"}, scopes=["BestEffort"]),
    ),
    Unserved(
        "watches of measurements",
        *("GET", "/apis/metrics.k8s.io/v1beta1/nodes", 405, "can not be watched"),
        query={"watch": "true"},
    ),
)

OTHERWISE: Final = {
    "Field managers": "`managedFields` are not kept, as there is no server-side apply.",
    "Rights": "Whoever has the cluster's token may do everything: there is no RBAC.",
    "Service accounts": "There are none: pods get no token and no volume for it.",
    "Addresses": "Services get no cluster IP: nothing routes to one.",
    "Controllers": "What a garbage collector, a namespace or a quota controller does later is done within the request.",
    "Taints of new nodes": "A node is not tainted until it is ready: the scheduler here looks at its condition.",
    "Items of lists": "They say their kind and version, which a real server leaves out of built-in kinds.",
    "Unknown groups": "A path of no known group is answered by a Status; a real server answers in plain text.",
    "Empty parts": "What is empty, zero or null is left out: `status: {}`, `lastProbeTime: null`, a nameless kernel.",
    "Nulls": "A null in a map of texts is as good as absent; Kubernetes keeps it as an empty text.",
    "Versions to come": "A watch from a version that is still to come is told 410 at once: the cluster was made anew.",
    "Forgotten versions": "Lists and watches go back 20,000 changes; Kubernetes goes back some minutes.",
    "Protobuf of custom kinds": "It is refused with 415; Kubernetes 1.37.2 fails over it without an answer.",
    "Instants": "They are kept as they were written; Kubernetes writes them in UTC, and a Time in whole seconds.",
    "Numbers": "A whole number of a custom kind that is written 2.0 stays so; Kubernetes writes 2.",
    "Quantities": "`1e-1` and `1.Gi` are written `1e-1` and `1Gi`; Kubernetes writes `100e-3` and `1.Gi`.",
    "Warnings": "Only unknown and doubled fields are warned of, not values that are odd or deprecated.",
    "Unknown fields of statuses": "They are kept without a word; Kubernetes drops them and warns.",
    "Runtime classes": "There are none; a pod that names one or states an overhead is taken. Kubernetes answers 403.",
    "Volumes": (
        "Of emptyDir, hostPath, configMap, secret and claims name, path and size are checked; modes, items and other"
        " sorts are neither checked nor completed, nor are `subPath` and `mountPropagation`."
    ),
    "Rarer fields of pods": (
        "`resourceFieldRef.divisor`, keys and names of `env` and `envFrom`, `httpHeaders`, an empty `path`,"
        " `resourceClaims`, `supplementalGroups`, `fsGroupChangePolicy`, `procMount`, `matchLabelKeys`,"
        " `nodeTaintsPolicy`, `namespaces`, what Windows forbids beside users, groups and sysctls, `dnsConfig`,"
        " `hostAliases`, `imagePullSecrets`, `schedulingGroup`, `restartPolicyRules`, `volumeDevices`, `fileKeyRef`,"
        " `stopSignal`, `matchFields`, capabilities, SELinux, seccomp, AppArmor and `windowsOptions` are kept and not"
        " checked; behind a gate, affinity can not change."
    ),
    "Scalers and CronJobs": (
        "`behavior` is kept as it was written, neither checked nor completed, as are the selectors of metrics, names"
        " in `scaleTargetRef` and, of a CronJob's template, what only Jobs have."
    ),
    "DaemonSets": "They are not counted in an annotation (`deprecated.daemonset.template.generation`).",
    "Options out of range": (
        "`watch=maybe` means false, and true in Kubernetes; a resource version past 64 bits is told 504, and 400 there."
    ),
    "Order of refusals": "A replacement of wrong types of what is not there is told 404; Kubernetes says 400.",
    "Schemas": "OpenAPI v3 holds what kubectl needs to leave validation to the server, not what `explain` shows.",
}
"""What differs without a refusal: why, or what is to be seen."""
