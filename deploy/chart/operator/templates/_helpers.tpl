{{/* Kind of the operator: hostname, ip or inventory. These templates belong to all three charts. */}}
{{- define "operator.kind" -}}
{{ .Chart.Name | trimPrefix "akash-" | trimSuffix "-operator" }}
{{- end }}

{{/* Labels in selectors: those of the Go provider, so that each part finds the other one. */}}
{{- define "operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "operator.kind" . }}
app.kubernetes.io/instance: {{ include "operator.kind" . }}-service
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: provider
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selectorLabels" . }}
akash.network: "true"
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (printf "operator-%s" (include "operator.kind" .)) }}
{{- end }}

{{/* Settings of the operator that are values of its chart, by the name of the flag. */}}
{{- define "operator.settings" -}}
{{- $s := dict "k8s-manifest-ns" .Values.manifestNamespace -}}
{{- with .Values.gatewayApi }}
  {{- $_ := set $s "ingress-mode" (ternary "gateway-api" "ingress" .enabled) -}}
  {{- if .enabled }}
    {{- $_ := set $s "gateway-name" .gatewayName -}}
    {{- $_ := set $s "gateway-namespace" (.gatewayNamespace | default $.Release.Namespace) -}}
    {{- $_ := set $s "gateway-provider" .implementation -}}
  {{- end }}
{{- end }}
{{- if hasKey .Values "provider_address" }}
  {{- $_ := set $s "provider" (required "provider_address is required: the address of the provider's account" .Values.provider_address) -}}
{{- end }}
{{- if hasKey .Values "inventoryConfig" }}
  {{- $_ := set $s "config" "/akash/config.yaml" -}}
{{- end }}
{{- if dig "enabled" false (.Values.discovery | default dict) }}
  {{- /* Discovery needs the commands of the daemon. */}}
  {{- if eq (include "akash.program" .) "provider-daemon" }}
    {{- $_ := set $s "discovery-image" (include "akash.image" .) -}}
  {{- else }}
    {{- $_ := required "settings.discovery-image is required: an image with the program provider-services" (index (.Values.settings | default dict) "discovery-image") -}}
  {{- end }}
  {{- $_ := set $s "discovery-namespace" "akash-discovery" -}}
{{- end }}
{{- mergeOverwrite $s (.Values.settings | default dict) | toYaml -}}
{{- end }}
