"""One tick of the recommender over 100,000 containers: samples in, all percentiles, the statuses worth a write.

Measured against two days of history, as a recommender at work has it. The floor is one numpy pass over as many samples:
bucket by logarithm, add, one sum per container. Exit 1 where a promise is missed.
"""

import argparse
import resource
import sys
import time
from statistics import NormalDist

import numpy as np

from bench.figures import Figures
from elastipod.pods import Container, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.claims import Claim
from recommender.recommending import Recommendations
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings

GOAL_SECONDS = 1.0
GOAL_BYTES = 1024**3
MI = 1024**2
DRAWS = 60


def fill(known: Recommendations, containers: int) -> None:
    """Workloads of one pod with two containers each, so that every container has a history of its own."""
    for number in range(containers // 2):
        workload = Workload("ns", "StatefulSet", f"w{number}")
        claim = Claim("ns", f"v{number}", f"u{number}", 1, "elastipod", workload)
        known.set_claim(claim.key, claim)
        known.loaded(claim.key, {}, {})
        requests = Resources(500, 512 * MI)
        pod = Pod(
            "ns",
            f"w{number}-0",
            f"p{number}",
            phase="Running",
            owner=OwnerReference("StatefulSet", f"w{number}", f"o{number}"),
            containers=tuple(
                Container(name, requests=requests, is_running=True, started_at=1e9) for name in ("app", "proxy")
            ),
        )
        known.members.set_pod(pod.key, pod)


def samples_at(at: float, base: np.ndarray, spread: np.random.Generator) -> list[UsageSample]:
    cpu = base * spread.lognormal(0, 0.3, len(base))
    memory = base * 1e9 * spread.lognormal(0, 0.1, len(base))
    return [
        UsageSample("ns", f"w{number // 2}-0", "proxy" if number % 2 else "app", at, cpu[number], memory[number])
        for number in range(len(base))
    ]


def remember(known: Recommendations, at: float, base: np.ndarray, spread: np.random.Generator) -> None:
    """Two days of history for every container, evenly over what it uses."""
    history, rows = known.history, np.arange(len(base))
    then, weights = np.full(len(base), at - 60.0), np.full(len(base), 200.0 / DRAWS)
    for draw in spread.permutation(DRAWS):
        off = NormalDist().inv_cdf((draw + 0.5) / DRAWS)
        history.cpu.add(rows, base * np.exp(0.3 * off), weights, then)
        history.memory.add(rows, base * 1e9 * np.exp(0.1 * off), weights / 20, then)
    places = np.array(
        [known.members.instances.place("ns", f"w{row // 2}-0", ("app", "proxy")[row % 2]) for row in rows]
    )
    history.add(places, then, base, base * 1e9 * np.exp(0.25), at - 60.0)  # the running day's peak
    history.first_sample_at[rows] = at - 48 * 3600
    history.samples[rows] = 2880


def floor_seconds(containers: int) -> float:
    """What numpy alone needs for as many samples of both resources."""
    values = np.random.default_rng(1).lognormal(-2, 1, containers)
    weights = np.zeros((containers, 176), dtype=np.float32)
    rows = np.arange(containers)
    start = time.process_time()
    for _ in range(2):
        buckets = np.clip(np.log(values * 5 + 1) / np.log(1.05), 0, 175).astype(np.int64)
        np.add.at(weights.reshape(-1), rows * 176 + buckets, np.float32(0.1))
        weights.sum(axis=1)
    return time.process_time() - start


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", type=int, default=100_000)
    parser.add_argument("--ticks", type=int, default=5)
    given = parser.parse_args()
    known = Recommendations(RecommenderSettings())
    spread = np.random.default_rng(7)
    base = spread.lognormal(-2, 1.2, given.containers)
    at = 1_800_000_000.0
    fill(known, given.containers)
    remember(known, at, base, spread)
    seconds, written = [], 0
    for tick in range(given.ticks + 2):
        at += 60.0
        samples = samples_at(at, base, spread)
        start = time.process_time()
        known.learn(samples, at)
        dirty = known.decide(at)
        # The first ticks write everything for the first time.
        if tick >= 2:
            for key in dirty:
                status = known.status(key, at)
                if known.is_worth_writing(key, status, is_first=False):
                    known.wrote(key, status)
                    written += 1
                known.settled(key)
            seconds.append(time.process_time() - start)
        else:
            for key in dirty:
                known.wrote(key, known.status(key, at))
                known.settled(key)
    floor = floor_seconds(given.containers)
    figures = Figures()
    what = f"one tick over {given.containers} containers"
    figures.show(
        what, float(np.median(seconds)), "s CPU", GOAL_SECONDS, floor=floor, of="one numpy pass over as many samples"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures.show("memory at its most", peak / MI, "MiB", GOAL_BYTES / MI)
    print(f"statuses written per tick: {written / given.ticks:.0f} of {given.containers // 2}")
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
