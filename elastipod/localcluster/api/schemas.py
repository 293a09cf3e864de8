"""The shapes of the kinds that are served, as far as they are checked.

Owns field names only. Kinds without an entry here are taken as they come; inside, ANY is what concerns nobody here.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import msgspec.inspect

from elastipod.api import ElasticNode, ElasticPolicy
from elastipod.localcluster.api.schema import (
    ANY,
    BOOLEAN,
    INT_OR_STRING,
    INTEGER,
    NUMBER,
    QUANTITY,
    STRING,
    Shape,
    array,
    at_least,
    mapping,
    obj,
    one_of,
    partly,
)

STRINGS: Final = array(STRING)
STRING_MAP: Final = mapping(STRING)
AMOUNTS: Final = mapping(QUANTITY)
OBJECTS: Final = array(mapping(ANY))
OBJECT: Final = mapping(ANY)


def _each(shape: Shape, names: str) -> dict[str, Shape]:
    return dict.fromkeys(names.split(), shape)


METADATA: Final = obj(
    **_each(ANY, "managedFields selfLink"),
    **_each(STRING, ("name generateName namespace uid resourceVersion creationTimestamp deletionTimestamp")),
    generation=INTEGER,
    deletionGracePeriodSeconds=INTEGER,
    labels=STRING_MAP,
    annotations=STRING_MAP,
    finalizers=STRINGS,
    ownerReferences=array(
        obj(
            *("apiVersion", "kind", "name", "uid"),
            **_each(STRING, "apiVersion kind name uid"),
            controller=BOOLEAN,
            blockOwnerDeletion=BOOLEAN,
        )
    ),
)
SELECTOR: Final = obj(
    matchLabels=STRING_MAP,
    matchExpressions=array(
        obj("key", "operator", key=STRING, operator=one_of("In", "NotIn", "Exists", "DoesNotExist"), values=STRINGS)
    ),
)
RESOURCES: Final = obj(requests=AMOUNTS, limits=AMOUNTS, claims=OBJECTS)
CONTAINER: Final = obj(
    "name",
    **_each(
        ANY,
        "envFrom lifecycle livenessProbe readinessProbe restartPolicyRules securityContext startupProbe volumeDevices"
        " volumeMounts",
    ),
    **_each(STRING, "name image imagePullPolicy workingDir terminationMessagePath"),
    **_each(BOOLEAN, "stdin stdinOnce tty"),
    args=STRINGS,
    command=STRINGS,
    env=array(obj("name", name=STRING, value=STRING, valueFrom=OBJECT)),
    ports=OBJECTS,
    resizePolicy=array(
        obj(
            *("resourceName", "restartPolicy"),
            resourceName=one_of("cpu", "memory"),
            restartPolicy=one_of("NotRequired", "RestartContainer"),
        )
    ),
    resources=RESOURCES,
    restartPolicy=one_of("Always", "OnFailure", "Never"),
    terminationMessagePolicy=STRING,
)
POD_SPEC: Final = obj(
    "containers",
    **_each(
        ANY,
        "affinity dnsConfig ephemeralContainers hostAliases imagePullSecrets readinessGates resourceClaims"
        " schedulingGroup securityContext topologySpreadConstraints volumes workloadRef",
    ),
    **_each(
        STRING,
        (
            "dnsPolicy hostname hostnameOverride nodeName priorityClassName runtimeClassName schedulerName "
            "serviceAccount serviceAccountName subdomain"
        ),
    ),
    **_each(
        BOOLEAN,
        (
            "automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers "
            "setHostnameAsFQDN shareProcessNamespace"
        ),
    ),
    activeDeadlineSeconds=at_least(1),
    containers=array(CONTAINER),
    initContainers=array(CONTAINER),
    nodeSelector=STRING_MAP,
    os=obj(name=STRING),
    overhead=AMOUNTS,
    preemptionPolicy=one_of("PreemptLowerPriority", "Never"),
    priority=INTEGER,
    resources=RESOURCES,
    restartPolicy=one_of("Always", "OnFailure", "Never"),
    schedulingGates=array(obj("name", name=STRING)),
    terminationGracePeriodSeconds=at_least(0),
    tolerations=array(obj(key=STRING, operator=STRING, value=STRING, effect=STRING, tolerationSeconds=INTEGER)),
)
_CONTAINER_STATUSES: Final = array(partly(name=STRING, allocatedResources=AMOUNTS, resources=RESOURCES, state=OBJECT))
TEMPLATE: Final = obj("spec", metadata=METADATA, spec=POD_SPEC)
_JOB_SPEC: Final = obj(
    "template",
    **_each(ANY, "podFailurePolicy successPolicy"),
    **_each(STRING, "completionMode managedBy podReplacementPolicy"),
    **_each(
        at_least(0),
        (
            "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completions maxFailedIndexes "
            "parallelism ttlSecondsAfterFinished"
        ),
    ),
    manualSelector=BOOLEAN,
    selector=SELECTOR,
    suspend=BOOLEAN,
    template=TEMPLATE,
)
_RANGE: Final = obj(
    "type",
    type=one_of("Container", "Pod", "PersistentVolumeClaim"),
    **_each(AMOUNTS, "default defaultRequest max maxLimitRequestRatio min"),
)
_REPLICATED: Final = {
    "minReadySeconds": at_least(0),
    "replicas": at_least(0),
    "selector": SELECTOR,
    "template": TEMPLATE,
}

BUILT_IN: Final[dict[str, Shape]] = {
    "namespaces": obj(spec=OBJECT),
    "nodes": obj(
        spec=obj(
            **_each(ANY, "configSource externalID podCIDR podCIDRs providerID"),
            taints=array(obj("key", "effect", key=STRING, value=STRING, effect=STRING, timeAdded=STRING)),
            unschedulable=BOOLEAN,
        ),
        status=partly(allocatable=AMOUNTS, capacity=AMOUNTS, conditions=OBJECTS),
    ),
    "pods": obj(
        "spec",
        spec=POD_SPEC,
        status=partly(
            phase=STRING,
            qosClass=STRING,
            conditions=OBJECTS,
            containerStatuses=_CONTAINER_STATUSES,
            initContainerStatuses=_CONTAINER_STATUSES,
        ),
    ),
    "configmaps": obj(data=STRING_MAP, binaryData=STRING_MAP, immutable=BOOLEAN),
    "limitranges": obj("spec", spec=obj("limits", limits=array(_RANGE))),
    "resourcequotas": obj("spec", spec=obj(hard=AMOUNTS, scopes=STRINGS, scopeSelector=OBJECT)),
    "priorityclasses.scheduling.k8s.io": obj(
        "value",
        value=INTEGER,
        globalDefault=BOOLEAN,
        description=STRING,
        preemptionPolicy=one_of("PreemptLowerPriority", "Never"),
    ),
    "leases.coordination.k8s.io": obj(
        spec=obj(
            **_each(STRING, "holderIdentity acquireTime renewTime strategy preferredHolder"),
            leaseDurationSeconds=at_least(1),
            leaseTransitions=at_least(0),
        )
    ),
    "poddisruptionbudgets.policy": obj(
        spec=obj(
            maxUnavailable=INT_OR_STRING,
            minAvailable=INT_OR_STRING,
            selector=SELECTOR,
            unhealthyPodEvictionPolicy=one_of("IfHealthyBudget", "AlwaysAllow"),
        )
    ),
    "deployments.apps": obj(
        "spec",
        spec=obj(
            "selector",
            "template",
            **_REPLICATED,
            paused=BOOLEAN,
            progressDeadlineSeconds=at_least(0),
            revisionHistoryLimit=at_least(0),
            strategy=obj(
                type=one_of("Recreate", "RollingUpdate"),
                rollingUpdate=obj(maxSurge=INT_OR_STRING, maxUnavailable=INT_OR_STRING),
            ),
        ),
    ),
    "replicasets.apps": obj("spec", spec=obj("selector", **_REPLICATED)),
    "statefulsets.apps": obj(
        "spec",
        spec=obj(
            "selector",
            "template",
            **_REPLICATED,
            **_each(ANY, "ordinals persistentVolumeClaimRetentionPolicy updateStrategy volumeClaimTemplates"),
            podManagementPolicy=one_of("OrderedReady", "Parallel"),
            revisionHistoryLimit=at_least(0),
            serviceName=STRING,
        ),
    ),
    "daemonsets.apps": obj(
        "spec",
        spec=obj(
            "selector",
            "template",
            **_each(ANY, "updateStrategy"),
            minReadySeconds=at_least(0),
            revisionHistoryLimit=at_least(0),
            selector=SELECTOR,
            template=TEMPLATE,
        ),
    ),
    "jobs.batch": obj("spec", spec=_JOB_SPEC),
    "cronjobs.batch": obj(
        "spec",
        spec=obj(
            *("jobTemplate", "schedule"),
            **_each(STRING, "concurrencyPolicy schedule timeZone"),
            **_each(at_least(0), "failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit"),
            jobTemplate=obj("spec", metadata=METADATA, spec=_JOB_SPEC),
            suspend=BOOLEAN,
        ),
    ),
}

_VERSIONED: Final = at_least(0)
_CONDITIONS: Final = array(
    obj(
        *("type", "status"),
        **_each(STRING, "lastTransitionTime message reason"),
        observedGeneration=_VERSIONED,
        status=one_of("True", "False", "Unknown"),
        type=STRING,
    )
)
_BOOST: Final = obj(
    cpu=obj(
        "type",
        type=one_of("Factor", "Quantity"),
        factor=at_least(1),
        quantity=QUANTITY,
        durationSeconds=at_least(0),
    )
)
_HISTOGRAM: Final = obj(referenceTimestamp=STRING, bucketWeights=mapping(INTEGER), totalWeight=NUMBER)


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
            return _from_type(rest[0], known) if len(rest) == 1 else QUANTITY
    return _SCALARS.get(type(info), ANY)


_SCALARS: Final[Mapping[type, Shape]] = {
    msgspec.inspect.StrType: STRING,
    msgspec.inspect.IntType: INTEGER,
    msgspec.inspect.FloatType: NUMBER,
    msgspec.inspect.BoolType: BOOLEAN,
}

CUSTOM: Final[dict[str, Shape]] = {
    "verticalpodautoscalers.autoscaling.k8s.io": obj(
        "spec",
        spec=obj(
            "targetRef",
            targetRef=obj("kind", "name", apiVersion=STRING, kind=STRING, name=STRING),
            updatePolicy=obj(
                updateMode=one_of("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"),
                minReplicas=INTEGER,
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
                        containerName=STRING,
                        mode=one_of("Auto", "Off"),
                        minAllowed=AMOUNTS,
                        maxAllowed=AMOUNTS,
                        controlledResources=array(one_of("cpu", "memory")),
                        controlledValues=one_of("RequestsAndLimits", "RequestsOnly"),
                        oomBumpUpRatio=QUANTITY,
                        oomMinBumpUp=QUANTITY,
                        memoryAggregationIntervalSeconds=at_least(1),
                        memoryAggregationIntervalCount=at_least(1),
                        startupBoost=_BOOST,
                    )
                )
            ),
            recommenders=array(obj("name", name=STRING)),
            startupBoost=_BOOST,
        ),
        status=obj(
            recommendation=obj(
                containerRecommendations=array(
                    obj(
                        "target",
                        containerName=STRING,
                        **_each(AMOUNTS, "target lowerBound upperBound uncappedTarget"),
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
            **_each(STRING, "lastUpdateTime version firstSampleStart lastSampleStart"),
            cpuHistogram=_HISTOGRAM,
            memoryHistogram=_HISTOGRAM,
            totalSamplesCount=INTEGER,
        ),
    ),
    "elasticpolicies.elastipod.io": _derived(ElasticPolicy, {"mode": one_of("Pause", "Off"), "maxAllowed": QUANTITY}),
    "elasticnodes.elastipod.io": _derived(ElasticNode, {}),
}
