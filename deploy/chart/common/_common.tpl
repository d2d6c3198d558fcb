{{/* Definitions of the charts of the provider and of the operators. Each chart has a link to this file. */}}

{{/* A values file of the Go provider's chart may name its image, which cannot run this chart. */}}
{{- define "akash.isGoImage" -}}
{{- if hasSuffix "/akash-network/provider" .Values.image.repository }}true{{ end -}}
{{- end }}

{{/* Program in the image. Values of an earlier chart have no such entry. */}}
{{- define "akash.program" -}}
{{ .Values.image.program | default "provider-daemon" }}
{{- end }}

{{- define "akash.image" -}}
{{- if include "akash.isGoImage" . -}}
{{ .Values.image.repository | trimSuffix "provider" }}{{ include "akash.program" . }}:{{ .Chart.AppVersion }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Account of the pods and its rights. Arguments: `root`, `account`, `labels`, and `texts`, a list of YAML documents
     from deploy/rbac or deploy/operators, whose namespaces and accounts are replaced by those of the release. */}}
{{- define "akash.rights" -}}
{{- $root := .root }}
{{- $namespace := .root.Release.Namespace }}
{{- $account := .account }}
{{- $labels := .labels }}
{{- if $root.Values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ $namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with $root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if $root.Values.rbac.create }}
{{- $subjects := list (dict "kind" "ServiceAccount" "name" $account "namespace" $namespace) }}
{{- $user := printf "system:serviceaccount:%s:%s" $namespace $account }}
{{- $records := printf "request.namespace == '%s'" $root.Values.manifestNamespace }}
{{- range $text := .texts }}
{{- $object := $text | replace "system:serviceaccount:lease:akash-provider" $user | replace "request.namespace == 'lease'" $records | fromYaml }}
{{- $in := default "" $object.metadata.namespace }}
{{- if or (ne $object.kind "ServiceAccount") (eq $in "akash-discovery") }}
{{- if eq $in "lease" }}
{{- $_ := set $object.metadata "namespace" $root.Values.manifestNamespace }}
{{- else if eq $in "akash-services" }}
{{- $_ := set $object.metadata "namespace" $namespace }}
{{- end }}
{{- if $object.subjects }}
{{- $_ := set $object "subjects" $subjects }}
{{- end }}
{{- if ne $object.kind "Namespace" }}
{{- $_ := set $object.metadata "labels" (fromYaml $labels) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
