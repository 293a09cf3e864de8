"""What we remember of workloads' containers.

Owns, for all containers at once: CPU usage and memory peaks as histograms, what a container requested first, how much
history there is, and what OOM kills proved. What is known of each container in one pod is windows.py's matter.
Recommends nothing and saves nothing.

A *row* is a container of a workload (ContainerKey); an *instance* is that container in one pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from recommender.following import Followers, Steps
from recommender.histogram import (
    CPU_FIRST_BUCKET,
    MEMORY_FIRST_BUCKET,
    Floats,
    HistogramBank,
    HistogramState,
    Ints,
    buckets_from,
)
from recommender.jobrecords import JobRecord
from recommender.oom import OomEvidence, after_kill
from recommender.samples import OomKill
from recommender.settings import RecommenderSettings
from recommender.windows import InstanceKey, MemoryWindow, Windows

NO_EVIDENCE = OomEvidence()


class ContainerHistory(Struct, frozen=True):
    """All that is remembered of one container, by itself; what a checkpoint holds."""

    cpu: HistogramState | None = None
    memory: HistogramState | None = None
    first_sample_at: float | None = None
    last_sample_at: float | None = None
    samples: int = 0
    """CPU samples, as upstream counts them."""
    windows: tuple[MemoryWindow, ...] = ()
    oom: OomEvidence = NO_EVIDENCE
    steps: Steps = ()
    """The newest memory limits, and the most that was used under each."""
    before: Resources | None = None
    """What it requested when it was first seen."""
    runs: JobRecord | None = None
    """What is known of its runs, where it is a job's."""
    is_anew: bool = False
    """Whether it was lost, and what a status recommended before stands until it is enough."""
    set_aside: str = ""
    """What was saved besides and could not be used, and why."""


@dataclass(slots=True)
class Dropped:
    """Samples that were not counted, by why."""

    not_finite: int = 0
    duplicate: int = 0


class History:
    """The history of all containers."""

    def __init__(self, settings: RecommenderSettings) -> None:
        self._settings = settings
        percentiles = (settings.lower_percentile, settings.target_percentile, settings.upper_percentile)
        self.cpu = HistogramBank(buckets_from(CPU_FIRST_BUCKET), settings.half_life_seconds, percentiles)
        self.memory = HistogramBank(buckets_from(MEMORY_FIRST_BUCKET), settings.half_life_seconds, percentiles)
        self._rows: dict[ContainerKey, int] = {}
        self._containers: dict[Workload, list[str]] = {}
        self._keys: list[ContainerKey | None] = []
        self._free_rows: list[int] = []
        self.first_sample_at = np.zeros(0)
        self.last_sample_at = np.zeros(0)
        self.heard_at = np.zeros((0, 2))
        """The newest sample of CPU and of memory, each by itself."""
        self.samples: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.oom_floor = np.zeros(0)
        self.memory_interval = np.zeros(0)
        self.followers = Followers()
        self._oom: dict[int, OomEvidence] = {}
        self._before: dict[int, Resources] = {}
        self._windows = Windows()
        self.dropped = Dropped()

    @property
    def size(self) -> int:
        """How far rows go; freed ones in between are empty."""
        return len(self._keys)

    @property
    def open_instances(self) -> int:
        """Containers in living pods that are followed."""
        return len(self._windows)

    def rows(self) -> list[tuple[ContainerKey, int]]:
        """Every container that is remembered, and its row."""
        return list(self._rows.items())

    def all_rows(self) -> dict[ContainerKey, int]:
        """The row of every container that is remembered."""
        return self._rows.copy()

    def containers(self, workload: Workload) -> list[str]:
        """The containers of a workload that are remembered."""
        return sorted(self._containers.get(workload, ()))

    def key(self, row: int) -> ContainerKey | None:
        """Whose row it is; None for a free one."""
        return self._keys[row]

    def row(self, key: ContainerKey) -> int | None:
        return self._rows.get(key)

    def ensure_row(self, key: ContainerKey) -> int:
        """The row of a container, new where it has none."""
        row = self._rows.get(key)
        if row is not None:
            return row
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self._keys)
            self._keys.append(None)
        self._rows[key], self._keys[row] = row, key
        self._containers.setdefault(key.workload, []).append(key.container)
        self.cpu.reserve(row + 1)
        self.memory.reserve(row + 1)
        if row >= len(self.samples):
            grown = max(row + 1, len(self.samples) * 5 // 4 + 64)
            more = grown - len(self.samples)
            self.first_sample_at = np.pad(self.first_sample_at, (0, more), constant_values=np.nan)
            self.last_sample_at = np.pad(self.last_sample_at, (0, more), constant_values=np.nan)
            self.heard_at = np.pad(self.heard_at, ((0, more), (0, 0)), constant_values=np.nan)
            self.samples = np.pad(self.samples, (0, more))
            self.followers.reserve(grown)
            self.oom_floor = np.pad(self.oom_floor, (0, more))
            self.memory_interval = np.pad(
                self.memory_interval, (0, more), constant_values=self._settings.memory_interval_seconds
            )
        return row

    def forget(self, key: ContainerKey) -> None:
        """Let go of a container's history. Its instances must be gone."""
        row = self._rows.pop(key, None)
        if row is None:
            return
        self._free_rows.append(row)
        self._keys[row] = None
        self._containers[key.workload].remove(key.container)
        if not self._containers[key.workload]:
            del self._containers[key.workload]
        self.cpu.clear(row)
        self.memory.clear(row)
        self.followers.clear(row)
        self.first_sample_at[row] = self.last_sample_at[row] = self.heard_at[row] = np.nan
        self.samples[row] = 0
        self.oom_floor[row] = 0.0
        self.memory_interval[row] = self._settings.memory_interval_seconds
        self._oom.pop(row, None)
        self._before.pop(row, None)
        self._windows.clear(row)

    def ensure_instance(self, instance: InstanceKey, row: int) -> int:
        """The place of a container in a pod, new where it has none; a saved window of it is taken up again."""
        return self._windows.ensure(instance, row)

    def rows_of(self, instances: Ints) -> Ints:
        """The rows of instances."""
        return self._windows.rows_of(instances)

    def forget_instance(self, instance: InstanceKey) -> None:
        """The pod is gone; what it showed stays in its row."""
        self._windows.forget(instance)

    def is_new(self, instances: Ints, stamps: Floats) -> NDArray[np.bool_]:
        """Whether samples with these stamps are not those that were counted last."""
        return self._windows.is_new(instances, stamps)

    def add(self, instances: Ints, stamps: Floats, cpu_cores: Floats, memory_bytes: Floats, now: float) -> Ints:
        """Count usage that arrived now, at most one sample per instance; NaN is "not told". The rows that were touched.

        A stamp that was seen before is the same sample again. Stamps are compared and not trusted as times.
        """
        is_new = self.is_new(instances, stamps)
        self.dropped.duplicate += int(len(instances) - is_new.sum())
        has_cpu = is_new & np.isfinite(cpu_cores) & (cpu_cores >= 0)
        has_memory = is_new & np.isfinite(memory_bytes) & (memory_bytes >= 0)
        self.dropped.not_finite += int((is_new & ~has_cpu).sum() + (is_new & ~has_memory).sum())
        told = np.column_stack((np.full(len(stamps), now), cpu_cores, memory_bytes))
        self._windows.see(instances[is_new], stamps[is_new], told[is_new])
        rows = self.rows_of(instances)
        counted = rows[has_cpu]
        at = np.full(len(counted), now)
        self.cpu.add(counted, cpu_cores[has_cpu], np.full(len(counted), self._settings.cpu_sample_weight), at)
        np.add.at(self.samples, counted, 1)
        intervals = self.memory_interval[rows[has_memory]]
        self.memory.add(*self._windows.take(instances[has_memory], memory_bytes[has_memory], intervals, now))
        self.heard_at[counted, 0] = self.heard_at[rows[has_memory], 1] = now
        touched: Ints = rows[has_cpu | has_memory]
        self.first_sample_at[touched] = np.fmin(self.first_sample_at[touched], now)
        self.last_sample_at[touched] = np.fmax(self.last_sample_at[touched], now)
        return touched

    def used(self) -> Floats:
        """Per instance, its newest sample: when it came, cores, bytes; NaN where there is none."""
        return self._windows.used()

    def see_requests(self, row: int, requests: Resources) -> None:
        """A pod's container asks for this; the first time counts."""
        self._before.setdefault(row, requests)

    def all_before(self) -> dict[int, Resources]:
        """By row, what a container requested when it was first seen."""
        return dict(self._before)

    def add_oom(self, kill: OomKill, *, bump_ratio: float | None = None, min_bump_bytes: float | None = None) -> bool:
        """Take a kill as evidence; False where it was counted before."""
        settings = self._settings
        row = self.ensure_row(ContainerKey(kill.workload, kill.container))
        before = self.oom(row)
        peak = self._windows.peak(InstanceKey(kill.pod_uid, kill.container))
        after = after_kill(
            before,
            kill.kill_id,
            kill.at,
            max(float(kill.limit_bytes), peak, float(kill.request_bytes)),
            settings.oom_bump_ratio if bump_ratio is None else bump_ratio,
            settings.oom_min_bump_bytes if min_bump_bytes is None else min_bump_bytes,
        )
        self._oom[row] = after
        self.oom_floor[row] = after.floor_bytes
        if after is not before:
            # It did need more.
            self.followers.clear(row)
        return after is not before

    def oom(self, row: int) -> OomEvidence:
        """What kills have shown of a container."""
        return self._oom.get(row, NO_EVIDENCE)

    def expire_oom(self) -> list[int]:
        """Drop floors that as much usage as is kept of history has passed without another kill. The rows changed.

        Only usage that was seen counts: a gap ends no floor.
        """
        ended = [
            row
            for row, evidence in self._oom.items()
            if evidence.floor_bytes and self.last_sample_at[row] - evidence.at > self._settings.history_seconds
        ]
        for row in ended:
            self._oom[row] = OomEvidence(kill_ids=self._oom[row].kill_ids)
            self.oom_floor[row] = 0.0
        return ended

    def settle(self) -> None:
        """Let go of saved windows that no living instance has taken up."""
        self._windows.settle()

    def heard_between(self, row: int) -> tuple[float, float]:
        """The times of the first and the last sample of a container; NaN where there is none."""
        return float(self.first_sample_at[row]), float(self.last_sample_at[row])

    def last_heard_at(self, row: int) -> float | None:
        """The newest sample or kill of a container."""
        times = [float(self.last_sample_at[row]), self.oom(row).at or float("nan")]
        known = [at for at in times if not np.isnan(at)]
        return max(known, default=None)

    def export(self, row: int) -> ContainerHistory:
        """A container's history by itself, running windows included."""
        return self.export_many([row])[row]

    def export_many(self, rows: Iterable[int]) -> dict[int, ContainerHistory]:
        """Several at once, with one look at the instances."""
        return {row: self._export(row, windows) for row, windows in self._windows.of_rows(rows).items()}

    def _export(self, row: int, windows: list[MemoryWindow]) -> ContainerHistory:
        first, last = float(self.first_sample_at[row]), float(self.last_sample_at[row])
        return ContainerHistory(
            cpu=self.cpu.state(row),
            memory=self.memory.state(row),
            first_sample_at=None if np.isnan(first) else first,
            last_sample_at=None if np.isnan(last) else last,
            samples=int(self.samples[row]),
            windows=tuple(sorted(windows, key=lambda window: window.pod_uid)),
            oom=self.oom(row),
            steps=self.followers.steps(row),
            before=self._before.get(row),
        )

    def restore(self, key: ContainerKey, saved: ContainerHistory) -> None:
        """Know this of a container, in place of what was known. What it requested first is not unlearnt."""
        self.restore_many({key: saved})

    def restore_many(self, saved: Mapping[ContainerKey, ContainerHistory]) -> None:
        """The same of several, with one look at the instances."""
        self._windows.restore({self._restore(key, one): one.windows for key, one in saved.items()})

    def _restore(self, key: ContainerKey, saved: ContainerHistory) -> int:
        row = self.ensure_row(key)
        if saved.before is not None:
            self._before[row] = saved.before
        if saved.cpu is not None:
            self.cpu.load(row, saved.cpu)
        if saved.memory is not None:
            self.memory.load(row, saved.memory)
        self.first_sample_at[row] = np.nan if saved.first_sample_at is None else saved.first_sample_at
        self.last_sample_at[row] = np.nan if saved.last_sample_at is None else saved.last_sample_at
        self.heard_at[row] = self.last_sample_at[row]
        self.samples[row] = saved.samples
        self.followers.restore(row, saved.steps)
        self._oom[row] = saved.oom
        self.oom_floor[row] = saved.oom.floor_bytes
        return row

    def confidence(self) -> Floats:
        """How much CPU history each row has, in confidence intervals of one sample a step; 0 where there is none."""
        settings = self._settings
        span = (self.last_sample_at - self.first_sample_at) / settings.confidence_interval_seconds
        steps = settings.confidence_interval_seconds / settings.metrics_resolution_seconds
        confidence = np.fmin(span, self.samples / max(steps, 1.0))
        return np.nan_to_num(confidence[: self.size], nan=0.0)
