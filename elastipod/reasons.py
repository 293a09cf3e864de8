"""Every "no" and every "why" by name.

The same word stands in the log, in the Kubernetes Event, in the metric's label and in `elastipod explain`.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why something was done, was not done, or was cut down. The text under a member is what a person is told."""

    explanation: str

    def __new__(cls, value: str, explanation: str) -> "Reason":
        member = str.__new__(cls, value)
        member._value_ = value
        member.explanation = explanation
        return member

    # Why a pod is resized.
    OUTSIDE_BOUNDS = "OutsideBounds", "a request lies outside the recommended bounds"
    DRIFTED = "Drifted", "the request is more than a tenth off its target and the cool-down is over"
    OOM_KILLED = "OomKilled", "a container was killed at its memory limit"
    ASKED_BY_PERSON = "AskedByPerson", "a person asked for this size"
    STATED_ON_WORKLOAD = "StatedOnWorkload", "the workload states this size"
    SIZED_AT_CREATION = "SizedAtCreation", "the pod was given its size when it was created"
    DONATED = "Donated", "the pod gave room it did not use to one that needed it"
    RESTORED = "Restored", "a donor gets back what it gave"
    REVERTED = "Reverted", "the spec was put back to what is allocated"

    BOOST_ENDED = "BoostEnded", "the pod has started and gives back the CPU that it was given for that"

    # Why a pod is left as it is.
    WITHIN_BOUNDS = "WithinBounds", "the requests lie within the recommended bounds"
    MODE_OFF = "ModeOff", "the policy only recommends"
    OPTED_OUT = "OptedOut", "an annotation of the workload or of its pods says that it is not to be sized"
    MODE_INITIAL = "ModeInitial", "the policy sizes pods only when they are created"
    NO_RECOMMENDATION = "NoRecommendation", "there is no recommendation yet"
    REQUESTS_UNKNOWN = (
        "RequestsUnknown",
        "nothing tells what is requested, so a recommendation is compared with nothing",
    )
    LOW_CONFIDENCE = "LowConfidence", "there is too little history to act on"
    COOLING_DOWN = "CoolingDown", "the pod started or was resized a short while ago"
    NAMESPACE_OFF = "NamespaceOff", "the settings say that pods of this namespace are never touched"
    NOT_OURS = "NotOurs", "another recommender is responsible for the pod"
    CONFLICT = "Conflict", "more than one policy claims the pod, so none acts"
    NOT_RUNNING = "NotRunning", "only running pods are resized"
    BEST_EFFORT = "BestEffort", "a resize can not change the QoS class, so a BestEffort pod stays as it is"
    MIRROR_POD = "MirrorPod", "static pods cannot be resized"
    UNSUPPORTED_NODE = "UnsupportedNode", "the node does not report container resources and cannot resize in place"
    UNSUPPORTED_POD = "UnsupportedPod", "Kubernetes cannot resize a pod of this kind in place"
    NODE_NOT_READY = "NodeNotReady", "the node is not ready"
    MIN_REPLICAS = "MinReplicas", "fewer replicas are alive than the policy asks for"
    DISRUPTION_BUDGET = "DisruptionBudget", "as many pods of the workload are disturbed as is allowed at once"
    STALE_DATA = "StaleData", "what is known of the cluster is too old to act on"
    NOT_PATCHED = "NotPatched", "the webhook has no effect: what is created comes back without its patch"

    # What cut a size down or lifted it.
    CAPPED_BY_MAX = "CappedByMax", "the policy's maxAllowed is lower"
    RAISED_TO_MIN = "RaisedToMin", "the policy's minAllowed is higher"
    CAPPED_BY_GLOBAL_MAX = "CappedByGlobalMax", "the cluster's maximum is lower"
    CAPPED_BY_LIMIT = "CappedByLimit", "the container's own limit is lower, and the policy leaves limits alone"
    CAPPED_BY_LIMIT_RANGE = "CappedByLimitRange", "a LimitRange of the namespace is narrower"
    CAPPED_BY_NODE = "CappedByNode", "no node is larger"
    CAPPED_BY_QUOTA = "CappedByQuota", "a ResourceQuota of the namespace leaves less"
    CAPPED_BY_POD = "CappedByPod", "the pod's own resources are lower"
    RAISED_TO_FLOOR = "RaisedToFloor", "the smallest recommended size is higher"
    KEPT_QOS_CLASS = "KeptQosClass", "request and limit were kept apart, or together, so that the QoS class stays"
    BOOSTED = "Boosted", "it has more CPU while it starts"
    KEPT_LIMIT = (
        "KeptLimit",
        "the limit stays: none can be taken from a running pod, nor where a LimitRange or ResourceQuota demands one",
    )
    KEPT_ABOVE_USAGE = "KeptAboveUsage", "memory in use plus a margin is higher"
    KEPT_FOR_RUNTIME = "KeptForRuntime", "the process was told its memory when it started and will not keep to less"
    SIZED_AT_START = "SizedAtStart", "the process reads its size when it starts, so a change takes effect at a restart"
    FOLLOWS_LIMIT = "FollowsLimit", "memory follows the limit it is given and nothing was killed, so it gets no more"
    DIFFERS_BY_NODE_CLASS = (
        "DiffersByNodeClass",
        "what its pods use differs with the size of the node and all get one size; an ElasticPolicy gives each its own",
    )
    TOO_SHORT_TO_SEE = "TooShortToSee", "its runs are over before their usage is seen, so nothing is lowered"
    SCALED_HORIZONTALLY = (
        "ScaledHorizontally",
        "a HorizontalPodAutoscaler scales on this resource's utilization, so its request is held",
    )
    CONTRADICTION = "Contradiction", "what holds at once contradicts itself, so nothing is recommended"

    # Why an estimator speaks, or only the histogram does.
    ADMITTED = "Admitted", "it would have reserved less than the histogram and done no more harm"
    NO_BETTER_ESTIMATOR = "NoBetterEstimator", "none would have reserved less than the histogram and done no more harm"
    TOO_LITTLE_RECORD = "TooLittleRecord", "there is less than a day's record of what other estimators would have done"
    NO_ELASTIC_POLICY = "NoElasticPolicy", "no ElasticPolicy speaks of the workload, so VPA's rule holds"
    HISTOGRAM_STATED = "HistogramStated", "the ElasticPolicy or the recommender's settings say Histogram"
    SIZED_FOR_LONG = "SizedForLong", "sizes do not move while pods run, so each has to hold for long"

    # What became of a resize request.
    NO_ROOM = "NoRoom", "the node has not enough free"
    DEFERRED = "Deferred", "the kubelet has no room for it now"
    INFEASIBLE = "Infeasible", "it will never fit this node"
    IN_PROGRESS = "InProgress", "admitted and not yet in force"
    RESIZE_ERROR = "ResizeError", "the kubelet could not put it in force"
    REFUSED = "Refused", "the API server refused it"
    QUOTA_EXCEEDED = "QuotaExceeded", "a ResourceQuota of the namespace is used up"
    LIMIT_RANGE = "LimitRange", "a LimitRange of the namespace forbids it"
    QOS_CLASS = "QosClass", "it would change the pod's QoS class"
    FORBIDDEN = "Forbidden", "a right is missing"
    NOT_SERVED = "NotServed", "this API server does not serve it"
    OVERRIDDEN = "Overridden", "something else changed the pod's resources meanwhile"
    POD_GONE = "PodGone", "the pod is gone or was replaced"
    SUPERSEDED = "Superseded", "a newer request took its place"
    TIMED_OUT = "TimedOut", "it took longer than allowed"
    DONE = "Done", "in force"
    UNREACHABLE = "Unreachable", "the API server does not answer"

    # What became of a memory spike.
    HELD = "Held", "held at the limit"
    RAISED = "Raised", "given more memory"
    EXPIRED = "Expired", "the deadline passed with no more memory to give"
    PAGE_CACHE = "PageCache", "what grew can be reclaimed"
    NODE_BUDGET_EMPTY = "NodeBudgetEmpty", "the node has no memory to spare"
    LEAK_SUSPECTED = "LeakSuspected", "it was raised too often in a short time"
    AT_CEILING = "AtCeiling", "it has as much as the policy allows"
    STOPPED_BY_PRESSURE = "StoppedByPressure", "a shrink was stopped, as the container needs the memory"

    # What is wrong with input.
    BAD_VALUE = "BadValue", "a value could not be understood"
    METRICS_LOST = "MetricsLost", "no usage samples arrive"
    TARGET_NOT_FOUND = "TargetNotFound", "the targetRef names nothing that exists"
    NO_PODS_MATCHED = "NoPodsMatched", "no pod belongs to the target"
    INTERNAL_ERROR = "InternalError", "elastipod itself failed; its log says why"
    HISTORY_UNUSABLE = "HistoryUnusable", "a checkpoint could not be used"
    RESOLVED = "Resolved", "what was wrong no longer is"
