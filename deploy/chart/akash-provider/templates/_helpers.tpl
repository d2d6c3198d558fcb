{{/* Name of all objects: the name of the release if it contains the name of the chart. */}}
{{- define "provider.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* Labels in selectors, which Kubernetes does not allow to change. */}}
{{- define "provider.selectorLabels" -}}
app: {{ include "provider.fullname" . }}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "provider.labels" -}}
{{ include "provider.selectorLabels" . }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "provider.serviceAccount" -}}
{{- default (ternary (include "provider.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end }}

{{- define "provider.keySecret" -}}
{{ .Values.existingKeySecret | default (printf "%s-keys" (include "provider.fullname" .)) }}
{{- end }}

{{/* Storage class of the home directory. Kubernetes does not allow to change the class, so the rule is that of the Go
     provider's chart: the last persistent storage in the attributes. */}}
{{- define "provider.storageClass" -}}
{{- $class := dict "name" "" -}}
{{- range .Values.attributes -}}
{{- if and (hasPrefix "capabilities/storage/" .key) (hasSuffix "/persistent" .key) (eq (toString .value) "true") -}}
{{- $key := printf "%s/class" (trimSuffix "/persistent" .key) -}}
{{- range $.Values.attributes -}}{{- if eq .key $key -}}{{- $_ := set $class "name" .value -}}{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $local := printf "%s-local-storage" (include "provider.fullname" .) -}}
{{- $class.name | default (dig "storage" "storageClass" "" .Values.letsEncrypt) | default $local -}}
{{- end }}

{{/* Settings of the provider that are values of this chart, by the name of the flag. */}}
{{- define "provider.settings" -}}
{{- $v := .Values -}}
{{- $s := dict
  "cluster-k8s" true
  "chain-id" $v.chainid
  "node" $v.node
  "gas" $v.gas
  "gas-prices" $v.gasprices
  "gas-adjustment" $v.gasadjustment
  "bid-deposit" $v.bidmindeposit
  "bid-price-cpu-scale" $v.bidpricecpuscale
  "bid-price-memory-scale" $v.bidpricememoryscale
  "bid-price-endpoint-scale" $v.bidpriceendpointscale
  "bid-price-ip-scale" $v.bidpriceipscale
  "bid-price-storage-scale" $v.bidpricestoragescale
  "withdrawal-period" $v.withdrawalperiod
  "cluster-node-port-quantity" $v.cluster_node_port_quantity
  "ip-operator" $v.ipoperator
  "overcommit-pct-cpu" $v.overcommit_pct_cpu
  "overcommit-pct-mem" $v.overcommit_pct_mem
  "overcommit-pct-storage" $v.overcommit_pct_storage
  "deployment-runtime-class" "none"
  "deployment-ingress-domain" (printf "ingress.%s" $v.domain)
  "deployment-ingress-static-hosts" true
  "cluster-public-hostname" (printf "provider.%s" $v.domain)
  "k8s-manifest-ns" $v.manifestNamespace
  "gateway-health-listen-address" "0.0.0.0:8445"
  "metrics-listener" (printf "0.0.0.0:%v" $v.metrics.port)
  "ingress-mode" (ternary "gateway-api" "ingress" $v.gatewayApi.enabled)
  "key-file" "/boot-keys/key.txt"
  "key-passphrase-file" "/boot-keys/key-pass.txt"
-}}
{{- with $v.reclamationWindow }}{{ $_ := set $s "reclamation-window" . }}{{ end -}}
{{- if $v.gatewayApi.enabled }}
  {{- $_ := set $s "gateway-name" $v.gatewayApi.gatewayName -}}
  {{- $_ := set $s "gateway-namespace" ($v.gatewayApi.gatewayNamespace | default .Release.Namespace) -}}
  {{- $_ := set $s "gateway-implementation" $v.gatewayApi.implementation -}}
{{- else }}
  {{- $_ := set $s "ingress-class" $v.ingress.className -}}
{{- end -}}
{{- if $v.bidpricescript }}
  {{- $_ := set $s "bid-price-strategy" "shellScript" -}}
  {{- $_ := set $s "bid-price-script-path" "/scripts/price_script.sh" -}}
{{- end -}}
{{- with $v.withOperators }}{{ $_ := set $s "with-operators" (join "," .) }}{{ end -}}
{{- if $v.certificateSecret }}
  {{- $_ := set $s "gateway-tls-cert" "/certificate/tls.crt" -}}
  {{- $_ := set $s "gateway-tls-key" "/certificate/tls.key" -}}
{{- else if $v.domain }}
  {{- $_ := set $s "certificate-domain" (printf "provider.%s" $v.domain) -}}
{{- end -}}
{{- with $v.providerCertificateSecret }}{{ $_ := set $s "provider-certificate-secret" . }}{{ end -}}
{{- with $v.inventoryOperator }}{{ $_ := set $s "inventory-operator" . }}{{ end -}}
{{- with $v.redis.url }}{{ $_ := set $s "bus" . }}{{ end -}}
{{- if $v.redis.passwordSecret }}{{ $_ := set $s "bus-password-file" "/redis/password" }}{{ end -}}
{{- if gt (int $v.replicaCount) 1 }}
  {{- $_ := set $s "ha" "kubernetes" -}}
  {{- $_ := set $s "ha-address" (printf "provider.%s:8443" $v.domain) -}}
{{- end -}}
{{- mergeOverwrite $s ($v.settings | default dict) | toYaml -}}
{{- end }}

{{/* "true" if the instances elect a leader. YAML reads the value `off` as a boolean. */}}
{{- define "provider.isElected" -}}
{{- $ha := get (include "provider.settings" . | fromYaml) "ha" | toString -}}
{{- if not (has $ha (list "" "off" "false")) }}true
{{- else if gt (int .Values.replicaCount) 1 }}
{{- fail "replicaCount above 1 requires a leader election: remove settings.ha, or set it to kubernetes or redis" }}
{{- end -}}
{{- end }}

{{/* Fails if the running pod of the release takes part in no election: a second instance would lead beside it. */}}
{{- define "provider.checkElection" -}}
{{- $name := include "provider.fullname" . }}
{{- with lookup "apps/v1" "StatefulSet" .Release.Namespace $name }}
{{- $found := dict }}
{{- range .spec.template.spec.containers }}{{ range .env }}{{ $_ := set $found .name true }}{{ end }}{{ end }}
{{- if not (hasKey $found "AP_HA_POD") }}
{{- fail (printf "the running pod of StatefulSet %s takes part in no leader election, so a second instance would lead beside it; upgrade with replicaCount=1 and settings.ha=kubernetes, wait until the pod is ready, then set replicaCount" $name) }}
{{- end }}
{{- end }}
{{- end }}
