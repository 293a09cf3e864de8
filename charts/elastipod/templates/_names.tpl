{{/* What things are called, where they lie, and how they are labelled. */}}

{{- define "elastipod.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- /* A release may have dots in its name, and a Service may not. */ -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* A component's name; takes (list root component). */}}
{{- define "elastipod.name" -}}
{{ include "elastipod.fullname" (first .) }}-{{ last . }}
{{- end -}}

{{/* Cluster-wide objects of two releases must not meet; takes (list root component). */}}
{{- define "elastipod.clusterName" -}}
{{- $root := first . -}}
{{ printf "%s-%s" $root.Release.Namespace (include "elastipod.name" .) | trunc 200 }}
{{- end -}}

{{- define "elastipod.nodeNamespace" -}}
{{ default (printf "%s-node" (.Release.Namespace | trunc 58 | trimSuffix "-")) .Values.actuator.namespace }}
{{- end -}}

{{/* Where a component runs; takes (list root component). */}}
{{- define "elastipod.namespace" -}}
{{- $root := first . -}}
{{ if eq (last .) "actuator" }}{{ include "elastipod.nodeNamespace" $root }}{{ else }}{{ $root.Release.Namespace }}{{ end }}
{{- end -}}

{{/* The components that are on, as a JSON list. */}}
{{- define "elastipod.components" -}}
{{- $on := list -}}
{{- range $component := list "recommender" "updater" "admission" "actuator" -}}
{{- if (index $.Values $component).enabled -}}{{- $on = append $on $component -}}{{- end -}}
{{- end -}}
{{ toJson $on }}
{{- end -}}

{{/* Namespaces of which no pod is ever touched, as a JSON list: the named ones, and our own cluster-wide ones. */}}
{{- define "elastipod.protectedNamespaces" -}}
{{- $own := ternary (list .Release.Namespace (include "elastipod.nodeNamespace" .)) list (eq .Values.scope "cluster") -}}
{{ concat (.Values.protectedNamespaces | default list) $own | uniq | sortAlpha | toJson }}
{{- end -}}

{{/* The namespaces of `scope: namespace`, as a JSON list. */}}
{{- define "elastipod.namespaces" -}}
{{ default (list .Release.Namespace) .Values.namespaces | toJson }}
{{- end -}}

{{/* Whether the recommender reads usage from the actuators. */}}
{{- define "elastipod.readsActuators" -}}
{{- if and .Values.recommender.enabled (has "actuators" (splitList "," ((.Values.recommender.settings).usageSource | default "" | nospace))) -}}
true
{{- end -}}
{{- end -}}

{{/* Takes (list root component). */}}
{{- define "elastipod.selectorLabels" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{/* Takes (list root component). */}}
{{- define "elastipod.labels" -}}
{{- $root := first . -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/part-of" "elastipod"
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
-}}
{{ merge (include "elastipod.selectorLabels" . | fromYaml) $own ($root.Values.commonLabels | default dict) | toYaml }}
{{- end -}}

{{/* Takes (list root component). */}}
{{- define "elastipod.serviceAccountName" -}}
{{- $account := (index (first .).Values (last .)).serviceAccount -}}
{{ default (ternary (include "elastipod.name" .) "default" $account.create) $account.name }}
{{- end -}}

{{/* Takes (list root component). */}}
{{- define "elastipod.image" -}}
{{- $images := (first .).Values.images -}}
{{- $image := ternary $images.node $images.controller (eq (last .) "actuator") -}}
{{- $name := $image.repository -}}
{{- with $images.registry -}}{{- $name = printf "%s/%s" . $name -}}{{- end -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ default (first .).Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}
