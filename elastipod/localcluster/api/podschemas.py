"""The shape of a pod's spec and of what is told of its containers.

Owns field names only; ANY is what concerns nobody here.
"""

from typing import Final

from elastipod.localcluster.api.schema import (
    ANY,
    BOOLEAN,
    INT32,
    INT_OR_STRING,
    INTEGER,
    QUANTITY,
    STRING,
    TIME,
    array,
    at_least,
    obj,
    one_of,
    partly,
)
from elastipod.localcluster.api.shapes import AMOUNTS, OBJECT, OBJECTS, SELECTOR, STRING_MAP, STRINGS, each

RESOURCES: Final = obj(requests=AMOUNTS, limits=AMOUNTS, claims=array(partly(name=STRING)))
_HANDLER: Final = {
    "exec": obj(command=STRINGS),
    "grpc": obj(port=INT32, service=STRING),
    "httpGet": obj(host=STRING, httpHeaders=OBJECTS, path=STRING, port=INT_OR_STRING, scheme=STRING),
    "tcpSocket": obj(host=STRING, port=INT_OR_STRING),
}
_PROBE: Final = obj(
    **_HANDLER,
    **each(INT32, "failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds"),
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
    **each(OBJECTS, "restartPolicyRules volumeDevices"),
    securityContext=partly(
        **each(BOOLEAN, "privileged allowPrivilegeEscalation"), **each(INTEGER, "runAsUser runAsGroup")
    ),
    **each(STRING, "name image imagePullPolicy workingDir terminationMessagePath terminationMessagePolicy"),
    **each(BOOLEAN, "stdin stdinOnce tty"),
    **each(_PROBE, "livenessProbe readinessProbe startupProbe"),
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
        obj(**each(STRING, "mountPath mountPropagation name recursiveReadOnly subPath subPathExpr"), readOnly=BOOLEAN)
    ),
)
_VOLUME: Final = obj(
    **each(
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
_NODES: Final = partly(matchExpressions=array(obj(**each(STRING, "key operator"), values=STRINGS)), matchFields=OBJECTS)
_PODS: Final = partly(**each(SELECTOR, "labelSelector namespaceSelector"), topologyKey=STRING)
POD_SPEC: Final = obj(
    **each(
        ANY,
        "dnsConfig hostAliases imagePullSecrets schedulingGroup",
    ),
    affinity=obj(
        nodeAffinity=obj(
            **{_NOW: obj(nodeSelectorTerms=array(_NODES)), _RATHER: array(partly(weight=INT32, preference=_NODES))}
        ),
        **each(
            obj(**{_NOW: array(_PODS), _RATHER: array(partly(weight=INT32, podAffinityTerm=_PODS))}),
            "podAffinity podAntiAffinity",
        ),
    ),
    ephemeralContainers=OBJECTS,
    readinessGates=array(partly(conditionType=STRING)),
    resourceClaims=array(partly(name=STRING)),
    securityContext=partly(
        **each(INTEGER, "runAsUser runAsGroup fsGroup"), sysctls=array(partly(**each(STRING, "name value")))
    ),
    topologySpreadConstraints=array(
        partly(
            **each(INT32, "maxSkew minDomains"),
            **each(STRING, "topologyKey whenUnsatisfiable"),
            labelSelector=SELECTOR,
        )
    ),
    **each(
        STRING,
        (
            "dnsPolicy hostname hostnameOverride nodeName preemptionPolicy priorityClassName runtimeClassName "
            "schedulerName serviceAccount serviceAccountName subdomain"
        ),
    ),
    **each(
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
    terminated=partly(exitCode=INT32, **each(TIME, "startedAt finishedAt")),
    waiting=OBJECT,
)
CONTAINER_STATUSES: Final = array(
    partly(
        name=STRING,
        allocatedResources=AMOUNTS,
        **each(_STATE, "state lastState"),
        ready=BOOLEAN,
        resources=RESOURCES,
        restartCount=INT32,
    )
)
IPS: Final = array(obj(ip=STRING))
