{{/* What the schema cannot see: values that do not fit each other. */}}
{{- define "ledger.refusals" -}}
{{- $sessions := int .Values.settings.sessions -}}
{{- $servers := int .Values.replicas -}}
{{- $asked := printf "replicas (%d)" $servers -}}
{{- if .Values.autoscaling.enabled -}}
  {{- if lt (int .Values.autoscaling.max) $servers -}}
    {{- fail (printf "autoscaling.max is %d, must be at least replicas, %d" (int .Values.autoscaling.max) $servers) -}}
  {{- end -}}
  {{- $servers = int .Values.autoscaling.max -}}
  {{- $asked = printf "autoscaling.max (%d)" $servers -}}
{{- end -}}
{{- $each := mul 2 (add $sessions 7) -}}
{{- /* One of the seven is the first session of the inbox. */ -}}
{{- $each = add $each (mul 2 (sub (int (default 1 .Values.settings.inbox_sessions)) 1)) -}}
{{- $needed := mul (add $servers 1) $each -}}
{{- if gt $needed (int64 .Values.database.connections) -}}
  {{- fail (printf "database.connections is %d, must be at least %d: %s and one more while servers are replaced, each with up to %d connections, twice settings.sessions (%d), settings.inbox_sessions and 6. Lower one of these, or let the database have more max_connections" (int .Values.database.connections) $needed $asked $each $sessions) -}}
{{- end -}}
{{- if not (or .Values.tokens.secret .Values.tls.clients .Values.settings.trusted_proxies (contains "[issuers." .Values.tables)) -}}
  {{- fail "no caller could be authenticated: set tokens.secret, tls.clients, settings.trusted_proxies or [issuers.NAME] in tables" -}}
{{- end -}}
{{- if and .Values.tls.clients (not .Values.tls.secret) -}}
  {{- fail "tls.clients needs tls.secret, with ca.crt in it" -}}
{{- end -}}
{{- if and .Values.migration.grantTo (not .Values.migration.secret) -}}
  {{- fail "migration.grantTo needs migration.secret: the URL of the owner's role, which is another one than the servers'" -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
  {{- $egress := .Values.networkPolicy.egress -}}
  {{- if not $egress.database.ports -}}
    {{- fail "networkPolicy.egress.database.ports is empty: the servers could not reach the database" -}}
  {{- end -}}
  {{- range $name, $_ := .Values.otel -}}
    {{- if and (hasSuffix "_ENDPOINT" $name) (not $egress.otlp.ports) -}}
      {{- fail (printf "otel.%s is set and networkPolicy.egress.otlp.ports is empty: the servers could not reach the collector" $name) -}}
    {{- end -}}
  {{- end -}}
  {{- $fetches := or (contains "jwks_url" .Values.tables) (and (contains "[issuers." .Values.tables) (not (contains "jwks_file" .Values.tables))) -}}
  {{- if and $fetches (not $egress.jwks.ports) -}}
    {{- fail "tables has an issuer whose keys are fetched and networkPolicy.egress.jwks.ports is empty: the servers could not fetch its keys" -}}
  {{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
  {{- $name := get . "name" | toString | trimPrefix "IDEMPOTENCY_LEDGER_" -}}
  {{- if has $name (list "CONFIG" "LISTEN" "OBSERVE_LISTEN" "RIGHTS_FILE" "TOKENS_FILE" "LISTEN_TLS_CERT" "LISTEN_TLS_KEY" "LISTEN_TLS_CLIENT_CA" "DATABASE_URL_FILE" "INSECURE_ANONYMOUS") -}}
    {{- fail (printf "extraEnv: %s is the chart's own: it would take away what the chart has checked" .name) -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.migration.grantTo (eq .Values.migration.secret .Values.database.secret) -}}
  {{- fail "migration.grantTo needs another role's URL: migration.secret and database.secret are the same Secret" -}}
{{- end -}}
{{- end }}
