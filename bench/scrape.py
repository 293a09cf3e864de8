"""What a scrape of the leading recommender costs, at as many containers of workloads as it tells of.

Counted are series, bytes and the CPU seconds of writing them; the floor is joining as many lines that are there
already. Exit 1 where a promise is missed.
"""

import argparse
import random
import sys
import time
from typing import Final

from bench.figures import Figures
from elastipod.pods import Container, ContainerKey, Pod, Workload
from elastipod.quantities import Resources
from recommender.exposition import accounts_text
from recommender.prices import PriceTable
from recommender.ranges import Resource
from recommender.savings import Account, Advised, Snapshot, Usage, accounts
from recommender.settings import RecommenderSettings

GOAL_SECONDS: Final = 0.3
"""For 100,000 series."""
GOAL_BYTES: Final = 200
"""A series, with names of a usual length."""
_SERIES: Final = 100_000
_PODS_EACH: Final = 3
_GI: Final = 1024**3


def fleet(containers: int) -> list[Account]:
    """Accounts of which everything is known, so that each has all of its series."""
    draw = random.Random(1)
    pods: list[tuple[Pod, Workload]] = []
    advised: dict[ContainerKey, Advised] = {}
    used: dict[tuple[str, str, str], tuple[float | None, float | None]] = {}
    usage: dict[tuple[ContainerKey, Resource], Usage] = {}
    for number in range(containers):
        workload = Workload(f"team-{number % 40}-production", "Deployment", f"checkout-service-{number}")
        key = ContainerKey(workload, "application")
        cpu, memory = draw.randint(100, 4000), draw.randint(_GI // 64, 8 * _GI)
        size, part = Resources(cpu, memory), draw.random()
        target = Resources(int(cpu * part) + 1, int(memory * part) + 1)
        advised[key] = Advised(target, 20 * part, lower=target, upper=size, uncapped=target)
        usage |= {(key, resource): Usage(part / 3, part / 2, part, 86_400.0) for resource in Resource}
        container = Container("application", requests=size, limits=size)
        for replica in range(_PODS_EACH):
            name = f"{workload.name}-5d4f8c7b9d-{replica}"
            pod = Pod(workload.namespace, name, name, phase="Running", node_name="n", containers=(container,))
            pods.append((pod, workload))
            used[pod.namespace, pod.name, container.name] = (draw.random(), draw.random() * _GI)
    return accounts(Snapshot(pods, {}, advised, used, {}, usage), PriceTable())


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", type=int, default=RecommenderSettings().most_accounted_containers)
    given = parser.parse_args()
    told = fleet(given.containers)
    began = time.process_time()
    text = accounts_text(told, 0, "USD")
    seconds = time.process_time() - began
    lines = text.decode().splitlines()
    series = sum(not line.startswith("#") for line in lines)
    began = time.process_time()
    assert len("\n".join(lines).encode()) < len(text)
    floor = time.process_time() - began
    figures, share = Figures(), _SERIES / series
    print(f"{series:,} series and {len(text):,} bytes of {given.containers:,} containers")
    figures.show(
        f"{_SERIES:,} series written", seconds * share, "s CPU", GOAL_SECONDS,
        floor=floor * share, of="joining as many lines",
    )  # fmt: skip
    figures.show("a series", len(text) / series, "bytes", GOAL_BYTES)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
