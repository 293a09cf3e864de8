"""What can be set for the admission webhook."""

import math
import re
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Gives pods their size when they are created, as recommendations and stated sizes ask."""

    recommender_names: tuple[str, ...] = ("elastipod",)
    """Only VerticalPodAutoscalers that chose one of these recommenders count; `default` replaces upstream's."""
    namespaces_off: tuple[str, ...] = ()
    """Namespaces whose pods are never touched."""
    webhook_host: str = "127.0.0.1"
    """Where the API server's requests are taken, by TLS; `0.0.0.0` in a pod."""
    webhook_port: int = 8443
    """The port of these; 0 takes any that is free."""
    certificate_folder: str = "/etc/elastipod/tls"
    """Where tls.crt and tls.key lie, as a Secret of type kubernetes.io/tls is mounted."""
    interval_seconds: float = 5.0
    """How often the certificate's files are looked at."""
    request_seconds: float = 1.0
    """A request that takes longer is given up, and the pod is created as its template says."""
    owner_wait_seconds: float = 0.25
    """How long a pod waits for its owner, which may be younger than what we have heard of the cluster."""
    canary_namespace: str = ""
    """Where a ConfigMap is created as a dry run, to see whether it comes back patched; empty for none."""
    canary_seconds: float = 60.0
    """How often such a dry run is made."""

    max_boost_cpu_millicores: int = 0
    """No startup boost takes a container's CPU request above this (as max-allowed-cpu-boost); 0 sets no amount."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{one.name} is {value}; it must be a number that is not below 0")
        for name in ("interval_seconds", "request_seconds", "canary_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if not re.fullmatch(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?", self.canary_namespace, re.ASCII):
            raise ValueError(f"canary_namespace is {self.canary_namespace!r}, which no namespace can be called")
        if not 0 <= self.webhook_port <= 65_535:
            raise ValueError(f"webhook_port is {self.webhook_port}; it can be 0 to 65535")
        if not self.owner_wait_seconds < self.request_seconds:
            raise ValueError("owner_wait_seconds must be below request_seconds")
