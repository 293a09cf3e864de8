"""etcd and the API server: their certificates, users and arguments, and starting them.

The controllers and the scheduler start here too, where a cluster has nodes that run pods.
"""

import json
import secrets
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests.kubernetes import binaries
from tests.kubernetes.certificates import Authority
from tests.kubernetes.processes import Processes

ADMIN: Final = "admin"
CONTROLLERS: Final = "system:kube-controller-manager"
SCHEDULER: Final = "system:kube-scheduler"
SERVICE_ADDRESS: Final = "10.0.0.1"
"""The address that pods know the API server by."""
_PROXY: Final = "kube-apiserver-client"
"""The name that the API server shows to kubelets and to aggregated API servers."""
LOOPBACK: Final = "127.0.0.1"
READY_SECONDS: Final = 90.0
_AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where one control plane lies, listens, and who may speak to it."""

    folder: Path
    processes: Processes
    authority: Authority
    bind_address: str
    port: int
    """What the API server listens on."""
    outside: str
    """Its URL as the tests see it."""
    node_address: str = LOOPBACK
    nodes: tuple[str, ...] = ()
    tokens: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Until the API server is ready. Raises StartFailed or binaries.Missing."""
        etcd, apiserver = binaries.find("etcd"), binaries.find("kube-apiserver")
        self.processes.start("etcd", [str(etcd), *self._etcd_flags()])
        self.processes.start("kube-apiserver", [str(apiserver), *self._apiserver_flags()])
        self.processes.wait_ready("kube-apiserver", self._is_ready, READY_SECONDS)

    def start_controllers(self) -> None:
        """The controller manager and the scheduler; what they do is their readiness."""
        key = self.folder / "pki" / "service-accounts.key"
        controllers = self.kubeconfig(CONTROLLERS)
        self.processes.start(
            "kube-controller-manager",
            [
                str(binaries.find("kube-controller-manager")),
                f"--kubeconfig={controllers}",
                f"--authentication-kubeconfig={controllers}",
                f"--authorization-kubeconfig={controllers}",
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={key}",
                f"--root-ca-file={self.authority.certificate}",
                "--leader-elect=false",
            ],
        )
        scheduler = self.kubeconfig(SCHEDULER)
        self.processes.start(
            "kube-scheduler",
            [
                str(binaries.find("kube-scheduler")),
                f"--kubeconfig={scheduler}",
                f"--authentication-kubeconfig={scheduler}",
                f"--authorization-kubeconfig={scheduler}",
                "--leader-elect=false",
            ],
        )

    def token(self, user: str) -> str:
        return self.tokens.setdefault(user, secrets.token_hex(16))

    def kubeconfig(self, user: str, server: str = "") -> Path:
        """A file that leads there as that user; from inside the cluster's network, unless another URL is given."""
        path = self.folder / f"{user.replace(':', '-')}{'-outside' if server else ''}.kubeconfig"
        server = server or f"https://{self.node_address}:{self.port}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": server, "certificate-authority": str(self.authority.certificate)}}
            ],
            "users": [{"name": "u", "user": {"token": self.token(user)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "current-context": "c",
        }
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    @property
    def audit_log(self) -> Path:
        return self.processes.logs / "audit.log"

    def _etcd_flags(self) -> list[str]:
        # On sockets in a folder of our own, so that nobody else on the machine can write to it.
        client, peer = f"unix://{self.folder}/etcd.sock", f"unix://{self.folder}/peer.sock"
        return [
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ]

    def _apiserver_flags(self) -> list[str]:
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        addresses = dict.fromkeys((LOOPBACK, SERVICE_ADDRESS, self.node_address))
        alternatives = [*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)]
        server = self.authority.issue("apiserver", "/CN=kube-apiserver", alternatives)
        client = self.authority.issue("client", f"/O=system:masters/CN={_PROXY}")
        key = self.authority.signing_key("service-accounts")
        authority = self.authority.certificate
        return [
            f"--etcd-servers=unix://{self.folder}/etcd.sock",
            f"--bind-address={self.bind_address}",
            f"--advertise-address={self.node_address}",
            f"--secure-port={self.port}",
            "--permit-port-sharing=true",
            f"--tls-cert-file={server.certificate}",
            f"--tls-private-key-file={server.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=Node,RBAC",
            f"--token-auth-file={self._token_file()}",
            "--allow-privileged=true",
            f"--client-ca-file={authority}",
            f"--requestheader-client-ca-file={authority}",
            f"--requestheader-allowed-names={_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={client.certificate}",
            f"--proxy-client-key-file={client.key}",
            f"--kubelet-client-certificate={client.certificate}",
            f"--kubelet-client-key={client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={self._audit_policy()}",
            f"--audit-log-path={self.audit_log}",
            # An address of loopback is not to be told to pods, and there are none to tell. An aggregated API is then a
            # name to look up, and else a pod's address.
            "--endpoint-reconciler-type=none" if self.node_address == LOOPBACK else "--enable-aggregator-routing=true",
        ]

    def _token_file(self) -> Path:
        rows = [(ADMIN, "admin", "system:masters"), (CONTROLLERS, "kcm", ""), (SCHEDULER, "sched", "")]
        rows += [(f"system:node:{node}", node, "system:nodes") for node in self.nodes]
        path = self.folder / "tokens.csv"
        path.write_text("".join(f'{self.token(user)},{user},{uid},"{groups}"\n' for user, uid, groups in rows))
        path.chmod(0o600)
        return path

    def _audit_policy(self) -> Path:
        path = self.folder / "audit-policy.json"
        path.write_text(json.dumps(_AUDIT))
        return path

    def _is_ready(self) -> bool:
        return _ask(self.outside, self.authority.certificate, self.token(ADMIN), "/readyz") == b"ok"


def _ask(server: str, authority: Path, token: str, path: str) -> bytes | None:
    """A GET's body, or None where there is no good answer."""
    request = urllib.request.Request(f"{server}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        tls = ssl.create_default_context(cafile=str(authority))
        with urllib.request.urlopen(request, context=tls, timeout=5) as answer:
            body: bytes = answer.read()
            return body
    except (OSError, urllib.error.URLError):
        return None
