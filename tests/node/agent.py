"""The actuator's node side as a process, with an API server and a kubelet of a few lines: for the machine.

`python -m tests.node.agent STATE GROUP LIMIT OPTIONS`, OPTIONS a JSON object: api ("yes", "silent", "no"), room (bool),
gap (fraction), ceiling (bytes). Writes what happened to STATE/told, one line each.
"""

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path

from actuator.budget import NodeBudget
from actuator.cgroupfs import CgroupFs
from actuator.heartbeat import Heartbeat
from actuator.journal import Journal, boot_id
from actuator.kernelmemory import KernelMemory
from actuator.memory import Target
from actuator.outcomes import Outcome, Watched
from actuator.spikerules import SpikeRules
from actuator.spikewords import Accepted, AskApi, Refused, Tell
from actuator.watcher import Watcher
from elastipod.clock import SystemClock
from elastipod.reasons import Reason

API_SECONDS = 0.05


def main() -> None:
    """Until killed."""
    state, group, limit, options = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    journal = Journal(state, boot_id())
    is_leased = "lease/k" in journal.records
    journal.put({"lease/k": {"version": 2, "parent": "", "group": group}})
    rules = SpikeRules(gap_fraction=options.get("gap", 0.0), answer_seconds=options.get("answer_seconds", 1.0))
    reserve = 0 if options.get("room", True) else 1 << 50
    watcher = Watcher(KernelMemory(CgroupFs()), rules, NodeBudget(reserve), SystemClock(), Heartbeat(state))
    told = (state / "told").open("a", buffering=1)

    ceiling = options.get("ceiling", 8 * limit)
    pod = group.rpartition("/")[0]
    target = Target("k", "1", "c", "c", pod, group, limit, ceiling, limit, 5.0, is_leased=is_leased)

    def answer(key: str, asked: int) -> None:
        if options.get("api", "yes") == "no":
            watcher.answer(key, Refused(Reason.REFUSED))
        else:
            watcher.answer(key, Accepted(asked))
            watcher.add(replace(target, spec_bytes=asked, in_force_bytes=asked))

    def on_outcome(key: str, outcome: Outcome) -> None:
        told.write(f"{_name(outcome)}\n")
        if isinstance(outcome, AskApi) and options.get("api", "yes") != "silent":
            threading.Timer(API_SECONDS, answer, (key, outcome.limit_bytes)).start()
        if isinstance(outcome, Watched):
            (state / "ready").touch()

    watcher.on_outcome = on_outcome
    watcher.start()
    watcher.add(target)
    watcher.complete()
    threading.Event().wait()


def _name(outcome: Outcome) -> str:
    return outcome.reason.value if isinstance(outcome, Tell) else type(outcome).__name__


if __name__ == "__main__":
    main()
