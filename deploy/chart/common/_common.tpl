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
     from deploy/rbac or deploy/operators, whose namespaces and accounts are replaced by those of the release. `allowed` is
     a condition of further writes that the admission policy allows. */}}
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
{{- include "akash.checkDefinitions" $root }}
{{- $subjects := list (dict "kind" "ServiceAccount" "name" $account "namespace" $namespace) }}
{{- $user := printf "system:serviceaccount:%s:%s" $namespace $account }}
{{- $records := printf "request.namespace == '%s'" $root.Values.manifestNamespace }}
{{- with .allowed }}{{ $records = printf "(%s || %s)" $records . }}{{ end }}
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
{{- if eq $object.kind "ClusterRole" }}
{{- include "akash.checkOwner" (dict "root" $root "name" $object.metadata.name) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails if another release has the rights. Arguments: `root`, and the `name` of a ClusterRole. */}}
{{- define "akash.checkOwner" -}}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" .name }}
{{- $notes := dig "metadata" "annotations" dict ($role | default dict) }}
{{- $name := get $notes "meta.helm.sh/release-name" }}
{{- $in := get $notes "meta.helm.sh/release-namespace" }}
{{- if and $name (or (ne $name .root.Release.Name) (ne $in .root.Release.Namespace)) }}
{{- fail (printf "the rights in ClusterRole %s belong to release %s in namespace %s; uninstall that release, or set rbac.create=false and create rights of another name for this one" .name $name $in) }}
{{- end }}
{{- end }}

{{/* Warnings about unknown values and about secrets in plain values. `files/values.txt` has the names of all values. */}}
{{- define "akash.warnings" -}}
{{- $known := .Files.Get "files/values.txt" | trim | splitList "\n" }}
{{- range $key, $value := .Values }}
{{- if not (has $key $known) }}
{{- include "akash.unknownValue" (dict "name" $key "known" $known) }}
{{- else if kindIs "map" $value }}
{{- $inner := list }}
{{- range $known }}{{ if hasPrefix (printf "%s." $key) . }}{{ $inner = append $inner . }}{{ end }}{{ end }}
{{- range $field, $_ := $value }}
{{- $path := printf "%s.%s" $key $field }}
{{- if and $inner (not (has $path $known)) }}
{{- include "akash.unknownValue" (dict "name" $path "known" $inner) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $urls := dict "redis.url" (dig "url" "" (get .Values "redis" | default dict)) }}
{{- range $flag, $value := .Values.settings | default dict }}{{ $_ := set $urls (printf "settings.%s" $flag) $value }}{{ end }}
{{- range $path, $value := $urls }}
{{- if regexMatch "://[^/@]*:[^/@]+@" (toString $value) }}

WARNING: the value `{{ $path }}` contains a password. Everyone who can read the release can read the password. Use a
Secret: redis.passwordSecret for Redis, or a setting that ends with -file.
{{- end }}
{{- end }}
{{- end }}

{{/* Warning about an unknown value with the most similar name, by the share of equal pairs of characters. */}}
{{- define "akash.unknownValue" -}}
{{- $wanted := .name | lower | replace "_" "" | replace "-" "" }}
{{- $best := dict "name" "" "score" 49 }}
{{- range $name := .known }}
{{- $plain := $name | lower | replace "_" "" | replace "-" "" }}
{{- $equal := 0 }}
{{- range $start := until (max 0 (sub (len $wanted) 1) | int) }}
{{- if contains (substr $start (add $start 2 | int) $wanted) $plain }}{{ $equal = add $equal 1 }}{{ end }}
{{- end }}
{{- $score := div (mul 200 $equal) (max 1 (sub (add (len $wanted) (len $plain)) 2)) | int }}
{{- if gt $score $best.score }}{{ $_ := set $best "name" $name }}{{ $_ := set $best "score" $score }}{{ end }}
{{- end }}

WARNING: unknown value `{{ .name }}`{{ with $best.name }}; did you mean `{{ . }}`?{{ end }}
{{- end }}

{{/* Fails if a CustomResourceDefinition of the cluster does not serve the version of the provider. Helm does not change
     existing definitions. */}}
{{- define "akash.checkDefinitions" -}}
{{- range $name := list "manifests" "providerhosts" "providerleasedips" }}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (printf "%s.akash.network" $name) }}
{{- $served := list }}
{{- range .spec.versions }}{{ if .served }}{{ $served = append $served .name }}{{ end }}{{ end }}
{{- if not (has "v2beta2" $served) }}
{{- fail (printf "CustomResourceDefinition %s.akash.network is outdated: the cluster serves %s, the provider requires v2beta2; run `kubectl apply --filename deploy/crds`" $name (join ", " $served)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Disruption budget. A drain of a node evicts one pod at a time. With one pod, a budget would block the drain.
     Arguments: `root`, `name`, `labels`, `selector`, `replicas`. */}}
{{- define "akash.disruptionBudget" -}}
{{- if and (gt (int .replicas) 1) (dig "enabled" true (.root.Values.podDisruptionBudget | default dict)) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- .selector | nindent 6 }}
{{- end }}
{{- end }}

{{/* Outgoing connections of a NetworkPolicy. Arguments: `root`, and `urls` of further servers, separated by commas. */}}
{{- define "akash.egress" -}}
{{- $egress := dig "egress" dict (.root.Values.networkPolicy | default dict) | default dict }}
{{- if $egress.enabled }}
{{- $ports := dict }}
{{- range $egress.ports }}{{ $_ := set $ports (toString .) true }}{{ end }}
{{- range $url := splitList "," .urls }}
{{- $port := regexFind ":[0-9]+(/|$)" $url | trimAll ":/" }}
{{- $scheme := regexFind "^[a-z+-]+:" $url }}
{{- $port = $port | default (get (dict "https:" "443" "http:" "80" "redis:" "6379" "rediss:" "6379" "redis-sentinel:" "26379" "rediss-sentinel:" "26379") $scheme) }}
{{- if $port }}{{ $_ := set $ports $port true }}{{ end }}
{{- if hasSuffix "-sentinel:" $scheme }}{{ $_ := set $ports "6379" true }}{{ end }}
{{- end }}
egress:
  - ports:
      - port: 53
        protocol: UDP
      {{- range prepend (keys $ports | sortAlpha) "53" | uniq }}
      - port: {{ . }}
        protocol: TCP
      {{- end }}
  # The provider and the operators among themselves.
  - to:
      - podSelector: {}
    ports:
      {{- range list 8080 8081 8443 8444 }}
      - port: {{ . }}
        protocol: TCP
      {{- end }}
  {{- with $egress.rules }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
