{{/*
What each component may do: what its code calls, and no more. Rules of objects that lie in namespaces, then of those
that do not, which no Role can give, and of those in the release's own namespace.
*/}}

{{- define "elastipod.rules.recommender" -}}
- apiGroups: [""]
  resources: [pods, limitranges, resourcequotas]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets, daemonsets]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers/status]
  verbs: [patch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalercheckpoints]
  verbs: [list, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [elastipod.io]
  resources: [elasticpolicies]
  verbs: [list, watch]
{{- end -}}

{{- define "elastipod.rules.updater" -}}
- apiGroups: [""]
  resources: [pods, limitranges, resourcequotas]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets, daemonsets]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [get, list]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [elastipod.io]
  resources: [elasticpolicies]
  verbs: [list, watch]
{{- end -}}

{{- define "elastipod.rules.admission" -}}
- apiGroups: [elastipod.io]
  resources: [elasticpolicies]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [limitranges, resourcequotas]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets, daemonsets]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
{{- end -}}

{{- define "elastipod.rules.actuator" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [elastipod.io]
  resources: [elasticpolicies]
  verbs: [list, watch]
{{- end -}}

{{- define "elastipod.clusterRules.recommender" -}}
{{ include "elastipod.nodeRules" . }}
{{- end -}}

{{- define "elastipod.clusterRules.updater" -}}
{{ include "elastipod.nodeRules" . }}
{{- end -}}

{{- define "elastipod.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end -}}

{{- define "elastipod.clusterRules.admission" -}}
{{ include "elastipod.nodeRules" . }}
{{- end -}}

{{- define "elastipod.clusterRules.actuator" -}}
- apiGroups: [elastipod.io]
  resources: [elasticnodes]
  verbs: [create{{ if (.Values.actuator.settings).direct }}, list, watch{{ end }}]
- apiGroups: [elastipod.io]
  resources: [elasticnodes/status]
  verbs: [patch]
{{- if (.Values.actuator.settings).direct }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}
{{- end -}}

{{- define "elastipod.ownRules.recommender" -}}
{{ include "elastipod.leaderRules" "recommender" }}
{{- end -}}

{{- define "elastipod.ownRules.updater" -}}
{{ include "elastipod.leaderRules" "updater" }}
{{- end -}}

{{- define "elastipod.leaderRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [elastipod-{{ . }}]
  verbs: [get, patch]
# The name of what is created is not known to RBAC.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end -}}

{{- define "elastipod.ownRules.admission" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
{{- end -}}

{{- define "elastipod.ownRules.actuator" -}}{{- end -}}
