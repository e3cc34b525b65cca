{{- /* spec of a Service but for its ports and selector; the argument holds the keys, of which those that its type does not have are left out. */ -}}
{{- define "forebay.service.spec" -}}
type: {{ .type }}
{{- $keys := list "clusterIP" "clusterIPs" "externalIPs" "ipFamilies" "ipFamilyPolicy" "sessionAffinity" "trafficDistribution" -}}
{{- if or .externalIPs (ne .type "ClusterIP") }}{{ $keys = append $keys "externalTrafficPolicy" }}{{ end -}}
{{- if eq .type "LoadBalancer" -}}
{{- $keys = concat $keys (list "healthCheckNodePort" "loadBalancerClass" "loadBalancerIP" "loadBalancerSourceRanges") -}}
{{- end -}}
{{- $service := . -}}
{{- range $key := $keys }}
{{- with index $service $key }}
{{ $key }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Ports of a Service of the controller; (dict "root" $ "service" VALUES "fallback" VALUES). */ -}}
{{- define "forebay.service.ports" -}}
{{- $service := .service -}}
{{- $fallback := .fallback -}}
{{- $nodePorts := dict -}}
{{- if has $service.type (list "NodePort" "LoadBalancer") -}}
{{- $nodePorts = $service.nodePorts | default dict -}}
{{- end -}}
{{- range $name, $enabled := dict "http" $fallback.enableHttp "https" $fallback.enableHttps }}
{{- if $enabled }}
- name: {{ $name }}
  port: {{ index ($service.ports | default dict) $name | default (index $fallback.ports $name) }}
  protocol: TCP
  targetPort: {{ index ($service.targetPorts | default dict) $name | default (index $fallback.targetPorts $name) }}
  {{- if $service.appProtocol }}
  appProtocol: {{ $name }}
  {{- end }}
  {{- with index $nodePorts $name }}
  nodePort: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
{{- if and $fallback.enableHttps $fallback.enableHttp3 }}
- name: http3
  port: {{ index ($service.ports | default dict) "https" | default (index $fallback.ports "https") }}
  protocol: UDP
  targetPort: http3
  {{- with index $nodePorts "https" }}
  nodePort: {{ . }}
  {{- end }}
{{- end }}
{{- $prefix := .root.Values.portNamePrefix -}}
{{- range $protocol, $ports := dict "tcp" .root.Values.tcp "udp" .root.Values.udp }}
{{- range $port, $_ := $ports }}
- name: {{ $prefix }}{{ $port }}-{{ $protocol }}
  port: {{ $port }}
  protocol: {{ upper $protocol }}
  targetPort: {{ $prefix }}{{ $port }}-{{ $protocol }}
  {{- with index (index $nodePorts $protocol | default dict) (toString $port) }}
  nodePort: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}
