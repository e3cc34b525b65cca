{{- /* The ConfigMap's keys, as YAML. */ -}}
{{- define "forebay.settings" -}}
{{- $controller := .Values.controller -}}
{{- if $controller.allowSnippetAnnotations }}
allow-snippet-annotations: "true"
{{- end }}
{{- range $key, $values := dict "add-headers" $controller.addHeaders "proxy-set-headers" $controller.proxySetHeaders }}
{{- if $values }}
{{ $key }}: {{ include "forebay.namespace" $ }}/{{ include "forebay.fullname" $ }}-custom-{{ $key }}
{{- end }}
{{- end }}
{{- with $controller.waf.mode }}
forebay-waf-mode: {{ . | quote }}
{{- end }}
{{- if $controller.waf.coreRules }}
enable-owasp-modsecurity-crs: "true"
{{- end }}
{{- range $key, $value := $controller.config }}
{{ $key }}: {{ tpl (toString $value) $ | quote }}
{{- end }}
{{- end -}}
