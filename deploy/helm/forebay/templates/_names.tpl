{{- /* Names and labels. */ -}}

{{- define "forebay.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "forebay.fullname" -}}
{{- $name := include "forebay.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "forebay.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "forebay.controller" -}}
{{- printf "%s-%s" (include "forebay.fullname" .) .Values.controller.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "forebay.webhook" -}}
{{- printf "%s-%s" (include "forebay.controller" .) .Values.controller.admissionWebhooks.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "forebay.test" -}}
{{- printf "%s-test" (include "forebay.controller" . | trunc 58 | trimSuffix "-") -}}
{{- end -}}

{{- define "forebay.defaultBackend" -}}
{{- printf "%s-%s" (include "forebay.fullname" .) .Values.defaultBackend.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "forebay.electionID" -}}
{{- index .Values.controller.extraArgs "election-id" | default .Values.controller.electionID | default (printf "%s-leader" (include "forebay.controller" .)) -}}
{{- end -}}

{{- define "forebay.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "forebay.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "forebay.defaultBackend.serviceAccount" -}}
{{- if .Values.defaultBackend.serviceAccount.create -}}
{{- .Values.defaultBackend.serviceAccount.name | default (include "forebay.defaultBackend" .) -}}
{{- else -}}
{{- .Values.defaultBackend.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- /* What selects Pods; (dict "root" $ "component" NAME). Must not change between versions. */ -}}
{{- define "forebay.selector" -}}
app.kubernetes.io/name: {{ include "forebay.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Labels of every object; (dict "root" $ "component" NAME "extra" LABELS). What selects Pods cannot be overridden. */ -}}
{{- define "forebay.labels" -}}
{{- $own := dict
    "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
    "app.kubernetes.io/version" .root.Chart.AppVersion
    "app.kubernetes.io/part-of" (include "forebay.name" .root)
    "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $selector := include "forebay.selector" . | fromYaml -}}
{{- toYaml (merge (dict) $selector (.extra | default dict) (.root.Values.commonLabels | default dict) $own) -}}
{{- end -}}

{{- /* metadata of an object; (dict "root" $ "component" NAME "name" NAME) and if need be "namespace" (false: none), "extra" and "annotations". */ -}}
{{- define "forebay.metadata" -}}
name: {{ .name }}
{{- if not (eq (toString .namespace) "false") }}
namespace: {{ .namespace | default (include "forebay.namespace" .root) }}
{{- end }}
labels:
  {{- include "forebay.labels" . | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
