"""What does not fit: now, and so waits for room, or never; and who comes first when there is room."""

from elastipod.pods import Pod
from elastipod.quantities import Resources
from tests.contract_node.nodes import Node, OnePod
from tests.contract_node.workers import IDLE, MIB, Work, ends, worker


def crowded(node: Node, *, free: int, work: Work = IDLE, **spec: object) -> OnePod:
    """A neighbour that leaves so many millicores to those with 100m that come after it: none."""
    return node.run("neighbour", worker(work=work, cpu=f"{node.size.cpu - free}m", memory="16Mi"), **spec)


def wants(pod: OnePod, cpu: int) -> None:
    pod.resize(requests={"cpu": f"{cpu}m"})


def allocated_cpu(pod: OnePod) -> int:
    found = pod.app().allocated
    assert found is not None
    return found.cpu


def test_a_resize_without_room_waits_and_says_why(node: Node) -> None:
    crowded(node, free=200)
    web = node.run("web", worker(cpu="100m"))
    wants(web, 300)
    waiting = web.until_waiting()
    told = waiting.resize_pending
    assert told is not None
    most = node.size.cpu
    why = f"Node didn't have enough resource: cpu, requested: 300, used: {most - 200}, capacity: {most}"
    assert (told.message, told.observed_generation) == (why, 2)
    assert waiting.observed_generation == 2
    assert waiting.resize_in_progress is None
    app = web.app()
    assert app.allocated == app.actual_requests == Resources(100, 128 * MIB)
    event = web.until_told("ResizeDeferred")
    assert event.type == "Warning"
    assert event.message.startswith("Pod resize OutOfcpu: {")
    assert why in event.message


def test_memory_without_room_waits_too(node: Node) -> None:
    node.run("neighbour", worker(memory=str(node.size.memory - 200 * MIB)))
    web = node.run("web", worker(memory="100Mi"))
    web.resize(requests={"memory": "300Mi"})
    told = web.until_waiting().resize_pending
    assert told is not None
    most = node.size.memory
    asked = f"requested: {300 * MIB}, used: {most - 200 * MIB}, capacity: {most}"
    assert told.message == f"Node didn't have enough resource: memory, {asked}"


def test_it_happens_when_a_neighbour_is_deleted(node: Node) -> None:
    neighbour = crowded(node, free=200)
    web = node.run("web", worker(cpu="100m"))
    wants(web, 300)
    web.until_waiting()
    neighbour.delete()
    web.until_settled()
    assert web.app().actual_requests == Resources(300, 128 * MIB)


def test_it_happens_when_a_neighbour_ends(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"))
    neighbour = crowded(node, free=200, work=ends(node.notice_seconds), restartPolicy="Never")
    wants(web, 300)
    web.until_waiting()
    neighbour.until(lambda one: one.phase == "Succeeded", "it has ended")
    web.until_settled()
    assert allocated_cpu(web) == 300


def test_it_happens_when_a_neighbour_shrinks(node: Node) -> None:
    neighbour = crowded(node, free=200)
    web = node.run("web", worker(cpu="100m"))
    wants(web, 300)
    web.until_waiting()
    wants(neighbour, 100)
    web.until_settled()
    assert allocated_cpu(web) == 300


def test_it_happens_when_less_is_asked_for(node: Node) -> None:
    crowded(node, free=200)
    web = node.run("web", worker(cpu="100m"))
    wants(web, 300)
    web.until_waiting()
    wants(web, 150)
    web.until_settled()
    assert allocated_cpu(web) == 150


def test_a_size_that_is_put_back_waits_no_more(node: Node) -> None:
    crowded(node, free=200)
    web = node.run("web", worker(cpu="100m"))
    before = web.app()
    wants(web, 300)
    web.until_waiting()
    wants(web, 100)
    assert web.until_settled().observed_generation == 3
    assert web.app() == before


def test_who_waits_and_asks_for_other_sizes_is_told_of_the_last(node: Node) -> None:
    crowded(node, free=200)
    web = node.run("web", worker(cpu="100m"))
    for cpu in (300, 400, 350):
        wants(web, cpu)
    told = web.until_waiting().resize_pending
    assert told is not None
    assert "requested: 350" in told.message
    assert told.observed_generation == 4


def test_who_asks_for_less_is_not_held_up_by_those_who_wait(node: Node) -> None:
    crowded(node, free=400)
    web = node.run("web", worker(cpu="100m"))
    other = node.run("other", worker(cpu="200m"))
    wants(web, 500)
    web.until_waiting()
    wants(other, 150)
    other.until_settled()
    assert allocated_cpu(other) == 150
    web.until_waiting()


def test_a_pod_gets_all_that_it_asks_for_or_nothing(node: Node) -> None:
    crowded(node, free=400)
    web = node.run("web", worker(cpu="100m"), worker("other", cpu="100m"))
    web.resize_all({"app": {"requests": {"cpu": "150m"}}, "other": {"requests": {"cpu": "600m"}}})
    web.until_waiting()
    for name in ("app", "other"):
        assert web.app(name).allocated == web.app(name).actual_requests == Resources(100, 128 * MIB)


def test_of_those_who_wait_the_more_important_comes_first(node: Node) -> None:
    neighbour = crowded(node, free=300)
    low = node.run("low", worker(cpu="100m"))
    high = node.run("high", worker(cpu="100m"), priorityClassName=node.priority("important", 1000))
    most = node.size.cpu - 200
    for pod in (low, high):
        wants(pod, most)
        pod.until_waiting()
    neighbour.delete()
    high.until_settled()
    assert allocated_cpu(high) == most
    low.until_waiting()
    assert allocated_cpu(low) == 100


def test_of_those_who_wait_the_guaranteed_comes_first(node: Node) -> None:
    neighbour = crowded(node, free=300)
    burstable = node.run("burstable", worker(cpu="100m", memory="32Mi"))
    guaranteed = node.run("guaranteed", worker(cpu="100m", memory="32Mi", cpu_limit="100m", memory_limit="32Mi"))
    most = node.size.cpu - 200
    wants(burstable, most)
    burstable.until_waiting()
    guaranteed.resize(requests={"cpu": f"{most}m"}, limits={"cpu": f"{most}m"})
    guaranteed.until_waiting()
    neighbour.delete()
    guaranteed.until_settled()
    assert allocated_cpu(guaranteed) == most
    assert allocated_cpu(burstable) == 100


def test_of_those_who_wait_the_first_comes_first(node: Node) -> None:
    neighbour = crowded(node, free=300)
    pods = [node.run(name, worker(cpu="100m")) for name in ("later", "earlier")]
    later, earlier = pods
    most = node.size.cpu - 200
    wants(earlier, most)
    since = earlier.until_waiting().resize_pending
    assert since is not None
    # Their order is told in whole seconds.
    node.until(node.now, lambda now: now >= since.since + 1)
    wants(later, most)
    later.until_waiting()
    neighbour.delete()
    earlier.until_settled()
    assert (allocated_cpu(earlier), allocated_cpu(later)) == (most, 100)


def test_a_size_beyond_the_node_is_refused_and_the_spec_stays(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"))
    code, status = web.try_resize({"app": {"requests": {"cpu": f"{node.size.cpu + 100}m"}}})
    assert (code, status["reason"]) == (403, "Forbidden")
    pod = web.read()
    assert (pod.generation, pod.containers[0].requests.cpu) == (1, 100)


def beyond(node: Node, web: OnePod, cpu: int) -> Pod:
    """A resize that the API let through, as it does where the node was larger a moment ago."""
    size = node.size
    node.kill_kubelet()
    node.tell_size(Resources(10 * size.cpu, size.memory))
    changes = {"app": {"requests": {"cpu": f"{cpu}m"}}}
    node.until(lambda: web.try_resize(changes)[0], lambda code: code == 200, "the API lets it through")
    node.tell_size(size)
    node.start_kubelet()
    return web.until_waiting(node.beyond)


def test_what_can_never_fit_is_not_given_and_says_why(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"))
    most = node.size.cpu
    told = beyond(node, web, most + 100).resize_pending
    assert told is not None
    assert f": cpu, requested: {most + 100}, " in told.message
    assert f"capacity: {most}" in told.message
    assert told.observed_generation == 2
    assert web.app().allocated == web.app().actual_requests == Resources(100, 128 * MIB)
    event = web.until_told(f"Resize{node.beyond}")
    assert event.type == "Warning"
    assert told.message in event.message


def test_a_smaller_size_is_given_after_one_that_can_never_fit(node: Node) -> None:
    web, other = (node.run(name, worker(cpu="100m")) for name in ("web", "other"))
    beyond(node, web, node.size.cpu + 100)
    wants(other, 200)
    other.until_settled()
    wants(web, 250)
    web.until_settled()
    assert (allocated_cpu(web), allocated_cpu(other)) == (250, 200)


def test_a_size_that_can_never_fit_is_put_back_and_forgotten(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"))
    beyond(node, web, node.size.cpu + 100)
    wants(web, 100)
    assert web.until_settled().observed_generation == 3
    assert (allocated_cpu(web), web.app().restart_count) == (100, 0)
