"""A release on a real API server: what comes, what changes, what is kept, and what is left."""

import base64
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.charts.pages import CHART
from tests.charts.releases import wait_defined
from tests.charts.rendering import NAMESPACE, RELEASE, needs_helm, notes, render
from tests.charts.test_rendering import CASES
from tests.kubernetes.apiserver import ApiServer, CommandFailed
from tests.localcluster.served import AUTOSCALERS
from tests.localcluster.test_validation import autoscaler

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver]

WIDE: Final = (
    "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,namespaces"
)
NARROW: Final = "deployments,daemonsets,services,secrets,serviceaccounts,roles,rolebindings,poddisruptionbudgets"
OURS: Final = "app.kubernetes.io/part-of=elastipod"
APPLY: Final = "application/apply-patch+yaml"
NOT_SERVED: Final = {"PodMonitor", "PrometheusRule", "ServiceMonitor", "Certificate", "Issuer"}
"""Kinds of other projects."""


class Release:
    """A release in a namespace of its own: no controller of this server would let one be used again."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server, self.namespace = server, namespace

    def helm(self, verb: str, *argv: str) -> str:
        chart = [str(CHART)] if verb in ("install", "upgrade") else []
        return self.server.helm(verb, RELEASE, *chart, "--namespace", self.namespace, *argv)

    def objects(self) -> list[str]:
        """Ours in this namespace and its neighbour, and those that have none but carry its name."""
        wide = self.server.kubectl("get", WIDE, "-l", OURS, "-o", "name").split()
        found = [one for one in wide if f"/{self.namespace}-" in one]
        for namespace in (self.namespace, f"{self.namespace}-node"):
            found += self.server.kubectl("get", NARROW, "-n", namespace, "-l", OURS, "-o", "name").split()
        return found

    def tls(self) -> Json:
        found: Json = self.server.calls.get(f"/api/v1/namespaces/{self.namespace}/secrets/elastipod-admission-tls")
        return found

    def bundle(self) -> str:
        """What the API server trusts."""
        name = f"mutatingwebhookconfigurations/{self.namespace}-elastipod-admission"
        found = self.server.calls.get(f"/apis/admissionregistration.k8s.io/v1/{name}")
        return str(found["webhooks"][0]["clientConfig"]["caBundle"])

    def age_certificate(self) -> None:
        where = ("-n", self.namespace, "secret/elastipod-admission-tls")
        self.server.kubectl("annotate", "--overwrite", *where, "elastipod.io/renew-after=1")


@pytest.fixture
def release(api_server: ApiServer) -> Iterator[Release]:
    """Installed."""
    found = Release(api_server, f"r-{uuid.uuid4().hex[:8]}")
    found.helm("install", "--create-namespace")
    wait_defined(api_server)
    yield found
    found.helm("uninstall", "--ignore-not-found")


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_takes_every_object_by_strict_reading(api_server: ApiServer, case: str) -> None:
    manifests = [one for one in render(CASES[case]) if one["kind"] not in NOT_SERVED]
    for namespace in {one["metadata"].get("namespace", NAMESPACE) for one in manifests}:
        api_server.make_namespace(namespace)
    # A pod is taken only where its service account is.
    for one in manifests:
        dry_run = {} if one["kind"] == "ServiceAccount" else {"dryRun": "All"}
        code, said = api_server.calls.call(
            "PATCH", path_of(one), one, APPLY, fieldManager="chart", fieldValidation="Strict", force="true", **dry_run
        )
        assert code in (200, 201), said


def test_a_release_is_installed_upgraded_rolled_back_and_leaves_only_definitions_and_objects(release: Release) -> None:
    server = release.server
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    server.calls.post(AUTOSCALERS, kind | autoscaler() | {"metadata": {"name": "kept"}})
    deployment = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/elastipod-recommender"
    assert "deployment.apps/elastipod-updater" in release.objects()

    release.helm("upgrade", "--set", "recommender.replicas=3,updater.enabled=false")
    assert server.calls.get(deployment)["spec"]["replicas"] == 3
    assert not [one for one in release.objects() if "updater" in one]
    release.helm("rollback")
    assert server.calls.get(deployment)["spec"]["replicas"] == 2
    assert "deployment.apps/elastipod-updater" in release.objects()

    release.helm("uninstall")
    # The controller that ends a namespace is not there; that it is to end is what Helm can do.
    assert release.objects() == [f"namespace/{release.namespace}-node"]
    assert server.calls.get(f"/api/v1/namespaces/{release.namespace}-node")["metadata"]["deletionTimestamp"]
    server.calls.delete(f"{AUTOSCALERS}/kept")


def test_a_certificate_is_kept_over_upgrades_and_trusted(release: Release) -> None:
    first = release.tls()
    assert set(first["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    release.helm("upgrade", "--set", "updater.replicas=3")
    assert release.tls()["data"] == first["data"]
    assert release.bundle() == first["data"]["ca.crt"]


def test_a_certificate_past_half_its_time_is_renewed_and_the_old_root_stays_trusted(release: Release) -> None:
    first = release.tls()
    release.age_certificate()
    release.helm("upgrade", "--force-conflicts")
    second = release.tls()
    assert second["data"]["tls.crt"] != first["data"]["tls.crt"]
    assert roots(second)[1:] == roots(first)
    assert release.bundle() == second["data"]["ca.crt"]
    release.age_certificate()
    release.helm("upgrade", "--force-conflicts")
    assert len(roots(release.tls())) == 2


def test_across_a_renewal_an_upgrade_with_older_values_keeps_the_root_in_use_and_a_rollback_takes_it(
    release: Release,
) -> None:
    """What the chart's README says of it: Helm looks nothing up in a rollback."""
    first = release.tls()
    release.age_certificate()
    release.helm("upgrade", "--force-conflicts", "--set", "updater.replicas=3")
    in_use = release.tls()
    older = release.server.helm("get", "values", RELEASE, "--namespace", release.namespace, "--revision", "1")
    assert older.endswith("null\n")
    release.helm("upgrade", "--force-conflicts", "--reset-values")
    assert (release.tls()["data"], release.bundle()) == (in_use["data"], in_use["data"]["ca.crt"])
    release.helm("rollback", "1", "--force-conflicts")
    assert (release.tls()["data"], release.bundle()) == (first["data"], first["data"]["ca.crt"])


def test_what_would_never_run_is_refused_by_its_name(release: Release) -> None:
    with pytest.raises(CommandFailed, match=r"updater\.priorityClassName is none-such.*no such PriorityClass"):
        release.helm("upgrade", "--set", "updater.priorityClassName=none-such")
    second = ("install", "second", str(CHART), "--namespace", release.namespace, "--set", "actuator.enabled=false")
    with pytest.raises(CommandFailed, match=r"the release elastipod has a recommender in this namespace already"):
        release.server.helm(*second)


def path_of(manifest: Json) -> str:
    """Where an object lies in the API."""
    kind, version, meta = manifest["kind"].lower(), manifest["apiVersion"], manifest["metadata"]
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    return f"{root}{within}/{plural}/{meta['name']}"


def roots(secret: Json) -> list[str]:
    text = base64.b64decode(secret["data"]["ca.crt"]).decode("ascii")
    return [one.strip() for one in text.split("-----END CERTIFICATE-----") if one.strip()]


def test_pod_security_takes_all_but_the_actuator_as_restricted(api_server: ApiServer) -> None:
    for level in ("restricted", "baseline", "privileged"):
        api_server.make_namespace(level)
        api_server.kubectl("label", "--overwrite", "namespace", level, f"pod-security.kubernetes.io/enforce={level}")
    for component, template in render().pods().items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": component}, "spec": template["spec"]}
        pod["spec"]["serviceAccountName"] = "default"
        if component != "actuator":
            api_server.calls.post("/api/v1/namespaces/restricted/pods", pod, dryRun="All")
            continue
        api_server.calls.post("/api/v1/namespaces/privileged/pods", pod, dryRun="All")
        said = api_server.calls.refused("POST", "/api/v1/namespaces/baseline/pods", pod, dryRun="All")["message"]
        assert 'violates PodSecurity "baseline' in said
        assert "hostPath" in said
        # Nothing else of it is below that level.
        assert "privileged" not in said.replace("PodSecurity", "")


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("admission.hostNetwork=true", "privileged"),
        ("containerSecurityContext.capabilities.add={SYS_ADMIN}", "privileged"),
        ("podSecurityContext.seccompProfile.type=Unconfined", "privileged"),
        ("podSecurityContext.runAsUser=0", "baseline"),
        ("podSecurityContext.seccompProfile=null", "baseline"),
        ("containerSecurityContext.allowPrivilegeEscalation=true", "baseline"),
        ("containerSecurityContext.capabilities=null", "baseline"),
        ("containerSecurityContext.capabilities.add={NET_BIND_SERVICE}", "restricted"),
        ("podSecurityContext.runAsUser=1000", "restricted"),
    ],
)
def test_the_level_of_pod_security_that_the_notes_name_is_the_strictest_that_takes_the_pods(
    api_server: ApiServer, value: str, level: str
) -> None:
    told = notes("--set", value)
    assert ("enforce=" in told) is (level != "privileged")
    assert level == "privileged" or f"enforce={level}" in told
    spec = render({}, "--set", value).pods()["admission"]["spec"] | {"serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    taken = []
    for one in ("restricted", "baseline", "privileged"):
        api_server.make_namespace(one)
        api_server.kubectl("label", "--overwrite", "namespace", one, f"pod-security.kubernetes.io/enforce={one}")
        code, _ = api_server.calls.call("POST", f"/api/v1/namespaces/{one}/pods", pod, dryRun="All")
        taken += [one] if code == 201 else []
    assert taken[0] == level
