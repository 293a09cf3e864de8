{{/* What the pods of all components share. Each takes (list root component). */}}

{{- define "elastipod.podMeta" -}}
{{- $own := index (first .).Values (last .) -}}
labels:
  {{- merge (include "elastipod.labels" . | fromYaml) ($own.podLabels | default dict) | toYaml | nindent 2 }}
annotations:
  {{- /* elastipod does not size itself. */}}
  {{- $ours := dict "kubectl.kubernetes.io/default-container" (last .) "elastipod.io/memory-spike" "Off" "elastipod.io/donate" "false" }}
  {{- $prices := include "elastipod.prices" (first .) }}
  {{- if and $prices (eq (last .) "recommender") }}
  {{- /* Prices are read at the start. */}}
  {{- $_ := set $ours "elastipod.io/prices-checksum" (sha256sum $prices) }}
  {{- end }}
  {{- merge (dict) ($own.podAnnotations | default dict) $ours | toYaml | nindent 2 }}
{{- end -}}

{{- define "elastipod.placement" -}}
{{- $root := first . -}}
{{- $own := index $root.Values (last .) -}}
serviceAccountName: {{ include "elastipod.serviceAccountName" . | quote }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add $own.terminationGracePeriodSeconds ($own.preStopSeconds | default 0) }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  {{- merge (dict "kubernetes.io/os" "linux") ($own.nodeSelector | default dict) | toYaml | nindent 2 }}
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
{{- if ne $component "recommender" -}}
{{- $_ := set $settings "namespacesOff" (include "elastipod.protectedNamespaces" $root | fromJsonArray) -}}
{{- end -}}
{{- if eq $root.Values.scope "namespace" -}}
{{- $_ := set $settings "namespaces" (include "elastipod.namespaces" $root | fromJsonArray) -}}
{{- end -}}
{{- if eq $component "admission" -}}
{{- $_ := set $settings "webhookPort" $own.port -}}
{{- $_ := set $settings "certificateFolder" "/etc/elastipod/tls" -}}
{{- $_ := set $settings "canaryNamespace" $root.Release.Namespace -}}
{{- end -}}
{{- if and (eq $component "recommender") (include "elastipod.prices" $root) -}}
{{- $_ := set $settings "pricesFile" "/etc/elastipod/prices/prices.csv" -}}
{{- end -}}
{{- if include "elastipod.readsActuators" $root -}}
{{- if eq $component "recommender" -}}{{- $_ := set $settings "actuatorsNamespace" (include "elastipod.nodeNamespace" $root) -}}{{- end -}}
{{- if eq $component "actuator" -}}{{- $_ := set $settings "sampleSeconds" 10 -}}{{- end -}}
{{- end -}}
{{- if eq $component "actuator" -}}
{{- $_ := set $settings "stateFolder" "/state/actuator" -}}
{{- $_ := set $settings "cgroupRoot" "/host/cgroup" -}}
{{- with $own.cgroup.parent -}}
{{- $_ := set $settings "cgroupParent" (ternary (printf "%s.slice" .) . (eq $own.cgroup.driver "systemd")) -}}
{{- end -}}
{{- end -}}
{{- $fields := dict "LISTEN_HOST" "status.podIP" -}}
{{- if eq $component "admission" -}}{{- $_ := set $fields "WEBHOOK_HOST" "status.podIP" -}}{{- end -}}
{{- if eq $component "actuator" -}}{{- $_ := set $fields "NODE_NAME" "spec.nodeName" -}}{{- end -}}
{{- $env := list -}}
{{- range $name, $path := $fields -}}
{{- $env = append $env (dict "name" (printf "ELASTIPOD_%s" $name) "valueFrom" (dict "fieldRef" (dict "fieldPath" $path))) -}}
{{- end -}}
{{- range $name, $value := merge (dict) ($own.settings | default dict) $settings -}}
{{- $env = append $env (dict "name" (printf "ELASTIPOD_%s" ($name | snakecase | upper)) "value" (include "elastipod.text" $value)) -}}
{{- end -}}
{{- $kept := list -}}
{{- range $one := $env -}}
{{- $isGiven := false -}}
{{- range $own.extraEnv -}}{{- $isGiven = or $isGiven (eq .name $one.name) -}}{{- end -}}
{{- if not $isGiven -}}{{- $kept = append $kept $one -}}{{- end -}}
{{- end -}}
{{ concat $kept ($own.extraEnv | default list) | toYaml }}
{{- end -}}

{{- define "elastipod.probes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 90
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
