{{- /* The Pod of the controller, of which the Deployment and the DaemonSet are made. */ -}}

{{- /* net.ipv4.ip_unprivileged_port_start lets a process that is not root open ports 80 and 443. It belongs to the Pod's network, and so cannot be
set with hostNetwork; there the binary's file capability does it, which needs allowPrivilegeEscalation. */ -}}
{{- define "forebay.pod.securityContext" -}}
{{- $controller := .Values.controller -}}
{{- $own := deepCopy ($controller.podSecurityContext | default dict) -}}
{{- $sysctls := $own.sysctls | default list -}}
{{- range $name, $value := $controller.sysctls -}}
{{- $sysctls = append $sysctls (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- $ports := "net.ipv4.ip_unprivileged_port_start" -}}
{{- $names := list -}}
{{- range $sysctls }}{{ $names = append $names .name }}{{ end -}}
{{- if and (not $controller.hostNetwork) (not (has $ports $names)) -}}
{{- $sysctls = append $sysctls (dict "name" $ports "value" "0") -}}
{{- end -}}
{{- if $sysctls }}{{ $_ := set $own "sysctls" $sysctls }}{{ end -}}
{{- toYaml $own -}}
{{- end -}}

{{- define "forebay.container.securityContext" -}}
{{- $controller := .Values.controller -}}
{{- if $controller.containerSecurityContext -}}
{{- toYaml $controller.containerSecurityContext -}}
{{- else -}}
{{- $escalation := or $controller.image.allowPrivilegeEscalation $controller.hostNetwork -}}
{{- include "forebay.image.securityContext" (merge (dict "allowPrivilegeEscalation" $escalation) $controller.image) }}
capabilities:
  drop: [ALL]
  add: [NET_BIND_SERVICE]
{{- end -}}
{{- end -}}

{{- /* A probe; (dict "root" $ "probe" PROBE "path" PATH). */ -}}
{{- define "forebay.probe" -}}
{{- $controller := .root.Values.controller -}}
{{- $probe := deepCopy .probe -}}
{{- with $probe.httpGet -}}
{{- if has .path (list "/healthz" $controller.healthCheckPath) }}{{ $_ := set . "path" $.path }}{{ end -}}
{{- if not .port }}{{ $_ := set . "port" $controller.metrics.portName }}{{ end -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}

{{- /* Hooks, without the one whose program is in ingress-nginx's image only. */ -}}
{{- define "forebay.lifecycle" -}}
{{- $lifecycle := deepCopy (.Values.controller.lifecycle | default dict) -}}
{{- if eq (dig "preStop" "exec" "command" list $lifecycle | join " ") "/wait-shutdown" -}}
{{- $lifecycle = unset $lifecycle "preStop" -}}
{{- end -}}
{{- if $lifecycle }}{{ toYaml $lifecycle }}{{ end -}}
{{- end -}}

{{- define "forebay.container.ports" -}}
{{- $controller := .Values.controller -}}
{{- range $name, $port := $controller.containerPort }}
- name: {{ $name }}
  containerPort: {{ $port }}
  protocol: TCP
  {{- if $controller.hostPort.enabled }}
  hostPort: {{ index $controller.hostPort.ports $name | default $port }}
  {{- end }}
{{- end }}
{{- if $controller.service.enableHttp3 }}
- name: http3
  containerPort: {{ $controller.containerPort.https }}
  protocol: UDP
  {{- if $controller.hostPort.enabled }}
  hostPort: {{ index $controller.hostPort.ports "https" | default $controller.containerPort.https }}
  {{- end }}
{{- end }}
- name: {{ $controller.metrics.portName }}
  containerPort: {{ $controller.metrics.port }}
  protocol: TCP
{{- if $controller.admissionWebhooks.enabled }}
- name: webhook
  containerPort: {{ $controller.admissionWebhooks.port }}
  protocol: TCP
{{- end }}
{{- if $controller.replicas.enabled }}
- name: replicas
  containerPort: {{ $controller.replicas.udpPort }}
  protocol: UDP
{{- if $controller.replicas.perWatch }}
- name: replicas-watch
  containerPort: {{ $controller.replicas.watchPort }}
  protocol: TCP
{{- end }}
{{- end }}
{{- range $protocol, $ports := dict "tcp" .Values.tcp "udp" .Values.udp }}
{{- range $port, $_ := $ports }}
- name: {{ $.Values.portNamePrefix }}{{ $port }}-{{ $protocol }}
  containerPort: {{ $port }}
  protocol: {{ upper $protocol }}
  {{- if $controller.hostPort.enabled }}
  hostPort: {{ $port }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "forebay.container.volumeMounts" -}}
{{- $controller := .Values.controller -}}
{{- if $controller.admissionWebhooks.enabled }}
- name: webhook-certificate
  mountPath: {{ dir $controller.admissionWebhooks.certificate }}
  readOnly: true
{{- end }}
{{- if $controller.replicas.enabled }}
- name: replicas-secret
  mountPath: /etc/forebay/replicas
  readOnly: true
{{- end }}
{{- if and $controller.console.oidc.issuerUrl $controller.console.oidc.existingSecret }}
- name: console-oidc
  mountPath: /etc/forebay/console-oidc
  readOnly: true
{{- end }}
{{- if and $controller.limitRedis.url $controller.limitRedis.existingSecret }}
- name: limit-redis
  mountPath: /etc/forebay/limit-redis
  readOnly: true
{{- end }}
{{- if $controller.stateDir.enabled }}
- name: state
  mountPath: /var/lib/forebay
{{- end }}
{{- if $controller.bodyBuffer.enabled }}
- name: bodies
  mountPath: /var/cache/forebay/bodies
{{- end }}
{{- if $controller.record.enabled }}
- name: record
  mountPath: /var/cache/forebay/record
{{- end }}
{{- if or $controller.waf.rulesConfigMap $controller.waf.rulesVolume }}
- name: waf-rules
  mountPath: /etc/forebay/waf
  readOnly: true
{{- end }}
{{- if $controller.geoip.volume }}
- name: geoip
  mountPath: /etc/ingress-controller/geoip
{{- end }}
{{- with $controller.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "forebay.pod.volumes" -}}
{{- $controller := .Values.controller -}}
{{- $webhook := $controller.admissionWebhooks -}}
{{- if $webhook.enabled }}
- name: webhook-certificate
  secret:
    secretName: {{ $webhook.existingSecret | default (include "forebay.webhook" .) }}
    items:
      - key: tls.crt
        path: {{ base $webhook.certificate }}
      - key: tls.key
        path: {{ base $webhook.key }}
{{- end }}
{{- if $controller.replicas.enabled }}
- name: replicas-secret
  secret:
    secretName: {{ required "controller.replicas.existingSecret names no Secret" $controller.replicas.existingSecret }}
    items:
      - key: {{ $controller.replicas.secretKey }}
        path: secret
{{- end }}
{{- with $controller.console.oidc }}
{{- if and .issuerUrl .existingSecret }}
- name: console-oidc
  secret:
    secretName: {{ .existingSecret }}
    items:
      {{- with .clientSecretKey }}
      - key: {{ . }}
        path: client-secret
      {{- end }}
      {{- with .cookieSecretKey }}
      - key: {{ . }}
        path: cookie-secret
      {{- end }}
      {{- with .caKey }}
      - key: {{ . }}
        path: ca.pem
      {{- end }}
{{- end }}
{{- end }}
{{- with $controller.limitRedis }}
{{- if and .url .existingSecret }}
- name: limit-redis
  secret:
    secretName: {{ .existingSecret }}
    items:
      {{- with .passwordKey }}
      - key: {{ . }}
        path: password
      {{- end }}
      {{- with .caKey }}
      - key: {{ . }}
        path: ca.pem
      {{- end }}
{{- end }}
{{- end }}
{{- if $controller.stateDir.enabled }}
- name: state
  {{- toYaml $controller.stateDir.volume | nindent 2 }}
{{- end }}
{{- if $controller.bodyBuffer.enabled }}
- name: bodies
  {{- toYaml $controller.bodyBuffer.volume | nindent 2 }}
{{- end }}
{{- if $controller.record.enabled }}
- name: record
  {{- toYaml $controller.record.volume | nindent 2 }}
{{- end }}
{{- with $controller.waf }}
{{- if .rulesConfigMap }}
- name: waf-rules
  configMap:
    name: {{ .rulesConfigMap }}
{{- else if .rulesVolume }}
- name: waf-rules
  {{- toYaml .rulesVolume | nindent 2 }}
{{- end }}
{{- end }}
{{- with $controller.geoip.volume }}
- name: geoip
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $controller.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "forebay.container" -}}
{{- $controller := .Values.controller -}}
name: {{ $controller.containerName }}
image: {{ include "forebay.image" . | quote }}
imagePullPolicy: {{ $controller.image.pullPolicy }}
args:
  {{- include "forebay.arguments" . | nindent 2 }}
env:
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  {{- if $controller.replicas.enabled }}
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  {{- end }}
  {{- with $controller.geoip.licenseKeySecret }}
  {{- if .name }}
  - name: MAXMIND_LICENSE_KEY
    valueFrom:
      secretKeyRef:
        name: {{ .name }}
        key: {{ .key }}
  {{- end }}
  {{- end }}
  {{- with $controller.extraEnvs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  {{- include "forebay.container.ports" . | trim | nindent 2 }}
{{- range $name, $path := dict "livenessProbe" "/livez" "readinessProbe" "/readyz" "startupProbe" "/livez" }}
{{- with index $controller $name }}
{{ $name }}:
  {{- include "forebay.probe" (dict "root" $ "probe" . "path" $path) | nindent 2 }}
{{- end }}
{{- end }}
{{- with include "forebay.lifecycle" . }}
lifecycle:
  {{- . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "forebay.container.securityContext" . | nindent 2 }}
{{- with $controller.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "forebay.container.volumeMounts" . | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Where a Pod runs, with the same keys for both kinds of Pods. */ -}}
{{- define "forebay.placement" -}}
{{- range $key := list "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" }}
{{- with index $.values $key }}
{{ $key }}:
  {{- tpl (toYaml .) $.root | nindent 2 }}
{{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" }}
{{- with index $.values $key }}
{{ $key }}: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "forebay.pod" -}}
{{- $controller := .Values.controller -}}
metadata:
  labels:
    {{- include "forebay.labels" (dict "root" . "component" $controller.name "extra" (merge (dict) ($controller.podLabels | default dict) ($controller.labels | default dict))) | nindent 4 }}
  {{- with $controller.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "forebay.serviceAccount" . }}
  automountServiceAccountToken: {{ .Values.serviceAccount.automountServiceAccountToken }}
  terminationGracePeriodSeconds: {{ $controller.terminationGracePeriodSeconds }}
  dnsPolicy: {{ $controller.dnsPolicy }}
  {{- range $key := list "dnsConfig" "hostAliases" "hostname" "shareProcessNamespace" "hostNetwork" }}
  {{- with index $controller $key }}
  {{ $key }}: {{ toJson . }}
  {{- end }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "forebay.pod.securityContext" . | nindent 4 }}
  {{- with $controller.extraInitContainers }}
  initContainers:
    {{- tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  containers:
    - {{ include "forebay.container" . | nindent 6 | trim }}
    {{- with $controller.extraContainers }}
    {{- tpl (toYaml .) $ | nindent 4 }}
    {{- end }}
  {{- with include "forebay.pod.volumes" . | trim }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
  {{- include "forebay.placement" (dict "root" . "values" $controller) | trim | nindent 2 }}
{{- end -}}
