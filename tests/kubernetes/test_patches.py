"""What `elastipod recommend -o patch` prints, taken by kubectl and a real API server."""

import json
from typing import Any

import pytest

from elastipod.cli.patches import patches
from tests.build import deployment_json
from tests.kubernetes.apiserver import ApiServer

pytestmark = pytest.mark.apiserver

MI = 1024**2


def row(workload: str, **more: Any) -> dict[str, Any]:
    return {
        "namespace": "shop",
        "workload": workload,
        "container": "app",
        "confidence": "enough",
        "message": "",
        "requests": {"cpu_millicores": 100, "memory_bytes": 128 * MI},
        "limits": {"cpu_millicores": None, "memory_bytes": 256 * MI},
        "target": {"cpu_millicores": 250, "memory_bytes": 200 * MI},
        **more,
    }


def test_patches_change_sizes_and_nothing_else() -> None:
    web = deployment_json("web", "shop")
    template = web["spec"]["template"] | {}
    cron_template = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    nightly = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "shop"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": cron_template}}},
    }
    with ApiServer() as server:
        server.make_namespace("shop")
        for one in (web, nightly):
            server.kubectl("apply", "-f", "-", stdin=json.dumps(one))
        text = "".join(patches([row("Deployment/web"), row("CronJob/nightly"), row("Job/genome")]))
        words = ("apply", "--server-side", "--force-conflicts", "--field-manager=elastipod", "-f", "-")
        server.kubectl(*words, stdin=text)
        found = json.loads(server.kubectl("get", "deployment/web", "-n", "shop", "-o", "json"))
        cron = json.loads(server.kubectl("get", "cronjob/nightly", "-n", "shop", "-o", "json"))
    specs = (found["spec"]["template"]["spec"], cron["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    for spec in specs:
        [container] = spec["containers"]
        assert container["image"] == web["spec"]["template"]["spec"]["containers"][0]["image"]
        assert container["resources"] == {
            "requests": {"cpu": "250m", "memory": "200Mi"},
            "limits": {"memory": "400Mi"},
        }


def test_a_pod_that_requests_as_a_whole_and_a_native_sidecar_get_what_is_said() -> None:
    web = deployment_json("web", "shop")
    spec = web["spec"]["template"]["spec"]
    image = spec["containers"][0]["image"]
    sizes = {"cpu": "2", "memory": "2Gi"}
    spec["resources"] = {"requests": sizes, "limits": sizes}
    # As tight as can be: the parts come to the whole, and the limit of one is that of all.
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": sizes}
    spec["initContainers"] = [
        {"name": "setup", "image": image, "resources": {"requests": {"cpu": "1500m", "memory": "512Mi"}}},
        {"name": "proxy", "image": image, "restartPolicy": "Always"},
    ]
    with ApiServer() as server:
        server.make_namespace("shop")
        server.kubectl("apply", "-f", "-", stdin=json.dumps(web))
        whole = {"cpu_millicores": 1500, "memory_bytes": 900 * MI + 2}
        rows = [
            row("Deployment/web", requests=amounts(1000, 1024), limits=amounts(2000, 2048), target=amounts(250, 300),
                pod_target=whole),
            row("Deployment/web", container="proxy", is_sidecar=True, limits=amounts(None, None),
                target={"cpu_millicores": 700, "memory_bytes": 600 * MI + 1}, pod_target=whole),
        ]  # fmt: skip
        words = ("apply", "--server-side", "--force-conflicts", "--field-manager=elastipod", "-f", "-")
        server.kubectl(*words, stdin="".join(patches(rows)))
        found = json.loads(server.kubectl("get", "deployment/web", "-n", "shop", "-o", "json"))
    spec = found["spec"]["template"]["spec"]
    assert spec["resources"] == {"requests": {"cpu": "1500m", "memory": str(900 * MI + 2)}, "limits": sizes}
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "250m", "memory": "300Mi"}, "limits": sizes}
    setup, proxy = spec["initContainers"]
    assert setup["resources"]["requests"] == {"cpu": "1500m", "memory": "512Mi"}
    assert (proxy["restartPolicy"], proxy["resources"]) == ("Always", {"requests": {"cpu": "700m", "memory": "600Mi"}})


def amounts(cpu: int | None, memory: int | None) -> dict[str, int | None]:
    return {"cpu_millicores": cpu, "memory_bytes": None if memory is None else memory * MI}
