"""New pods of an API server in the same process get what the webhook would give them."""

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from elastipod.kube.resources import ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from tests.build import deployment_json, metadata_json, owner_json, pod_json, template_json
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, MERGE, PODS, Served
from updater.admission.inprocess import NewPods
from updater.admission.settings import AdmissionSettings

Json = dict[str, Any]
KIND = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
POLICIES = "/apis/elastipod.io/v1alpha1/namespaces/default/elasticpolicies"


class Sized(Served):
    """A server that sizes new pods, with a Deployment's ReplicaSet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        new_pods = NewPods(AdmissionSettings(**settings))
        self.api = ApiServer(self.clock, self.store, spread=random.Random(7), size_new=new_pods.patch)
        deployment = self.post(DEPLOYMENTS, deployment_json("web"))
        body = {
            "metadata": metadata_json("web-1", owner=owner_json("Deployment", "web", deployment["metadata"]["uid"])),
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template_json({"app": "web"})},
        }
        self.owner = owner_json("ReplicaSet", "web-1", self.post(REPLICA_SETS, body)["metadata"]["uid"])

    def autoscaler(self, mode: str, name: str = "web", target: Json | None = None) -> None:
        target = target or {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        policy = {"updatePolicy": {"updateMode": mode}, "recommenders": [{"name": "elastipod"}]}
        self.post(AUTOSCALERS, KIND | {"metadata": {"name": name}, "spec": {"targetRef": target, **policy}})
        sizes = {"cpu": "250m", "memory": "200Mi"}
        advice = {"containerName": "app", "target": sizes, "lowerBound": sizes, "upperBound": sizes}
        status = {"status": {"recommendation": {"containerRecommendations": [advice]}}}
        self.patch(f"{AUTOSCALERS}/{name}/status", status, MERGE)

    def requests(self, **query: str) -> Json:
        """What a new pod asks for."""
        made = self.post(PODS, pod_json("web-1-a", owner=self.owner, cpu="100m", memory="64Mi"), **query)
        found: Json = made["spec"]["containers"][0]["resources"]["requests"]
        return found


OWN = {"cpu": "100m", "memory": "64Mi"}
ADVISED = {"cpu": "250m", "memory": "200Mi"}


@pytest.mark.parametrize("mode", ["Initial", "Recreate", "Auto", "InPlaceOrRecreate"])
def test_a_new_pod_gets_the_target_of_its_autoscaler(mode: str) -> None:
    served = Sized()
    served.autoscaler(mode)
    assert served.requests(dryRun="All") == ADVISED
    assert served.requests() == ADVISED
    annotations = served.get(f"{PODS}/web-1-a")["metadata"]["annotations"]
    assert annotations["elastipod.io/sized"] == "app: cpu request 100m -> 250m, memory request 64Mi -> 200Mi"


def test_a_new_pod_of_a_group_gets_the_target_of_the_group_r43() -> None:
    served = Sized()
    served.autoscaler("Auto", target={"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "name": "ours"})
    assert served.requests(dryRun="All") == OWN
    policy = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "metadata": {"name": "ours"}}
    served.post(POLICIES, policy | {"spec": {"selector": {"kind": "Deployment"}}})
    assert served.requests() == ADVISED


def test_under_mode_off_without_advice_and_in_a_namespace_that_is_left_alone_it_keeps_its_size() -> None:
    served, without, left = Sized(), Sized(), Sized(namespaces_off=("default",))
    served.autoscaler("Off")
    left.autoscaler("Auto")
    assert [one.requests() for one in (served, without, left)] == [OWN, OWN, OWN]


def test_a_size_that_is_stated_goes_before_advice() -> None:
    served = Sized()
    served.autoscaler("Auto")
    stated = json.dumps({"app": {"requests": {"cpu": "700m"}}})
    served.patch(f"{DEPLOYMENTS}/web", {"metadata": {"annotations": {"elastipod.io/resources": stated}}}, MERGE)
    assert served.requests() == {"cpu": "700m", "memory": "64Mi"}


def test_an_object_that_can_not_be_read_is_left_out_and_whatever_fails_costs_no_pod() -> None:
    pod = pod_json("web-0", annotations={"elastipod.io/resources": '{"app": {"requests": {"cpu": "700m"}}}'})
    new_pods = NewPods(AdmissionSettings())

    def gone(_: ResourceType, __: str) -> Iterable[bytes]:
        raise OSError("the disk is gone")

    assert new_pods.patch(pod, lambda *_: [b"{", b"[]"])
    assert new_pods.patch(pod, gone) == []
