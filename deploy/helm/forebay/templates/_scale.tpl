{{- /* How many Pods there are: autoscaling and disruption, for the controller and the default backend. */ -}}

{{- /* (dict "values" VALUES "name" NAME "metrics" LIST). */ -}}
{{- define "forebay.autoscaler.spec" -}}
{{- $autoscaling := .values.autoscaling -}}
scaleTargetRef:
  apiVersion: apps/v1
  kind: Deployment
  name: {{ .name }}
minReplicas: {{ $autoscaling.minReplicas }}
maxReplicas: {{ $autoscaling.maxReplicas }}
metrics:
  {{- range $resource, $target := dict "cpu" $autoscaling.targetCPUUtilizationPercentage "memory" $autoscaling.targetMemoryUtilizationPercentage }}
  {{- if $target }}
  - type: Resource
    resource:
      name: {{ $resource }}
      target:
        type: Utilization
        averageUtilization: {{ $target }}
  {{- end }}
  {{- end }}
  {{- with .metrics }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $autoscaling.behavior }}
behavior:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Whether there is always more than one Pod: "true" or nothing. The argument holds kind, replicaCount, autoscaling and maybe keda. */ -}}
{{- define "forebay.several" -}}
{{- $replicas := .replicaCount -}}
{{- if .autoscaling.enabled }}{{ $replicas = .autoscaling.minReplicas }}{{ end -}}
{{- if dig "keda" "enabled" false . }}{{ $replicas = .keda.minReplicas }}{{ end -}}
{{- if and (gt (int $replicas) 1) (ne (.kind | default "Deployment") "DaemonSet") -}}
true
{{- end -}}
{{- end -}}

{{- /* Whether evictions are to be held up: "true" or nothing. Never for one Pod alone, which could not be evicted then. */ -}}
{{- define "forebay.disruption.made" -}}
{{- $scaled := or .autoscaling.enabled (dig "keda" "enabled" false .) -}}
{{- if or (include "forebay.several" .) (and $scaled (ne (.kind | default "Deployment") "DaemonSet")) -}}
true
{{- end -}}
{{- end -}}

{{- /* (dict "root" $ "values" VALUES "component" NAME). */ -}}
{{- define "forebay.disruption.spec" -}}
{{- if or .values.maxUnavailable (not (include "forebay.several" .values)) }}
maxUnavailable: {{ .values.maxUnavailable | default 1 }}
{{- else }}
minAvailable: {{ .values.minAvailable }}
{{- end }}
{{- with .values.unhealthyPodEvictionPolicy }}
unhealthyPodEvictionPolicy: {{ . }}
{{- end }}
selector:
  matchLabels:
    {{- include "forebay.selector" . | nindent 4 }}
{{- end -}}
