"""Waste, applied and realisable, kept apart."""

from elastipod.pods import Container, ContainerKind, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.savings import Amount, savings

MI, GI = 1024**2, 1024**3
WEB = Workload("ns", "Deployment", "web")


def pod(name: str, cpu: int, memory: int, **more: object) -> Pod:
    init = Container("init", ContainerKind.INIT, requests=Resources(9000, 9 * GI))
    sized = Container("app", requests=Resources(cpu, memory))
    owner = OwnerReference(str(more.get("kind", "ReplicaSet")), "web-1", "u")
    return Pod(
        "ns",
        name,
        name,
        phase=str(more.get("phase", "Running")),
        node_name="n1",
        owner=owner,
        containers=(init, sized) if more.get("init") else (sized,),
    )


def test_waste_is_what_is_reserved_above_the_recommendation() -> None:
    pods = [(pod(name, 1000, GI, init=True), WEB) for name in ("a", "b")]
    [found] = savings(pods, {(WEB, "app"): Resources(250, 2 * GI)}, {("ns", "a", "app"): Amount(0.1, 5.0)}, {})
    assert found.pods == 2
    assert found.reserved == Amount(2.0, 2.0 * GI)
    assert found.used == Amount(0.1, 5.0)
    assert found.waste == Amount(1.5, 0.0)
    assert found.lacking == Amount(0.0, 2.0 * GI)
    assert found.applied == Amount()


def test_applied_is_what_is_reserved_less_than_before() -> None:
    before = {("ns", "a", "app"): Resources(2000, GI)}
    [found] = savings([(pod("a", 500, GI), WEB)], {}, {}, before)
    assert found.applied == Amount(1.5, 0.0)
    assert found.waste == Amount()


def test_pods_that_are_over_reserve_nothing() -> None:
    assert savings([(pod("a", 500, GI, phase="Succeeded"), WEB)], {}, {}, {}) == []
