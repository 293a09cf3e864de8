"""metrics-server beside a cluster, as a process of its network: `metrics.k8s.io` from a real kubelet's figures."""

from pathlib import Path
from typing import Final

from tests.kubernetes import binaries
from tests.kubernetes.calls import Calls, Json
from tests.kubernetes.processes import Processes

_PORT: Final = 4443
_GROUP: Final = "metrics.k8s.io"
_NAME: Final = "metrics-server"
_LABEL: Final = "kubernetes.io/service-name"


def start_metrics(processes: Processes, calls: Calls, kubeconfig: Path, folder: Path, address: str) -> None:
    """Start it and register its API, which answers after half a minute. Raises binaries.Missing."""
    processes.start(
        _NAME,
        [
            str(binaries.find(_NAME)),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--cert-dir={folder / _NAME}",
            f"--secure-port={_PORT}",
            "--metric-resolution=10s",
            "--kubelet-request-timeout=5s",
            "--kubelet-insecure-tls",
            "--kubelet-preferred-address-types=InternalIP",
        ],
    )
    for path, body in _objects(address).items():
        calls.post(path, body)


def _objects(address: str) -> dict[str, Json]:
    """A service whose one endpoint is that process, and the API it serves."""
    meta = {"name": _NAME, "namespace": "kube-system"}
    port = {"name": "https", "port": 443, "targetPort": _PORT, "protocol": "TCP"}
    service = {"metadata": meta, "spec": {"ports": [port]}}
    endpoints = {
        "metadata": meta | {"labels": {_LABEL: _NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": _PORT, "protocol": "TCP"}],
    }
    api = {
        "metadata": {"name": f"v1beta1.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": _NAME, "namespace": "kube-system"},
        },
    }
    return {
        "/api/v1/namespaces/kube-system/services": service,
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices": endpoints,
        "/apis/apiregistration.k8s.io/v1/apiservices": api,
    }
