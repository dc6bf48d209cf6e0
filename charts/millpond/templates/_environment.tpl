{{/*
What the values say, as a list of EnvVar. What is empty in them is left out, so that the service's own
default holds.
*/}}
{{- define "millpond.env" -}}
{{- $p := .Values.pipeline }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- include "millpond.plainEnv" . }}
{{- range $property, $value := $p.kafka.consumer }}
{{- if regexMatch "(password|secret)$" $property }}
{{- fail (printf "pipeline.kafka.consumer: %s is a secret and does not belong in values; put the SASL password into a Secret and name it in pipeline.kafka.sasl.existingSecret, any other through pipeline.extraEnv with secretKeyRef" $property) }}
{{- end }}
- name: KAFKA_CONSUMER_{{ $property | replace "." "_" | upper }}
  value: {{ include "millpond.text" $value | quote }}
{{- end }}
{{- with $p.kafka.sasl }}
{{- if .existingSecret }}
{{- if .usernameKey }}
{{- include "millpond.secretEnv" (list "KAFKA_CONSUMER_SASL_USERNAME" .existingSecret .usernameKey) }}
{{- end }}
{{- include "millpond.secretEnv" (list "KAFKA_CONSUMER_SASL_PASSWORD" .existingSecret .passwordKey) }}
{{- end }}
{{- end }}
{{- with $p.includeValues }}
{{- if and .url .auth.existingSecret }}
- name: MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME
  value: {{ .auth.headerName | quote }}
{{- include "millpond.secretEnv" (list "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN" .auth.existingSecret .auth.tokenKey) }}
{{- end }}
{{- end }}
{{- with $p.s3 }}
{{- if .existingSecret }}
{{- include "millpond.secretEnv" (list "HOGLAKE_S3_ACCESS_KEY" .existingSecret .accessKeyKey) }}
{{- include "millpond.secretEnv" (list "HOGLAKE_S3_SECRET_KEY" .existingSecret .secretKeyKey) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Everything that is a name and a text, from the values or computed from them. */}}
{{- define "millpond.plainEnv" -}}
{{- $p := .Values.pipeline }}
{{- $pins := list }}
{{- range $column, $type := $p.typedColumns }}{{ $pins = append $pins (printf "%s:%s" $column $type) }}{{ end }}
{{- $keep := list }}
{{- range $p.filter.keep.values }}{{ $keep = append $keep (include "millpond.text" .) }}{{ end }}
{{- $drop := list }}
{{- range $p.filter.drop.values }}{{ $drop = append $drop (include "millpond.text" .) }}{{ end }}
{{- $include := $p.includeValues }}
{{- $polled := list }}
{{- if $include.url }}
{{- $polled = list
  (list "MILLPOND_INCLUDE_VALUES_URL" $include.url)
  (list "MILLPOND_INCLUDE_VALUES_MODE" $include.mode)
  (list "MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S" $include.pollIntervalSeconds)
  (list "MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS" $include.removalPolls)
  (list "MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S" $include.requestTimeoutSeconds)
  (list "MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S" $include.startupTimeoutSeconds)
}}
{{- end }}
{{- $pairs := list
  (list "REPLICA_COUNT" .Values.replicas)
  (list "MILLPOND_HTTP_PORT" .Values.http.port)
  (list "MILLPOND_GRACE_PERIOD_S" (sub (int64 .Values.terminationGracePeriodSeconds) 10))
  (list "KAFKA_BOOTSTRAP_SERVERS" $p.kafka.bootstrapServers)
  (list "KAFKA_TOPIC" $p.topic)
  (list "KAFKA_AUTO_OFFSET_RESET" $p.kafka.autoOffsetReset)
  (list "KAFKA_ON_DATA_LOSS" $p.kafka.onDataLoss)
  (list "KAFKA_START_AT" $p.kafka.startAt)
  (list "GROUP_ID" $p.kafka.groupId)
  (list "BROKER_SOURCE" $p.kafka.source)
  (list "HOGLAKE_URL" $p.hoglake.url)
  (list "HOGLAKE_CATALOG" $p.catalog)
  (list "HOGLAKE_NAMESPACE" $p.namespace)
  (list "HOGLAKE_TABLE" $p.table)
  (list "HOGLAKE_DATA_PATH" $p.dataPath)
  (list "HOGLAKE_PARTITION_BY" (join "," $p.partitionBy))
  (list "HOGLAKE_MAX_RETRY_COUNT" $p.hoglake.maxRetryCount)
  (list "HOGLAKE_REQUEST_TIMEOUT_S" $p.hoglake.requestTimeoutSeconds)
  (list "HOGLAKE_S3_ENDPOINT" $p.s3.endpoint)
  (list "HOGLAKE_S3_REGION" $p.s3.region)
  (list "PYHOGLAKE_UPLOAD_CONCURRENCY" $p.s3.uploadConcurrency)
  (list "AWS_REGION" $p.awsRegion)
  (list "MILLPOND_SORT_BY" (join "," $p.sortBy))
  (list "MILLPOND_TYPED_COLUMNS" (join "," $pins))
  (list "MILLPOND_KAFKA_COLUMNS" $p.kafkaColumns)
  (list "MILLPOND_QUARANTINE" $p.quarantine.mode)
  (list "MILLPOND_QUARANTINE_MAX_FRACTION" $p.quarantine.maxFraction)
  (list "MILLPOND_ON_MISMATCH" $p.quarantine.onMismatch)
  (list "MILLPOND_MAX_RECORD_BYTES" $p.quarantine.maxRecordBytes)
  (list "MILLPOND_MAX_COLUMNS" $p.quarantine.maxColumns)
  (list "MILLPOND_FILTER_KEEP_FIELD_NAME" $p.filter.keep.field)
  (list "MILLPOND_FILTER_VALUES" (join "," $keep))
  (list "MILLPOND_FILTER_DROP_FIELD_NAME" $p.filter.drop.field)
  (list "MILLPOND_FILTER_DROP_VALUES" (join "," $drop))
  (list "FLUSH_SIZE" $p.flush.sizeBytes)
  (list "FLUSH_INTERVAL_MS" $p.flush.intervalMs)
  (list "FLUSH_DEADLINE_S" $p.flush.deadlineSeconds)
  (list "LOG_LEVEL" $p.log.level)
  (list "MILLPOND_LOG_FORMAT" $p.log.format)
}}
{{- range concat $pairs $polled }}
{{- $text := include "millpond.text" (last .) }}
{{- if $text }}
- name: {{ first . }}
  value: {{ $text | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* One variable out of a Secret; takes the variable, the Secret and its key. */}}
{{- define "millpond.secretEnv" }}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end }}

{{/*
The whole environment, pipeline.extraEnv included. A variable set twice is refused: the last one would win in
silence, and REPLICA_COUNT above all must come from replicas.
*/}}
{{- define "millpond.environment" -}}
{{- $all := concat (include "millpond.env" . | fromYamlArray) .Values.pipeline.extraEnv }}
{{- $seen := dict }}
{{- range $all }}
{{- if hasKey $seen .name }}
{{- fail (printf "pipeline: the environment variable %s is set twice; the chart sets it from its values already" .name) }}
{{- end }}
{{- $_ := set $seen .name true }}
{{- end }}
{{- toYaml $all }}
{{- end }}
