"""The shapes that several kinds have in common: metadata, selectors, amounts, what a status tells.

Owns field names only.
"""

from typing import Final

from elastipod.localcluster.api.schema import (
    ANY,
    BOOLEAN,
    INTEGER,
    QUANTITY,
    STRING,
    TIME,
    Shape,
    array,
    mapping,
    obj,
    partly,
)

STRINGS: Final = array(STRING)
STRING_MAP: Final = mapping(STRING)
AMOUNTS: Final = mapping(QUANTITY)
OBJECTS: Final = array(mapping(ANY))
OBJECT: Final = mapping(ANY)


def each(shape: Shape, names: str) -> dict[str, Shape]:
    """One shape for several fields, named in one text."""
    return dict.fromkeys(names.split(), shape)


METADATA: Final = obj(
    **each(ANY, "managedFields selfLink"),
    **each(STRING, "name generateName namespace uid resourceVersion"),
    **each(TIME, "creationTimestamp deletionTimestamp"),
    generation=INTEGER,
    deletionGracePeriodSeconds=INTEGER,
    labels=STRING_MAP,
    annotations=STRING_MAP,
    finalizers=STRINGS,
    ownerReferences=array(
        obj(
            *("apiVersion", "kind", "name", "uid"),
            **each(STRING, "apiVersion kind name uid"),
            controller=BOOLEAN,
            blockOwnerDeletion=BOOLEAN,
        )
    ),
)
SELECTOR: Final = obj(
    matchLabels=STRING_MAP,
    matchExpressions=array(obj(key=STRING, operator=STRING, values=STRINGS)),
)
TOLD: Final = array(
    partly(
        **each(STRING, "type status reason message"),
        **each(TIME, "lastTransitionTime lastProbeTime lastHeartbeatTime lastUpdateTime"),
        observedGeneration=INTEGER,
    )
)
STATUS: Final = partly(
    conditions=TOLD,
    **each(TIME, "startTime completionTime lastScheduleTime lastSuccessfulTime lastScaleTime"),
    observedGeneration=INTEGER,
)
"""What the statuses of built-in kinds have in common."""
