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
