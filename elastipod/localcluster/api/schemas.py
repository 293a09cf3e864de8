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
    BYTES,
    CUSTOM_QUANTITY,
    DATE_TIME,
    INT32,
    INT_OR_STRING,
    INTEGER,
    MICRO_TIME,
    NUMBER,
    QUANTITY,
    STRING,
    TIME,
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
_CUSTOM_AMOUNTS: Final = mapping(CUSTOM_QUANTITY)
OBJECTS: Final = array(mapping(ANY))
OBJECT: Final = mapping(ANY)


def _each(shape: Shape, names: str) -> dict[str, Shape]:
    return dict.fromkeys(names.split(), shape)


METADATA: Final = obj(
    **_each(ANY, "managedFields selfLink"),
    **_each(STRING, "name generateName namespace uid resourceVersion"),
    **_each(TIME, "creationTimestamp deletionTimestamp"),
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
    matchExpressions=array(obj(key=STRING, operator=STRING, values=STRINGS)),
)
RESOURCES: Final = obj(requests=AMOUNTS, limits=AMOUNTS, claims=array(partly(name=STRING)))
_HANDLER: Final = {
    "exec": obj(command=STRINGS),
    "grpc": obj(port=INT32, service=STRING),
    "httpGet": obj(host=STRING, httpHeaders=OBJECTS, path=STRING, port=INT_OR_STRING, scheme=STRING),
    "tcpSocket": obj(host=STRING, port=INT_OR_STRING),
}
_PROBE: Final = obj(
    **_HANDLER,
    **_each(INT32, "failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds"),
    terminationGracePeriodSeconds=INTEGER,
)
_HOOK: Final = obj(
    exec=_HANDLER["exec"], httpGet=_HANDLER["httpGet"], tcpSocket=_HANDLER["tcpSocket"], sleep=obj(seconds=INTEGER)
)
_KEY: Final = obj(name=STRING, key=STRING, optional=BOOLEAN)
_ENV_SOURCE: Final = obj(
    configMapKeyRef=_KEY,
    secretKeyRef=_KEY,
    fieldRef=obj(apiVersion=STRING, fieldPath=STRING),
    fileKeyRef=OBJECT,
    resourceFieldRef=obj(containerName=STRING, resource=STRING, divisor=QUANTITY),
)
CONTAINER: Final = obj(
    **_each(OBJECTS, "restartPolicyRules volumeDevices"),
    securityContext=partly(
        **_each(BOOLEAN, "privileged allowPrivilegeEscalation"), **_each(INTEGER, "runAsUser runAsGroup")
    ),
    **_each(STRING, "name image imagePullPolicy workingDir terminationMessagePath terminationMessagePolicy"),
    **_each(BOOLEAN, "stdin stdinOnce tty"),
    **_each(_PROBE, "livenessProbe readinessProbe startupProbe"),
    args=STRINGS,
    command=STRINGS,
    env=array(obj(name=STRING, value=STRING, valueFrom=_ENV_SOURCE)),
    envFrom=array(
        obj(
            prefix=STRING, configMapRef=obj(name=STRING, optional=BOOLEAN), secretRef=obj(name=STRING, optional=BOOLEAN)
        )
    ),
    lifecycle=obj(postStart=_HOOK, preStop=_HOOK, stopSignal=STRING),
    ports=array(obj(containerPort=INT32, hostIP=STRING, hostPort=INT32, name=STRING, protocol=STRING)),
    resizePolicy=array(obj(resourceName=STRING, restartPolicy=STRING)),
    resources=RESOURCES,
    restartPolicy=one_of("Always", "Never", "OnFailure"),
    volumeMounts=array(
        obj(**_each(STRING, "mountPath mountPropagation name recursiveReadOnly subPath subPathExpr"), readOnly=BOOLEAN)
    ),
)
_VOLUME: Final = obj(
    **_each(
        ANY,
        "awsElasticBlockStore azureDisk azureFile cephfs cinder csi ephemeral fc flexVolume flocker gcePersistentDisk"
        " gitRepo glusterfs image iscsi nfs photonPersistentDisk portworxVolume projected quobyte rbd scaleIO storageos"
        " vsphereVolume",
    ),
    configMap=obj(defaultMode=INT32, items=OBJECTS, name=STRING, optional=BOOLEAN),
    downwardAPI=obj(defaultMode=INT32, items=OBJECTS),
    emptyDir=obj(medium=STRING, sizeLimit=QUANTITY),
    hostPath=obj(path=STRING, type=STRING),
    name=STRING,
    persistentVolumeClaim=obj(claimName=STRING, readOnly=BOOLEAN),
    secret=obj(defaultMode=INT32, items=OBJECTS, optional=BOOLEAN, secretName=STRING),
)
_NOW: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_RATHER: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES: Final = partly(
    matchExpressions=array(obj(**_each(STRING, "key operator"), values=STRINGS)), matchFields=OBJECTS
)
_PODS: Final = partly(**_each(SELECTOR, "labelSelector namespaceSelector"), topologyKey=STRING)
POD_SPEC: Final = obj(
    **_each(
        ANY,
        "dnsConfig hostAliases imagePullSecrets schedulingGroup",
    ),
    affinity=obj(
        nodeAffinity=obj(
            **{_NOW: obj(nodeSelectorTerms=array(_NODES)), _RATHER: array(partly(weight=INT32, preference=_NODES))}
        ),
        **_each(
            obj(**{_NOW: array(_PODS), _RATHER: array(partly(weight=INT32, podAffinityTerm=_PODS))}),
            "podAffinity podAntiAffinity",
        ),
    ),
    ephemeralContainers=OBJECTS,
    readinessGates=array(partly(conditionType=STRING)),
    resourceClaims=array(partly(name=STRING)),
    securityContext=partly(
        **_each(INTEGER, "runAsUser runAsGroup fsGroup"), sysctls=array(partly(**_each(STRING, "name value")))
    ),
    topologySpreadConstraints=array(
        partly(
            **_each(INT32, "maxSkew minDomains"),
            **_each(STRING, "topologyKey whenUnsatisfiable"),
            labelSelector=SELECTOR,
        )
    ),
    **_each(
        STRING,
        (
            "dnsPolicy hostname hostnameOverride nodeName preemptionPolicy priorityClassName runtimeClassName "
            "schedulerName serviceAccount serviceAccountName subdomain"
        ),
    ),
    **_each(
        BOOLEAN,
        (
            "automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers "
            "setHostnameAsFQDN shareProcessNamespace"
        ),
    ),
    activeDeadlineSeconds=at_least(1, "integer"),
    containers=array(CONTAINER),
    initContainers=array(CONTAINER),
    nodeSelector=STRING_MAP,
    os=obj(name=STRING),
    overhead=AMOUNTS,
    priority=INT32,
    resources=RESOURCES,
    restartPolicy=one_of("Always", "OnFailure", "Never"),
    schedulingGates=array(obj(name=STRING)),
    terminationGracePeriodSeconds=INTEGER,
    tolerations=array(obj(key=STRING, operator=STRING, value=STRING, effect=STRING, tolerationSeconds=INTEGER)),
    volumes=array(_VOLUME),
)
_STATE: Final = partly(
    running=partly(startedAt=TIME),
    terminated=partly(exitCode=INT32, **_each(TIME, "startedAt finishedAt")),
    waiting=OBJECT,
)
_CONTAINER_STATUSES: Final = array(
    partly(
        name=STRING,
        allocatedResources=AMOUNTS,
        **_each(_STATE, "state lastState"),
        ready=BOOLEAN,
        resources=RESOURCES,
        restartCount=INT32,
    )
)
_TOLD: Final = array(
    partly(
        **_each(STRING, "type status reason message"),
        **_each(TIME, "lastTransitionTime lastProbeTime lastHeartbeatTime lastUpdateTime"),
        observedGeneration=INTEGER,
    )
)
STATUS: Final = partly(
    conditions=_TOLD,
    **_each(TIME, "startTime completionTime lastScheduleTime lastSuccessfulTime lastScaleTime"),
    observedGeneration=INTEGER,
)
"""What the statuses of built-in kinds have in common."""
_IPS: Final = array(obj(ip=STRING))
TEMPLATE: Final = obj(metadata=METADATA, spec=POD_SPEC)
_JOB_SPEC: Final = obj(
    **_each(ANY, "podFailurePolicy successPolicy"),
    **_each(STRING, "completionMode managedBy podReplacementPolicy"),
    **_each(
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
    **_each(AMOUNTS, "default defaultRequest max maxLimitRequestRatio min"),
)
_REPLICATED: Final = {
    "minReadySeconds": at_least(0),
    "replicas": at_least(0),
    "selector": SELECTOR,
    "template": TEMPLATE,
}

_ROLLOUT: Final = obj(type=STRING, rollingUpdate=obj(maxSurge=INT_OR_STRING, maxUnavailable=INT_OR_STRING))
_REFERENCE: Final = obj(**_each(STRING, "apiVersion fieldPath kind name namespace resourceVersion uid"))

_TARGET: Final = obj(type=STRING, **_each(QUANTITY, "value averageValue"), averageUtilization=INT32)
_NAMED: Final = obj(name=STRING, selector=SELECTOR)
_METRIC: Final = obj(
    type=STRING,
    resource=obj(name=STRING, target=_TARGET),
    containerResource=obj(name=STRING, container=STRING, target=_TARGET),
    pods=obj(metric=_NAMED, target=_TARGET),
    object=obj(metric=_NAMED, target=_TARGET, describedObject=obj(**_each(STRING, "apiVersion kind name"))),
    external=obj(metric=_NAMED, target=_TARGET),
)

BUILT_IN: Final[dict[str, Shape]] = {
    "namespaces": obj(spec=OBJECT),
    "nodes": obj(
        spec=obj(
            **_each(ANY, "configSource externalID podCIDR podCIDRs providerID"),
            taints=array(obj(key=STRING, value=STRING, effect=STRING, timeAdded=TIME)),
            unschedulable=BOOLEAN,
        ),
        status=partly(allocatable=AMOUNTS, capacity=AMOUNTS, conditions=_TOLD),
    ),
    "pods": obj(
        spec=POD_SPEC,
        status=partly(
            **_each(STRING, "phase qosClass podIP hostIP nominatedNodeName"),
            **_each(_IPS, "podIPs hostIPs"),
            conditions=_TOLD,
            observedGeneration=INTEGER,
            startTime=TIME,
            containerStatuses=_CONTAINER_STATUSES,
            initContainerStatuses=_CONTAINER_STATUSES,
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
            **_each(MICRO_TIME, "acquireTime renewTime"),
            **_each(STRING, "holderIdentity strategy preferredHolder"),
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
        status=partly(conditions=_TOLD, disruptedPods=mapping(TIME), observedGeneration=INTEGER),
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
            **_each(OBJECTS, "volumeClaimTemplates"),
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
            **_each(STRING, "concurrencyPolicy schedule timeZone"),
            **_each(at_least(0), "failedJobsHistoryLimit successfulJobsHistoryLimit"),
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
            scaleTargetRef=obj(**_each(STRING, "apiVersion kind name")),
        )
    ),
    "services": obj(
        spec=partly(
            clusterIP=STRING,
            ports=array(
                obj(
                    **_each(STRING, "appProtocol name protocol"),
                    **_each(INT32, "nodePort port"),
                    targetPort=INT_OR_STRING,
                )
            ),
            selector=STRING_MAP,
            type=STRING,
        )
    ),
    "events": obj(
        **_each(STRING, "action message reason reportingComponent reportingInstance type"),
        **_each(TIME, "firstTimestamp lastTimestamp"),
        count=INT32,
        eventTime=MICRO_TIME,
        involvedObject=_REFERENCE,
        related=_REFERENCE,
        series=obj(count=INT32, lastObservedTime=MICRO_TIME),
        source=obj(component=STRING, host=STRING),
    ),
}

_VERSIONED: Final = at_least(0, "integer")
_CONDITIONS: Final = array(
    obj(
        *("type", "status"),
        **_each(STRING, "message reason"),
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
                        **_each(mapping(Shape("integer,string")), "target lowerBound upperBound uncappedTarget"),
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
            **_each(DATE_TIME, "lastUpdateTime firstSampleStart lastSampleStart"),
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
