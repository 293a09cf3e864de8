{{/*
Which values keep the pods of the release's namespace from Pod Security's levels, and the strictest level that is
left, as a JSON object. Kubernetes' standards say what each level forbids.
*/}}
{{- define "elastipod.securityLevel" -}}
{{- $baseline := list -}}
{{- $restricted := list -}}
{{- if and .Values.admission.enabled .Values.admission.hostNetwork -}}
{{- $baseline = append $baseline "admission.hostNetwork" -}}
{{- end -}}
{{- $pod := .Values.podSecurityContext | default dict -}}
{{- $container := .Values.containerSecurityContext | default dict -}}
{{- $safe := list "kernel.shm_rmid_forced" "net.ipv4.ip_local_port_range" "net.ipv4.ip_unprivileged_port_start" "net.ipv4.tcp_syncookies" "net.ipv4.ping_group_range" "net.ipv4.ip_local_reserved_ports" "net.ipv4.tcp_keepalive_time" "net.ipv4.tcp_fin_timeout" "net.ipv4.tcp_keepalive_intvl" "net.ipv4.tcp_keepalive_probes" -}}
{{- range $pod.sysctls -}}
{{- if not (has .name $safe) -}}{{- $baseline = append $baseline "podSecurityContext.sysctls" -}}{{- end -}}
{{- end -}}
{{- range $value, $one := dict "podSecurityContext" $pod "containerSecurityContext" $container -}}
{{- if $one.privileged -}}{{- $baseline = append $baseline (printf "%s.privileged" $value) -}}{{- end -}}
{{- if ne (dig "procMount" "Default" $one | default "Default") "Default" -}}{{- $baseline = append $baseline (printf "%s.procMount" $value) -}}{{- end -}}
{{- range $profile := list "seccompProfile" "appArmorProfile" -}}
{{- if eq (dig $profile "type" "" $one) "Unconfined" -}}{{- $baseline = append $baseline (printf "%s.%s" $value $profile) -}}{{- end -}}
{{- end -}}
{{- with $one.seLinuxOptions -}}
{{- if or .user .role (not (has (.type | default "") (list "" "container_t" "container_init_t" "container_kvm_t" "container_engine_t"))) -}}
{{- $baseline = append $baseline (printf "%s.seLinuxOptions" $value) -}}
{{- end -}}
{{- end -}}
{{- if eq (toString $one.runAsUser) "0" -}}{{- $restricted = append $restricted (printf "%s.runAsUser" $value) -}}{{- end -}}
{{- end -}}
{{- if ne (toString (dig "runAsNonRoot" $pod.runAsNonRoot $container)) "true" -}}{{- $restricted = append $restricted "podSecurityContext.runAsNonRoot" -}}{{- end -}}
{{- if not (or (dig "seccompProfile" "type" "" $container) (dig "seccompProfile" "type" "" $pod)) -}}{{- $restricted = append $restricted "podSecurityContext.seccompProfile" -}}{{- end -}}
{{- if ne (toString $container.allowPrivilegeEscalation) "false" -}}{{- $restricted = append $restricted "containerSecurityContext.allowPrivilegeEscalation" -}}{{- end -}}
{{- if not (has "ALL" (dig "capabilities" "drop" list $container)) -}}{{- $restricted = append $restricted "containerSecurityContext.capabilities.drop" -}}{{- end -}}
{{- $usual := list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT" -}}
{{- range dig "capabilities" "add" list $container -}}
{{- if not (has . $usual) -}}
{{- $baseline = append $baseline "containerSecurityContext.capabilities.add" -}}
{{- else if ne . "NET_BIND_SERVICE" -}}
{{- $restricted = append $restricted "containerSecurityContext.capabilities.add" -}}
{{- end -}}
{{- end -}}
{{- range $component := without (include "elastipod.components" . | fromJsonArray) "actuator" -}}
{{- range $volume := (index $.Values $component).extraVolumes -}}
{{- range $kind, $_ := omit $volume "name" -}}
{{- if eq $kind "hostPath" -}}
{{- $baseline = append $baseline (printf "%s.extraVolumes" $component) -}}
{{- else if not (has $kind (list "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "persistentVolumeClaim" "projected" "secret")) -}}
{{- $restricted = append $restricted (printf "%s.extraVolumes" $component) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $level := ternary "privileged" (ternary "baseline" "restricted" (gt (len $restricted) 0)) (gt (len $baseline) 0) -}}
{{ dict "level" $level "because" (concat $baseline $restricted | uniq | sortAlpha) | toJson }}
{{- end -}}
