"""Whose a pod is, for series that name pods only: those of the kubelets.

Owns the names that Kubernetes' own controllers give to pods. A name is a guess, so it counts where elastipod's own
metrics tell of a workload of that kind and name with such a container; the longest name of those that could be meant
does. The recommender's way from a name to an owner is its own.
"""

from typing import Final

from elastipod.dashboards.asking import BY_CONTAINER, CHOSEN, once

BY_POD: Final = (*BY_CONTAINER, "pod")
_BEGINS_AS_CHOSEN: Final = '"($workload)(-.*)?"'
_THERE: Final = 'cluster=~"$cluster", namespace=~"$namespace"'
OF_PODS: Final = f'{_THERE}, pod=~{_BEGINS_AS_CHOSEN}, container!="", container!="POD"'
"""Pods that may be of the chosen workloads; others are among them."""
_TOLD: Final = "elastipod_workload_pods"
_LIKE_CHOSEN: Final = f"{_THERE}, workload=~{_BEGINS_AS_CHOSEN}"
_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes endings of names from."""
_ENDING: Final = f"-{_RANDOM}{{5}}"
FORMS: Final = (
    ("Pod", "(.+)"),
    ("StatefulSet", "(.+)-[0-9]+"),
    *((kind, f"(.+){_ENDING}") for kind in ("DaemonSet", "ReplicaSet", "ReplicationController", "Job")),
    # An indexed one's.
    ("Job", f"(.+)-[0-9]+{_ENDING}"),
    ("CronJob", f"(.+)-[0-9]{{8}}(-[0-9]+)?{_ENDING}"),
    # A long name is cut before its ending is put to it.
    ("Deployment", f"(.+)-{_RANDOM}{{6,10}}-?{_RANDOM}{{5}}"),
)
"""How pods of a kind are named for their workload, which is the first group; the longest name first."""


def of_chosen(series: str) -> str:
    """Series of pods, with the workload that each pod is of; those of chosen workloads."""
    by = ", ".join(BY_CONTAINER)

    def of_kind(kind: str, form: str) -> str:
        named = f'label_replace({series}, "workload", "$1", "pod", "{form}")'
        told = once(_TOLD, f'{_LIKE_CHOSEN}, workload_kind="{kind}"', BY_CONTAINER)
        return f'(label_replace({named}, "workload_kind", "{kind}", "pod", ".+") and on ({by}) {told})'

    each_once = " or on (cluster, namespace, pod, container) ".join(of_kind(*one) for one in FORMS)
    return f"({each_once}) and on ({by}) {once(_TOLD, CHOSEN, BY_CONTAINER)}"
