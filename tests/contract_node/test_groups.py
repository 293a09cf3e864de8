"""What is in force in the cgroups of a pod and its containers."""

from elastipod.localcluster.node.hands import GroupLimits
from tests.contract_node.nodes import Json, Node
from tests.contract_node.workers import MIB, restarts_for, worker


def test_the_groups_of_a_pod_have_what_it_asks_for(node: Node) -> None:
    sizes: Json = {"cpu": "100m", "memory": "32Mi", "cpu_limit": "300m", "memory_limit": "64Mi"}
    web = node.run(
        "web", worker(**sizes), worker("other", cpu="50m", memory="16Mi", cpu_limit="200m", memory_limit="32Mi")
    )
    assert web.in_force("app") == GroupLimits(100, 300, 64 * MIB)
    assert web.in_force("other") == GroupLimits(50, 200, 32 * MIB)
    assert web.in_force() == GroupLimits(150, 500, 96 * MIB)


def test_a_guaranteed_pod_has_its_groups_in_another_place(node: Node) -> None:
    sizes: Json = {"cpu": "100m", "memory": "64Mi"}
    web = node.run("web", worker(cpu="100m", memory="64Mi", cpu_limit="100m", memory_limit="64Mi"))
    assert web.pod_group() == f"kubepods/pod{web.uid}"
    assert web.in_force("app") == web.in_force() == GroupLimits(100, 100, 64 * MIB)
    web.resize(requests=sizes | {"cpu": "250m"}, limits=sizes | {"cpu": "250m"})
    web.until_settled()
    assert web.in_force("app") == web.in_force() == GroupLimits(250, 250, 64 * MIB)


def test_a_resize_reaches_the_groups(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", memory="32Mi", cpu_limit="200m", memory_limit="64Mi"))
    for cpu, cpu_limit, mib in ((250, 500, 128), (60, 120, 48), (300, 400, 48), (50, 600, 96)):
        web.resize(requests={"cpu": f"{cpu}m"}, limits={"cpu": f"{cpu_limit}m", "memory": f"{mib}Mi"})
        web.until_settled()
        assert web.in_force("app") == web.in_force() == GroupLimits(cpu, cpu_limit, mib * MIB)


def test_a_pod_has_no_limit_where_a_container_has_none(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", cpu_limit="200m", memory_limit="200Mi"), worker("other", cpu="50m"))
    assert web.in_force("other") == GroupLimits(50, None, None)
    assert web.in_force() == GroupLimits(150, None, None)
    web.resize(limits={"cpu": "400m", "memory": "300Mi"})
    web.until_settled()
    assert web.in_force("app") == GroupLimits(100, 400, 300 * MIB)
    assert web.in_force() == GroupLimits(150, None, None)


def test_a_pod_gets_a_limit_with_the_last_container_that_gets_one(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"), worker("other", cpu="50m"))
    web.resize(limits={"memory": "200Mi", "cpu": "300m"})
    web.until_settled()
    assert web.in_force() == GroupLimits(150, None, None)
    web.resize("other", limits={"memory": "150Mi", "cpu": "100m"})
    web.until_settled()
    assert web.in_force("other") == GroupLimits(50, 100, 150 * MIB)
    assert web.in_force() == GroupLimits(150, 400, 350 * MIB)


def test_amounts_under_the_kernels_least_are_its_least(node: Node) -> None:
    web = node.run("web", worker(cpu="1m", cpu_limit="4m"))
    assert web.in_force("app") == GroupLimits(2, 10, None)
    web.resize(requests={"cpu": "2m"}, limits={"cpu": "9m"})
    web.until_settled()
    assert web.in_force("app") == GroupLimits(2, 10, None)


def test_a_sidecar_counts_with_its_pod(node: Node) -> None:
    proxy = worker("proxy", cpu="50m", memory="16Mi", cpu_limit="100m", memory_limit="32Mi", restartPolicy="Always")
    web = node.run("web", worker(cpu="100m", memory="32Mi", cpu_limit="200m", memory_limit="64Mi"), inits=[proxy])
    assert web.in_force("proxy") == GroupLimits(50, 100, 32 * MIB)
    assert web.in_force() == GroupLimits(150, 300, 96 * MIB)


def test_a_container_that_is_restarted_for_a_resize_has_its_new_size(node: Node) -> None:
    policy = restarts_for("cpu", "memory")
    sizes: Json = {"cpu": "100m", "memory": "32Mi", "cpu_limit": "200m", "memory_limit": "64Mi"}
    web = node.run("web", worker(**sizes, resizePolicy=policy))
    for count, (cpu, mib) in enumerate(((400, 128), (120, 48)), 1):
        web.resize(requests={"cpu": f"{cpu // 2}m"}, limits={"cpu": f"{cpu}m", "memory": f"{mib}Mi"})
        web.until(lambda one: one.is_ready and one.containers[0].restart_count >= count, "it runs again")  # noqa: B023
        web.until_settled()
        assert web.in_force("app") == web.in_force() == GroupLimits(cpu // 2, cpu, mib * MIB)


def test_a_pod_that_is_gone_has_no_group(node: Node) -> None:
    web = node.run("web", worker())
    group = web.pod_group()
    assert node.has_group(group)
    web.delete()
    node.until(lambda: node.has_group(group), lambda there: not there, "its cgroup is gone")
