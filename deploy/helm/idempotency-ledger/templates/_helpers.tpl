{{/* The labels by which a part is found: one of the release, and of its component. */}}
{{- define "ledger.selector" -}}
app.kubernetes.io/name: idempotency-ledger
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* All labels. */}}
{{- define "ledger.labels" -}}
{{ include "ledger.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{- define "ledger.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A duration like 500ms, 30s, 15m, 24h or 7d, in whole seconds: rounded up. */}}
{{- define "ledger.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "ms" -}}
{{ div (add $number 999) 1000 }}
{{- else -}}
{{ mul $number (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit) }}
{{- end -}}
{{- end }}

{{/* SIGTERM, drain_wait, drain_max, and 10 s to end. */}}
{{- define "ledger.grace" -}}
{{ add (include "ledger.seconds" .Values.settings.drain_wait) (include "ledger.seconds" .Values.settings.drain_max) 10 }}
{{- end }}

{{/* The program's configuration: settings, then tables. */}}
{{- define "ledger.toml" -}}
# The chart's values `settings` and `tables`. docs/configuration.md lists all of them.
{{- range $name, $value := .Values.settings }}
{{ $name }} = {{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- with .Values.tables }}

{{ trim . }}
{{- end }}
{{- end }}

{{/* A file's text as a value of a ConfigMap. */}}
{{- define "ledger.lines" -}}
{{ regexReplaceAll "(?m)^ +$" (trim . | nindent 4) "" }}
{{- end }}

{{/* What both kinds of pods must not be able to do. */}}
{{- define "ledger.pod" -}}
automountServiceAccountToken: false
# Kubernetes would put IDEMPOTENCY_LEDGER_PORT and others of the Service's into the environment, where the program's
# own settings are.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "ledger.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
