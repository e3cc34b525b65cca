{{- /* The arguments of `forebay serve`. */ -}}

{{- define "forebay.publishService" -}}
{{- if .Values.controller.publishService.pathOverride -}}
{{- .Values.controller.publishService.pathOverride -}}
{{- else -}}
{{- include "forebay.ownService" . -}}
{{- end -}}
{{- end -}}

{{- define "forebay.ownService" -}}
{{- $controller := .Values.controller -}}
{{- $own := printf "$(POD_NAMESPACE)/%s" (include "forebay.controller" .) -}}
{{- if and $controller.service.enabled $controller.service.external.enabled -}}
{{- $own -}}
{{- else if and $controller.service.enabled $controller.service.internal.enabled -}}
{{- $own -}}-internal
{{- end -}}
{{- end -}}

{{- define "forebay.scoped" -}}
{{- if or .Values.controller.scope.enabled .Values.rbac.scope -}}
true
{{- end -}}
{{- end -}}

{{- define "forebay.arguments" -}}
{{- $controller := .Values.controller -}}
{{- $webhook := $controller.admissionWebhooks -}}
- serve
- --controller-class={{ $controller.ingressClassResource.controllerValue }}
{{- with $controller.ingressClass }}
- --ingress-class={{ . }}
{{- end }}
- --ingress-class-by-name={{ $controller.ingressClassByName }}
- --watch-ingress-without-class={{ $controller.watchIngressWithoutClass }}
{{- if include "forebay.scoped" . }}
- --watch-namespace={{ $controller.scope.namespace | default "$(POD_NAMESPACE)" }}
{{- else if $controller.scope.namespaceSelector }}
- --watch-namespace-selector={{ $controller.scope.namespaceSelector }}
{{- end }}
- --configmap={{ $controller.configMapNamespace | default "$(POD_NAMESPACE)" }}/{{ include "forebay.controller" . }}
{{- if .Values.tcp }}
- --tcp-services-configmap={{ $controller.tcp.configMapNamespace | default "$(POD_NAMESPACE)" }}/{{ include "forebay.fullname" . }}-tcp
{{- end }}
{{- if .Values.udp }}
- --udp-services-configmap={{ $controller.udp.configMapNamespace | default "$(POD_NAMESPACE)" }}/{{ include "forebay.fullname" . }}-udp
{{- end }}
{{- if include "forebay.defaultBackend.made" . }}
- --default-backend-service=$(POD_NAMESPACE)/{{ include "forebay.defaultBackend" . }}
{{- end }}
- --election-id={{ include "forebay.electionID" . }}
{{- with $controller.electionTTL }}
- --election-ttl={{ . }}
{{- end }}
{{- if $controller.disableLeaderElection }}
- --disable-leader-election=true
{{- end }}
{{- $publish := include "forebay.publishService" . }}
{{- if and $controller.publishService.enabled $publish }}
- --publish-service={{ $publish }}
{{- else if and $controller.reportNodeInternalIp $controller.hostNetwork }}
- --report-node-internal-ip-address=true
{{- end }}
{{- if $controller.enableTopologyAwareRouting }}
- --enable-topology-aware-routing=true
{{- end }}
{{- if ne (int $controller.containerPort.http) 80 }}
- --http-port={{ $controller.containerPort.http }}
{{- end }}
{{- if ne (int $controller.containerPort.https) 443 }}
- --https-port={{ $controller.containerPort.https }}
{{- end }}
{{- if ne (int $controller.metrics.port) 10254 }}
- --healthz-port={{ $controller.metrics.port }}
{{- end }}
{{- with $controller.healthCheckHost }}
- --healthz-host={{ . }}
{{- end }}
- --shutdown-grace-period={{ $controller.shutdownGracePeriod }}
{{- if $controller.stateDir.enabled }}
- --state-dir=/var/lib/forebay
{{- end }}
{{- if $controller.bodyBuffer.enabled }}
- --body-buffer-dir=/var/cache/forebay/bodies
{{- end }}
{{- if $controller.record.enabled }}
- --record=/var/cache/forebay/record
- --record-size={{ $controller.record.size }}
{{- end }}
{{- with $controller.waf }}
{{- if or .rulesConfigMap .rulesVolume }}
- --waf-rules=/etc/forebay/waf
{{- end }}
{{- with .unenforced }}
- --waf-unenforced={{ . }}
{{- end }}
{{- end }}
{{- if $controller.geoip.licenseKeySecret.name }}
- --maxmind-license-key=$(MAXMIND_LICENSE_KEY)
{{- else if $controller.maxmindLicenseKey }}
- --maxmind-license-key={{ $controller.maxmindLicenseKey }}
{{- end }}
{{- with $controller.geoip.editions }}
- --maxmind-edition-ids={{ join "," . }}
{{- end }}
{{- with $controller.geoip.mirror }}
- --maxmind-mirror={{ . }}
{{- end }}
{{- if $controller.replicas.enabled }}
- --replicas-service={{ required "controller.replicas needs a Service of the controller" (include "forebay.ownService" .) }}
- --replicas-secret=/etc/forebay/replicas/secret
- --replicas-udp-port={{ $controller.replicas.udpPort }}
{{- with $controller.replicas.perWatch }}
- --replicas-per-watch={{ . }}
- --replicas-watch-port={{ $controller.replicas.watchPort }}
{{- end }}
{{- end }}
{{- with $controller.console.oidc }}
{{- if .issuerUrl }}
- --console-oidc-issuer-url={{ .issuerUrl }}
- --console-oidc-client-id={{ required "controller.console.oidc needs clientId" .clientId }}
{{- if and .existingSecret .clientSecretKey }}
- --console-oidc-client-secret-file=/etc/forebay/console-oidc/client-secret
{{- end }}
{{- if and .existingSecret .cookieSecretKey }}
- --console-oidc-cookie-secret-file=/etc/forebay/console-oidc/cookie-secret
{{- end }}
{{- if and .existingSecret .caKey }}
- --console-oidc-ca-file=/etc/forebay/console-oidc/ca.pem
{{- end }}
{{- with .scopes }}
- --console-oidc-scope={{ join "," . }}
{{- end }}
{{- with .redirectUrl }}
- --console-oidc-redirect-url={{ . }}
{{- end }}
{{- range required "controller.console.oidc needs rules" .rules }}
- {{ printf "--console-oidc-rule=%s" . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with $controller.console.hosts }}
- --admin-host={{ join "," . }}
{{- end }}
{{- with $controller.limitRedis }}
{{- if .url }}
- --limit-redis={{ .url }}
{{- if and .existingSecret .passwordKey }}
- --limit-redis-password=/etc/forebay/limit-redis/password
{{- end }}
{{- if and .existingSecret .caKey }}
- --limit-redis-ca=/etc/forebay/limit-redis/ca.pem
{{- end }}
{{- end }}
{{- end }}
{{- if $webhook.enabled }}
- --validating-webhook=:{{ $webhook.port }}
- --validating-webhook-certificate={{ $webhook.certificate }}
- --validating-webhook-key={{ $webhook.key }}
{{- end }}
{{- include "forebay.extraArguments" $controller.extraArgs }}
{{- end -}}

{{- /* The last of a flag given twice holds, so that these override those above. */ -}}
{{- define "forebay.extraArguments" -}}
{{- range $name, $value := . }}
{{- if or (kindIs "invalid" $value) (eq (toString $value) "") }}
- --{{ $name }}
{{- else }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}
