{{- /* Images. */ -}}

{{- /* Whether the values name an image of ingress-nginx: "true" or nothing. */ -}}
{{- define "forebay.image.foreign" -}}
{{- $image := .Values.controller.image -}}
{{- if or (regexMatch "ingress-nginx|nginx-ingress" (toString $image.repository)) (regexMatch "^(controller-)?v[01]\\." (toString $image.tag)) -}}
true
{{- end -}}
{{- end -}}

{{- /* Reference of an image; (dict "registry" .. "repository" .. "tag" .. "digest" ..). */ -}}
{{- define "forebay.image.reference" -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}

{{- define "forebay.image" -}}
{{- $image := .Values.controller.image -}}
{{- $registry := $image.registry | default .Values.global.image.registry -}}
{{- if include "forebay.image.foreign" . -}}
{{- include "forebay.image.reference" (dict "registry" $registry "repository" "forebay" "tag" .Chart.AppVersion) -}}
{{- else -}}
{{- include "forebay.image.reference" (dict "registry" $registry "repository" $image.repository "tag" ($image.tag | default .Chart.AppVersion) "digest" $image.digest) -}}
{{- end -}}
{{- end -}}

{{- define "forebay.defaultBackend.image" -}}
{{- $image := .Values.defaultBackend.image -}}
{{- $registry := $image.registry | default .Values.global.image.registry -}}
{{- include "forebay.image.reference" (dict "registry" $registry "repository" ($image.repository | default $image.image) "tag" $image.tag "digest" $image.digest) -}}
{{- end -}}

{{- /* Whether the default backend is made: "true" or nothing. */ -}}
{{- define "forebay.defaultBackend.made" -}}
{{- if and .Values.defaultBackend.enabled (or .Values.defaultBackend.image.repository .Values.defaultBackend.image.image) -}}
true
{{- end -}}
{{- end -}}

{{- /* securityContext of a container that says in `image` what it needs. */ -}}
{{- define "forebay.image.securityContext" -}}
runAsNonRoot: {{ .runAsNonRoot }}
runAsUser: {{ .runAsUser }}
runAsGroup: {{ .runAsGroup }}
readOnlyRootFilesystem: {{ .readOnlyRootFilesystem }}
allowPrivilegeEscalation: {{ .allowPrivilegeEscalation }}
seccompProfile:
  {{- toYaml .seccompProfile | nindent 2 }}
{{- end -}}
