{{- /* Who may do what; docs/rbac.md explains each rule. */ -}}

{{- /* What is read of namespaces, and the two things that are written there. */ -}}
{{- define "forebay.rules.namespace" -}}
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [configmaps, services]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [backendtlspolicies, gateways, grpcroutes, httproutes, listenersets, referencegrants, tcproutes, tlsroutes, udproutes]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources:
    - backendtlspolicies/status
    - gateways/status
    - grpcroutes/status
    - httproutes/status
    - listenersets/status
    - tcproutes/status
    - tlsroutes/status
    - udproutes/status
  verbs: [patch]
- apiGroups: [gateway.networking.x-k8s.io]
  resources: [xbackendtrafficpolicies]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.x-k8s.io]
  resources: [xbackendtrafficpolicies/status]
  verbs: [patch]
- apiGroups: [forebay.io]
  resources: [forebaypolicies]
  verbs: [get, list, watch]
- apiGroups: [forebay.io]
  resources: [forebaypolicies/status]
  verbs: [patch]
{{- if .Values.controller.gatewayClass.enabled }}
- apiGroups: [""]
  resources: [services]
  verbs: [create, patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices, endpointslices/restricted]
  verbs: [create, patch]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "forebay.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
{{- end -}}

{{- /* What is read of no namespace. */ -}}
{{- define "forebay.rules.cluster" -}}
{{- $controller := .Values.controller -}}
- apiGroups: [networking.k8s.io]
  resources: [ingressclasses]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status]
  verbs: [patch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [gatewayclasses.gateway.networking.k8s.io]
  verbs: [get]
{{- if not (include "forebay.scoped" .) }}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{- end }}
{{- $topology := or $controller.enableTopologyAwareRouting (hasKey $controller.extraArgs "enable-topology-aware-routing") }}
{{- if or $topology (not $controller.publishService.enabled) (not (include "forebay.publishService" .)) }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}
{{- end -}}

{{- /* The namespace that is served with scope. */ -}}
{{- define "forebay.scope.namespace" -}}
{{- .Values.controller.scope.namespace | default (include "forebay.namespace" .) -}}
{{- end -}}

{{- /* Namespaces whose Secrets may be read, as a YAML list. */ -}}
{{- define "forebay.secrets.namespaces" -}}
{{- if include "forebay.scoped" . -}}
{{- toYaml (list (include "forebay.scope.namespace" .)) -}}
{{- else -}}
{{- $namespaces := list (include "forebay.namespace" .) -}}
{{- with index .Values.controller.extraArgs "default-ssl-certificate" -}}
{{- if not (hasPrefix "$(" .) }}{{ $namespaces = append $namespaces (splitList "/" . | first) }}{{ end -}}
{{- end -}}
{{- toYaml (concat $namespaces .Values.rbac.secrets.namespaces | uniq) -}}
{{- end -}}
{{- end -}}

{{- /* ConfigMaps that arguments and settings name, as a YAML map from namespaces to names. */ -}}
{{- define "forebay.configmaps" -}}
{{- $root := . -}}
{{- $namespaces := dict -}}
{{- $named := list -}}
{{- range include "forebay.arguments" . | fromYamlArray -}}
{{- if regexMatch "^--(configmap|(tcp|udp)-services-configmap)=" . -}}
{{- $named = append $named (regexReplaceAll "^[^=]*=" . "" | replace "$(POD_NAMESPACE)" (include "forebay.namespace" $root)) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := include "forebay.settings" . | fromYaml -}}
{{- if has $key (list "add-headers" "proxy-set-headers") -}}{{- $named = append $named $value -}}{{- end -}}
{{- end -}}
{{- range $named -}}
{{- $parts := splitList "/" . -}}
{{- if eq (len $parts) 2 -}}
{{- $_ := set $namespaces (first $parts) (append (index $namespaces (first $parts) | default list) (last $parts) | uniq) -}}
{{- end -}}
{{- end -}}
{{- toYaml $namespaces -}}
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

{{- /* Roles of namespaces, as a YAML list of namespace, name and rules. */ -}}
{{- define "forebay.roles" -}}
{{- $controller := .Values.controller -}}
{{- $fullname := include "forebay.fullname" . -}}
{{- $namespace := include "forebay.namespace" . -}}
{{- $election := include "forebay.electionID" . -}}
- namespace: {{ $namespace }}
  name: {{ $fullname }}
  rules:
    - apiGroups: [""]
      resources: [pods]
      verbs: [get, list, watch]
    {{- if hasKey (include "forebay.settings" . | fromYaml) "forebay-acme-directories" }}
    - apiGroups: [""]
      resources: [secrets]
      verbs: [get, list, watch, create, patch, delete]
    {{- end }}
    {{- if not $controller.disableLeaderElection }}
    - apiGroups: [coordination.k8s.io]
      resources: [leases]
      resourceNames: [{{ $election }}]
      verbs: [get, update]
    - apiGroups: [coordination.k8s.io]
      resources: [leases]
      verbs: [create]
    {{- end }}
    {{- if include "forebay.scoped" . }}
    - apiGroups: [events.k8s.io]
      resources: [events]
      verbs: [create]
    {{- $publish := include "forebay.publishService" . | replace "$(POD_NAMESPACE)" $namespace | splitList "/" }}
    {{- if and $controller.publishService.enabled (eq (first $publish) $namespace) }}
    - apiGroups: [""]
      resources: [services]
      resourceNames: [{{ last $publish }}]
      verbs: [get, list, watch]
    {{- end }}
    {{- end }}
{{- if include "forebay.scoped" . }}
{{- range $of, $names := include "forebay.configmaps" . | fromYaml }}
- namespace: {{ $of }}
  name: {{ $fullname }}-configmaps
  rules:
    - apiGroups: [""]
      resources: [configmaps]
      resourceNames: {{ toJson $names }}
      verbs: [get, list, watch]
{{- end }}
- namespace: {{ include "forebay.scope.namespace" . }}
  name: {{ $fullname }}-scope
  rules:
    {{- include "forebay.rules.namespace" . | nindent 4 }}
    {{- include "forebay.rules.secrets" . | nindent 4 }}
{{- end }}
{{- end -}}
