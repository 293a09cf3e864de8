{{/* What nodes cost, and what of it the recommender would refuse when it starts. */}}

{{/* What nodes cost, as CSV; empty for the recommender's own defaults. */}}
{{- define "elastipod.prices" -}}
{{- if .Values.prices.csv -}}
{{ .Values.prices.csv }}
{{- else if .Values.prices.nodes -}}
instance_type,capacity_type,region,core_hour,gib_hour,currency
{{- range .Values.prices.nodes }}
{{ .instanceType | default "" }},{{ .capacityType | default "" }},{{ .region | default "" }},{{ toJson .coreHour }},{{ toJson .gibHour }},{{ $.Values.prices.currency }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* What any cloud calls a capacity type, as `on-demand` or `spot`; recommender/nodekinds.py has the same words. */}}
{{- define "elastipod.capacityType" -}}
{{- $word := regexReplaceAll "[-_ ]+" (lower .) "-" -}}
{{- $plain := $word | replace "-" "" -}}
{{- if has $plain (list "ondemand" "regular" "normal" "standard") -}}on-demand
{{- else if has $plain (list "spot" "preemptible" "ec2spot") -}}spot
{{- else -}}{{ $word }}
{{- end -}}
{{- end -}}

{{/* Refuses prices that the recommender could not read, as far as can be told here. Renders nothing. */}}
{{- define "elastipod.checkPrices" -}}
{{- $isCsv := not (empty .Values.prices.csv) -}}
{{- $from := ternary "prices.csv" "prices.nodes" $isCsv -}}
{{- $known := list "instance_type" "capacity_type" "region" "core_hour" "gib_hour" "currency" -}}
{{- $text := include "elastipod.prices" . | trimPrefix "\ufeff" -}}
{{- /* With quotes a field may hold commas and line ends: only the header is looked at then. */ -}}
{{- $isPlain := not (contains "\"" $text) -}}
{{- $columns := list -}}
{{- $lines := dict -}}
{{- $currency := "" -}}
{{- range $place, $line := splitList "\n" $text -}}
{{- $line = trimSuffix "\r" $line -}}
{{- $fields := list -}}
{{- range splitList "," $line -}}{{- $fields = append $fields (. | trim | trimAll "\"") -}}{{- end -}}
{{- $at := ternary (printf "prices.csv, line %d" (add1 $place)) (printf "prices.nodes, entry %d" $place) $isCsv -}}
{{- if not $columns -}}
{{- if $line -}}
{{- $columns = $fields -}}
{{- range $fields -}}
{{- if not (has . $known) -}}
{{- fail (printf "elastipod: %s: unknown column %s; the header names the columns %s, with commas between." $at (quote .) (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- range list "core_hour" "gib_hour" -}}
{{- if not (has . $fields) -}}
{{- fail (printf "elastipod: %s: the header lacks the column %s; its columns are %s, with commas between." $at . (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- if ne (len $fields) (len (uniq $fields)) -}}
{{- fail (printf "elastipod: %s: a column stands there twice." $at) -}}
{{- end -}}
{{- end -}}
{{- else if and $isPlain (join "" $fields) -}}
{{- if ne (len $fields) (len $columns) -}}
{{- fail (printf "elastipod: %s has %d fields, the header %d." $at (len $fields) (len $columns)) -}}
{{- end -}}
{{- $of := dict -}}
{{- range $index, $column := $columns -}}{{- $_ := set $of $column (index $fields $index) -}}{{- end -}}
{{- range list "core_hour" "gib_hour" -}}
{{- $price := get $of . -}}
{{- if or (not (regexMatch "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?$" $price)) (gt (float64 $price) 1e6) -}}
{{- fail (printf "elastipod: %s: %s is %s, which is no price for an hour; write one such as 0.0316, up to a million." $at . (quote $price)) -}}
{{- end -}}
{{- end -}}
{{- $kind := printf "%s,%s,%s" (get $of "instance_type") (include "elastipod.capacityType" (get $of "capacity_type")) (get $of "region") -}}
{{- if hasKey $lines $kind -}}
{{- fail (printf "elastipod: %s speaks of the same nodes as %s: give each kind of node one price." $at (get $lines $kind)) -}}
{{- end -}}
{{- $_ := set $lines $kind $at -}}
{{- $own := get $of "currency" | default "USD" -}}
{{- if not (regexMatch "^[A-Z]{3}$" $own) -}}
{{- fail (printf "elastipod: %s: currency is %s; write its three letters, such as EUR." $at (quote $own)) -}}
{{- end -}}
{{- if and $currency (ne $currency $own) -}}
{{- fail (printf "elastipod: %s: currency is %s, and before it %s: they can not be added up; use one." $at $own $currency) -}}
{{- end -}}
{{- $currency = $own -}}
{{- end -}}
{{- end -}}
{{- if and $isCsv (not $columns) -}}
{{- fail "elastipod: prices.csv is blank: its first line names the columns core_hour and gib_hour, and what they hold for." -}}
{{- end -}}
{{- if and $columns $isPlain -}}
{{- if not $lines -}}
{{- fail (printf "elastipod: %s has no line below its header: add one with prices." $from) -}}
{{- end -}}
{{- if and (ne $currency "USD") (not (hasKey $lines ",,")) -}}
{{- fail (printf "elastipod: %s is in %s, and none of it holds for all other nodes, whose prices are known in USD only: add a line with empty instance_type, capacity_type and region." $from $currency) -}}
{{- end -}}
{{- end -}}
{{- end -}}
