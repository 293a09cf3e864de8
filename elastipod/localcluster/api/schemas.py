"""The shapes of the built-in kinds that are served, as far as they are checked.

Owns field names only. Kinds without an entry here are taken as they come; inside, ANY is what concerns nobody here.
"""

from typing import Final

from elastipod.localcluster.api.podschemas import CONTAINER_STATUSES, IPS, POD_SPEC
from elastipod.localcluster.api.schema import (
    ANY,
    BOOLEAN,
    BYTES,
    INT32,
    INT_OR_STRING,
    INTEGER,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    Shape,
    array,
    at_least,
    mapping,
    obj,
    partly,
)
from elastipod.localcluster.api.shapes import (
    AMOUNTS,
    METADATA,
    OBJECT,
    OBJECTS,
    SELECTOR,
    STRING_MAP,
    STRINGS,
    TOLD,
    each,
)

TEMPLATE: Final = obj(metadata=METADATA, spec=POD_SPEC)
_JOB_SPEC: Final = obj(
    **each(ANY, "podFailurePolicy successPolicy"),
    **each(STRING, "completionMode managedBy podReplacementPolicy"),
    **each(
        at_least(0),
        ("backoffLimit backoffLimitPerIndex completions maxFailedIndexes parallelism ttlSecondsAfterFinished"),
    ),
    activeDeadlineSeconds=at_least(0, "integer"),
    manualSelector=BOOLEAN,
    selector=SELECTOR,
    suspend=BOOLEAN,
    template=TEMPLATE,
)
_RANGE: Final = obj(
    type=STRING,
    **each(AMOUNTS, "default defaultRequest max maxLimitRequestRatio min"),
)
_REPLICATED: Final = {
    "minReadySeconds": at_least(0),
    "replicas": at_least(0),
    "selector": SELECTOR,
    "template": TEMPLATE,
}

_ROLLOUT: Final = obj(type=STRING, rollingUpdate=obj(maxSurge=INT_OR_STRING, maxUnavailable=INT_OR_STRING))
_REFERENCE: Final = obj(**each(STRING, "apiVersion fieldPath kind name namespace resourceVersion uid"))

_TARGET: Final = obj(type=STRING, **each(QUANTITY, "value averageValue"), averageUtilization=INT32)
_NAMED: Final = obj(name=STRING, selector=SELECTOR)
_METRIC: Final = obj(
    type=STRING,
    resource=obj(name=STRING, target=_TARGET),
    containerResource=obj(name=STRING, container=STRING, target=_TARGET),
    pods=obj(metric=_NAMED, target=_TARGET),
    object=obj(metric=_NAMED, target=_TARGET, describedObject=obj(**each(STRING, "apiVersion kind name"))),
    external=obj(metric=_NAMED, target=_TARGET),
)

BUILT_IN: Final[dict[str, Shape]] = {
    "namespaces": obj(spec=OBJECT),
    "nodes": obj(
        spec=obj(
            **each(ANY, "configSource externalID podCIDR podCIDRs providerID"),
            taints=array(obj(key=STRING, value=STRING, effect=STRING, timeAdded=TIME)),
            unschedulable=BOOLEAN,
        ),
        status=partly(allocatable=AMOUNTS, capacity=AMOUNTS, conditions=TOLD),
    ),
    "pods": obj(
        spec=POD_SPEC,
        status=partly(
            **each(STRING, "phase qosClass podIP hostIP nominatedNodeName"),
            **each(IPS, "podIPs hostIPs"),
            conditions=TOLD,
            observedGeneration=INTEGER,
            startTime=TIME,
            containerStatuses=CONTAINER_STATUSES,
            initContainerStatuses=CONTAINER_STATUSES,
        ),
    ),
    "configmaps": obj(data=STRING_MAP, binaryData=mapping(BYTES), immutable=BOOLEAN),
    "limitranges": obj(spec=obj(limits=array(_RANGE))),
    "resourcequotas": obj("spec", spec=obj(hard=AMOUNTS, scopes=STRINGS, scopeSelector=OBJECT)),
    "priorityclasses.scheduling.k8s.io": obj(
        value=INT32, globalDefault=BOOLEAN, description=STRING, preemptionPolicy=STRING
    ),
    "leases.coordination.k8s.io": obj(
        spec=obj(
            **each(MICRO_TIME, "acquireTime renewTime"),
            **each(STRING, "holderIdentity strategy preferredHolder"),
            leaseDurationSeconds=INT32,
            leaseTransitions=INT32,
        )
    ),
    "poddisruptionbudgets.policy": obj(
        spec=obj(
            maxUnavailable=INT_OR_STRING,
            minAvailable=INT_OR_STRING,
            selector=SELECTOR,
            unhealthyPodEvictionPolicy=STRING,
        ),
        status=partly(conditions=TOLD, disruptedPods=mapping(TIME), observedGeneration=INTEGER),
    ),
    "deployments.apps": obj(
        spec=obj(
            **_REPLICATED,
            paused=BOOLEAN,
            progressDeadlineSeconds=at_least(0),
            revisionHistoryLimit=at_least(0),
            strategy=_ROLLOUT,
        ),
    ),
    "replicasets.apps": obj(spec=obj(**_REPLICATED)),
    "statefulsets.apps": obj(
        spec=obj(
            **_REPLICATED,
            **each(OBJECTS, "volumeClaimTemplates"),
            ordinals=obj(start=INT32),
            persistentVolumeClaimRetentionPolicy=obj(whenDeleted=STRING, whenScaled=STRING),
            updateStrategy=obj(type=STRING, rollingUpdate=obj(partition=INT32, maxUnavailable=INT_OR_STRING)),
            podManagementPolicy=STRING,
            revisionHistoryLimit=at_least(0),
            serviceName=STRING,
        ),
    ),
    "daemonsets.apps": obj(
        spec=obj(
            updateStrategy=_ROLLOUT,
            minReadySeconds=at_least(0),
            revisionHistoryLimit=at_least(0),
            selector=SELECTOR,
            template=TEMPLATE,
        ),
    ),
    "jobs.batch": obj(spec=_JOB_SPEC),
    "cronjobs.batch": obj(
        spec=obj(
            **each(STRING, "concurrencyPolicy schedule timeZone"),
            **each(at_least(0), "failedJobsHistoryLimit successfulJobsHistoryLimit"),
            startingDeadlineSeconds=at_least(0, "integer"),
            jobTemplate=obj(metadata=METADATA, spec=_JOB_SPEC),
            suspend=BOOLEAN,
        ),
    ),
    "horizontalpodautoscalers.autoscaling": obj(
        spec=obj(
            behavior=OBJECT,
            maxReplicas=INT32,
            metrics=array(_METRIC),
            minReplicas=INT32,
            scaleTargetRef=obj(**each(STRING, "apiVersion kind name")),
        )
    ),
    "services": obj(
        spec=partly(
            clusterIP=STRING,
            ports=array(
                obj(
                    **each(STRING, "appProtocol name protocol"),
                    **each(INT32, "nodePort port"),
                    targetPort=INT_OR_STRING,
                )
            ),
            selector=STRING_MAP,
            type=STRING,
        )
    ),
    "events": obj(
        **each(STRING, "action message reason reportingComponent reportingInstance type"),
        **each(TIME, "firstTimestamp lastTimestamp"),
        count=INT32,
        eventTime=MICRO_TIME,
        involvedObject=_REFERENCE,
        related=_REFERENCE,
        series=obj(count=INT32, lastObservedTime=MICRO_TIME),
        source=obj(component=STRING, host=STRING),
    ),
}
