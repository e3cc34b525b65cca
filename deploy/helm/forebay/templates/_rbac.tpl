{{- /* Who may do what; docs/rbac.md explains each rule. */ -}}

{{- /* What is read of a namespace, and the two things that are written there. */ -}}
{{- define "forebay.rules.namespace" -}}
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch, update]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* The namespace that is served with scope. */ -}}
{{- define "forebay.scope.namespace" -}}
{{- .Values.controller.scope.namespace | default (include "forebay.namespace" .) -}}
{{- end -}}

{{- /* Namespaces whose Secrets and ConfigMaps may be read, as a YAML list. */ -}}
{{- define "forebay.secrets.namespaces" -}}
{{- $controller := .Values.controller -}}
{{- $namespaces := list (include "forebay.namespace" .) -}}
{{- if include "forebay.scoped" . }}{{ $namespaces = append $namespaces (include "forebay.scope.namespace" .) }}{{ end -}}
{{- with index $controller.extraArgs "default-ssl-certificate" -}}
{{- if not (hasPrefix "$(" .) }}{{ $namespaces = append $namespaces (splitList "/" . | first) }}{{ end -}}
{{- end -}}
{{- range list $controller $controller.tcp $controller.udp -}}
{{- with .configMapNamespace }}{{ $namespaces = append $namespaces . }}{{ end -}}
{{- end -}}
{{- toYaml (concat $namespaces .Values.rbac.secrets.namespaces | uniq) -}}
{{- end -}}

{{- /* roleRef and subjects of a binding; (dict "root" $ "kind" KIND "name" NAME). */ -}}
{{- define "forebay.binding" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "forebay.serviceAccount" .root }}
    namespace: {{ include "forebay.namespace" .root }}
{{- end -}}
