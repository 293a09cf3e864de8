"""Where a node of the local cluster is other than a real one, and is meant to be.

One that names a case makes it fail on that node: should it hold after all, the run fails, and its line goes. The same
lines are in docs/local-cluster.md.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Difference:
    """What is other, and why it stays so."""

    what: str
    why: str
    case: str = ""
    node: str = ""


DIFFERENCES: Final = (
    Difference(
        "A resize beyond the whole node that its API server let through is Infeasible here, Deferred there.",
        "Kubelets up to 1.35 say Infeasible; later ones leave it to their API server, which refuses such a resize here "
        "too. The updater has to know both.",
    ),
    Difference(
        "In a simulation a CPU limit under 10m or a request under 2m is in force as asked for.",
        "Only a kernel has such a least, and none takes part in a simulation.",
        case="test_amounts_under_the_kernels_least_are_its_least",
        node="simulated",
    ),
    Difference(
        "What could not be put in force is tried again after 10 s here, after 10 s to 90 s there.",
        "A test need not wait for longer than the least that a kubelet takes.",
    ),
    Difference(
        "A kubelet that is killed right after it started a container anew for a resize may start it once more there, "
        "never here.",
        "There the size in force is noted after the start. Here before it: one restart was asked for.",
    ),
    Difference(
        "There are no Events about images and their pulling here.",
        "Nothing is pulled: commands are this machine's own, or run in thought.",
    ),
)
