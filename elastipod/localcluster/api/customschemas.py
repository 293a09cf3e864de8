"""The shapes of VPA's kinds and of our own, as their definitions have them.

Owns field names only; rules between fields are customvalidation.py's.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import msgspec.inspect

from elastipod.api import ElasticNode, ElasticPolicy
from elastipod.localcluster.api.schema import (
    ANY,
    BOOLEAN,
    CUSTOM_QUANTITY,
    DATE_TIME,
    INTEGER,
    NUMBER,
    STRING,
    Shape,
    array,
    at_least,
    mapping,
    obj,
    one_of,
)
from elastipod.localcluster.api.shapes import each

_CUSTOM_AMOUNTS: Final = mapping(CUSTOM_QUANTITY)
_VERSIONED: Final = at_least(0, "integer")
_CONDITIONS: Final = array(
    obj(
        *("type", "status"),
        **each(STRING, "message reason"),
        lastTransitionTime=DATE_TIME,
        observedGeneration=_VERSIONED,
        status=STRING,
        type=STRING,
    )
)
_BOOST: Final = obj(
    cpu=obj(
        "type",
        type=one_of("Factor", "Quantity"),
        factor=at_least(1),
        quantity=CUSTOM_QUANTITY,
        durationSeconds=at_least(0),
    )
)
_HISTOGRAM: Final = obj(referenceTimestamp=DATE_TIME, bucketWeights=mapping(INTEGER), totalWeight=NUMBER)


def _derived(struct: type[msgspec.Struct], known: Mapping[str, Shape]) -> Shape:
    """The shape of one of our own kinds from its definition, with what its types do not say."""
    found = _from_type(msgspec.inspect.type_info(struct), known)
    return obj(**{name: shape for name, shape in found.fields.items() if name in ("spec", "status")})


def _from_type(info: msgspec.inspect.Type, known: Mapping[str, Shape]) -> Shape:
    match info:
        case msgspec.inspect.StructType(fields=fields):
            return obj(**{one.encode_name: known.get(one.encode_name) or _from_type(one.type, known) for one in fields})
        case msgspec.inspect.ListType(item_type=item):
            return array(_from_type(item, known))
        case msgspec.inspect.DictType(value_type=value):
            return mapping(_from_type(value, known))
        case msgspec.inspect.UnionType(types=types):
            rest = [one for one in types if not isinstance(one, msgspec.inspect.NoneType)]
            return _from_type(rest[0], known) if len(rest) == 1 else CUSTOM_QUANTITY
    return _SCALARS.get(type(info), ANY)


_SCALARS: Final[Mapping[type, Shape]] = {
    msgspec.inspect.StrType: STRING,
    msgspec.inspect.IntType: INTEGER,
    msgspec.inspect.FloatType: NUMBER,
    msgspec.inspect.BoolType: BOOLEAN,
}

_LIMIT_MODE: Final = one_of("Proportional", "Independent", "Unset")

CUSTOM: Final[dict[str, Shape]] = {
    "verticalpodautoscalers.autoscaling.k8s.io": obj(
        "spec",
        spec=obj(
            "targetRef",
            targetRef=obj("kind", "name", apiVersion=STRING, kind=STRING, name=STRING),
            updatePolicy=obj(
                "updateMode",
                updateMode=one_of("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"),
                minReplicas=at_least(1),
                evictionRequirements=array(
                    obj(
                        *("resources", "changeRequirement"),
                        resources=array(one_of("cpu", "memory")),
                        changeRequirement=one_of("TargetHigherThanRequests", "TargetLowerThanRequests"),
                    )
                ),
                evictAfterOOMSeconds=at_least(1),
            ),
            resourcePolicy=obj(
                containerPolicies=array(
                    obj(
                        "containerName",
                        containerName=STRING,
                        mode=one_of("Auto", "Off"),
                        minAllowed=_CUSTOM_AMOUNTS,
                        maxAllowed=_CUSTOM_AMOUNTS,
                        controlledResources=array(one_of("cpu", "memory")),
                        controlledValues=one_of("RequestsAndLimits", "RequestsOnly"),
                        oomBumpUpRatio=CUSTOM_QUANTITY,
                        oomMinBumpUp=CUSTOM_QUANTITY,
                        memoryAggregationIntervalSeconds=at_least(1),
                        memoryAggregationIntervalCount=at_least(1, "integer"),
                        startupBoost=_BOOST,
                    )
                )
            ),
            recommenders=array(obj("name", name=STRING), most=1),
            startupBoost=_BOOST,
        ),
        status=obj(
            recommendation=obj(
                containerRecommendations=array(
                    obj(
                        "target",
                        containerName=STRING,
                        **each(mapping(Shape("integer,string")), "target lowerBound upperBound uncappedTarget"),
                    )
                )
            ),
            conditions=_CONDITIONS,
            observedGeneration=_VERSIONED,
        ),
    ),
    "verticalpodautoscalercheckpoints.autoscaling.k8s.io": obj(
        spec=obj(vpaObjectName=STRING, containerName=STRING),
        status=obj(
            version=STRING,
            **each(DATE_TIME, "lastUpdateTime firstSampleStart lastSampleStart"),
            cpuHistogram=_HISTOGRAM,
            memoryHistogram=_HISTOGRAM,
            totalSamplesCount=INTEGER,
        ),
    ),
    "elasticpolicies.elastipod.io": _derived(
        ElasticPolicy,
        {
            "mode": one_of("Pause", "Off"),
            "maxAllowed": CUSTOM_QUANTITY,
            "horizontalScaling": one_of("Hold", "Ignore"),
            "estimator": one_of("Auto", "Histogram"),
            "sizes": one_of("ByNodeClass", "Same"),
            "cpu": _LIMIT_MODE,
            "memory": _LIMIT_MODE,
        },
    ),
    "elasticnodes.elastipod.io": _derived(ElasticNode, {}),
}
