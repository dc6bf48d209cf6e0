{{- define "millpond.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/*
Name of every object. 52 characters at most: Kubernetes labels each pod with this name, a dash and a hash of
ten, and a label ends at 63.
*/}}
{{- define "millpond.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "millpond.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "millpond.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "millpond.selectorLabels" -}}
app.kubernetes.io/name: {{ include "millpond.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "millpond.labels" -}}
{{ include "millpond.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: sink
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Only what selects: a label that changes with the chart would restart pods for nothing. */}}
{{- define "millpond.podLabels" -}}
{{- mergeOverwrite (deepCopy .Values.podLabels) (include "millpond.selectorLabels" . | fromYaml) | toYaml }}
{{- end }}

{{- define "millpond.podAnnotations" -}}
{{- $scrape := dict }}
{{- if .Values.metrics.scrape }}
{{- $port := include "millpond.text" .Values.http.port }}
{{- $scrape = dict "prometheus.io/scrape" "true" "prometheus.io/port" $port "prometheus.io/path" "/metrics" }}
{{- end }}
{{- merge (deepCopy .Values.podAnnotations) $scrape | toYaml }}
{{- end }}

{{- define "millpond.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "millpond.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/*
A value as the text of an environment variable. Helm reads every number as a float, and would print
10485760 as 1.048576e+07.
*/}}
{{- define "millpond.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/*
Refuses another number of pods while pods of the old number run: the two layouts would own the same
partitions and fence each other. The live number is the one in the pods' environment, since whoever scales
by hand changes only spec.replicas. Takes live (the StatefulSet, or nothing), name and replicas.
*/}}
{{- define "millpond.refuseLayoutChange" -}}
{{- if .live }}
{{- $running := dig "status" "replicas" 0 .live | int }}
{{- $container := dig "spec" "template" "spec" "containers" (list dict) .live | first }}
{{- range $container.env }}
{{- if and (eq .name "REPLICA_COUNT") (gt $running 0) (ne (int .value) (int $.replicas)) }}
{{- fail (printf "replicas: %s runs %d pods that share the partitions by %s; going to %d while they run would give partitions two owners. Stop them first: kubectl scale statefulset %s --replicas 0, wait until its pods are gone, then upgrade." $.name $running .value (int $.replicas) $.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
