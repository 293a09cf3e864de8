{{/* What the pods of all components share. Each takes (list root component). */}}

{{- define "elastipod.podMeta" -}}
labels:
  {{- include "elastipod.labels" . | nindent 2 }}
  {{- with (index (first .).Values (last .)).podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ last . }}
  # elastipod does not size itself.
  elastipod.io/memory-spike: "Off"
  elastipod.io/donate: "false"
  {{- with (index (first .).Values (last .)).podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "elastipod.placement" -}}
{{- $root := first . -}}
{{- $own := index $root.Values (last .) -}}
serviceAccountName: {{ include "elastipod.serviceAccountName" . }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $own.terminationGracePeriodSeconds }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  {{- merge (dict) $own.nodeSelector (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A setting's value as the text of an environment variable. */}}
{{- define "elastipod.text" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else if kindIs "slice" . -}}{{ join "," . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{/* Settings go by the environment: they show in the pod's spec, and a change rolls out by itself. */}}
{{- define "elastipod.env" -}}
{{- $root := first . -}}
{{- $component := last . -}}
{{- $own := index $root.Values $component -}}
{{- $settings := dict "logLevel" $root.Values.log.level "logFormat" $root.Values.log.format "listenPort" $root.Values.metrics.port -}}
{{- if or (eq $component "recommender") (eq $component "updater") -}}
{{- $_ := set $settings "leaseNamespace" $root.Release.Namespace -}}
{{- end -}}
{{- if ne $component "actuator" -}}
{{- $_ := set $settings "recommenderNames" $root.Values.recommenderNames -}}
{{- end -}}
{{- if or (eq $component "updater") (eq $component "admission") -}}
{{- $_ := set $settings "namespacesOff" (include "elastipod.protectedNamespaces" $root | fromJsonArray) -}}
{{- end -}}
{{- if eq $root.Values.scope "namespace" -}}
{{- $_ := set $settings "namespaces" (include "elastipod.namespaces" $root | fromJsonArray) -}}
{{- end -}}
{{- if eq $component "admission" -}}
{{- $_ := set $settings "webhookPort" $own.port -}}
{{- $_ := set $settings "certificateFolder" "/etc/elastipod/tls" -}}
{{- end -}}
{{- if eq $component "actuator" -}}
{{- $_ := set $settings "stateFolder" "/state/actuator" -}}
{{- $_ := set $settings "cgroupRoot" "/host/cgroup" -}}
{{- with $own.cgroup.parent -}}{{- $_ := set $settings "cgroupParent" . -}}{{- end -}}
{{- end -}}
- name: ELASTIPOD_LISTEN_HOST
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- if eq $component "admission" }}
- name: ELASTIPOD_WEBHOOK_HOST
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}
{{- if eq $component "actuator" }}
- name: ELASTIPOD_NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}
{{- range $name, $value := merge (dict) $own.settings $settings }}
- name: ELASTIPOD_{{ $name | snakecase | upper }}
  value: {{ include "elastipod.text" $value | quote }}
{{- end }}
{{- with $own.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "elastipod.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}
