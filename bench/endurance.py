"""The recommender over days of churn: 10,000 runs over 3,000 pods, of which one in twenty is another each time.

What it holds after a tenth of the runs and at the end is compared: its resident memory is to grow by a tenth at most,
and what it remembers not at all. In virtual time, without a cluster. Exit 1 where a promise is missed.
"""

import argparse
import gc
import sys
import time
from collections import deque

import numpy as np

from bench.figures import Figures
from bench.listing import resident_bytes
from elastipod.owners import Owned
from elastipod.pods import Container, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.claims import Claim
from recommender.recommending import Recommendations
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings

WORKLOADS = 300
GOAL_GROWTH = 1.1
MINUTE = 60.0


class Churn:
    """Deployments whose pods come and go, each with a rollout of its own."""

    def __init__(self, pods: int) -> None:
        self.known = Recommendations(RecommenderSettings())
        self.known.set_nodes({}, Resources(64_000, 256 * 1024**3))
        self.at = 1.8e9
        self._made = 0
        self._living: deque[tuple[Pod, Owned]] = deque()
        self._chance = np.random.default_rng(1)
        for number in range(WORKLOADS):
            target = Workload("ns", "Deployment", f"web-{number}")
            claim = Claim("ns", f"v-{number}", f"u-{number}", 1, "elastipod", target)
            self.known.set_claim(claim.key, claim)
            self.known.loaded(claim.key, {}, {})
        for _ in range(pods):
            self._add()

    def run(self, changes: int) -> None:
        """A minute: pods are replaced, usage is learned, and each status that should change is made."""
        for _ in range(changes):
            pod, owned = self._living.popleft()
            self.known.members.set_pod(pod.key, None)
            self.known.members.set_owned(owned, None)
            self._add()
        cores = self._chance.lognormal(-2, 0.3, len(self._living)).tolist()
        self.known.learn(
            [
                UsageSample("ns", pod.name, "app", self.at, used, 1e8 + 1e8 * used)
                for (pod, _), used in zip(self._living, cores, strict=True)
            ],
            self.at,
        )
        for key in self.known.decide(self.at):
            status = self.known.status(key, self.at)
            if self.known.is_worth_writing(key, status, is_first=False):
                self.known.wrote(key, status)
            self.known.settled(key)
        self.known.expire(self.at)
        self.at += MINUTE

    @property
    def remembered(self) -> int:
        """Rows, and places of containers in pods."""
        history = self.known.history
        return history.size + history.open_instances

    def _add(self) -> None:
        number, self._made = self._made % WORKLOADS, self._made + 1
        name = f"web-{number}-{self._made}"
        above = OwnerReference("Deployment", f"web-{number}", f"d-{number}", "apps/v1")
        owned = Owned("ReplicaSet", "ns", name, f"r-{self._made}", owner=above)
        owner = OwnerReference("ReplicaSet", name, owned.uid, "apps/v1")
        shown = (Container("app", requests=Resources(100, 1024**3), is_running=True),)
        pod = Pod(
            "ns", f"{name}-x", f"p-{self._made}", phase="Running", owner=owner, created_at=self.at, containers=shown
        )
        self.known.members.set_owned(None, owned)
        self.known.members.set_pod(pod.key, pod)
        self._living.append((pod, owned))


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=3_000)
    given = parser.parse_args()
    churn, figures, held = Churn(given.pods), Figures(), list[tuple[int, int]]()
    begun = time.perf_counter()
    for tenth in range(10):
        for _ in range(given.runs // 10):
            churn.run(given.pods // 20)
        gc.collect()
        held.append((resident_bytes(), churn.remembered))
        print(
            f"{(tenth + 1) * given.runs // 10} runs: {held[-1][0] / 2**20:.1f} MiB, {held[-1][1]} remembered",
            flush=True,
        )
    spent = time.perf_counter() - begun
    print(f"{given.runs} runs over {given.pods} pods in {spent:.0f} s")
    figures.show("memory at the end", held[-1][0] / 2**20, "MiB", GOAL_GROWTH * held[0][0] / 2**20)
    figures.show("remembered at the end", held[-1][1], "", float(held[0][1]))
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
