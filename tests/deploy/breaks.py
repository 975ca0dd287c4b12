"""Mistakes that somebody might make, each in a copy of deploy/: the checks must see every one of them."""

import pathlib
import shutil
import tempfile

import yaml

from chart import CHART
from facts import ROOT

# The check; the file; what stands there; what somebody made of it; a word of what the check must say.
BREAKS = [
    ("container", "Containerfile", "1.94-bookworm@sha256:6", "1.94-bookworm@sha256:", "the digest of its content"),
    ("container", "Containerfile", "nonroot@sha256:9", "nonroot@sha512:9", "the digest of its content"),
    ("container", "Containerfile", "cc-debian12:nonroot", "cc-debian13:nonroot", "not one Debian"),
    ("container", "Containerfile", "rust:1.94-", "rust:1.80-", "rust-version"),
    ("hadolint", "Containerfile", "FROM gcr.io/", "FROM quay.io/", "DL3026"),
    ("container", "Containerfile", "USER 65532:65532", "USER nonroot", "not root"),
    ("container", "Containerfile", "USER 65532:65532", "USER 0:0", "not root"),
    ("container", "Containerfile", "--release --locked", "--release", "cargo's command line"),
    ("container", "Containerfile", 'CMD ["serve"]', "CMD serve", "exec form"),
    ("container", "Containerfile", 'CMD ["serve"]', 'CMD ["server"]', "no command"),
    ("container", "Containerfile", '"--service", "accepting"', '"--name", "accepting"', "no flag"),
    ("container", "Containerfile", "EXPOSE 50051", "EXPOSE 50052", "EXPOSE"),
    ("container", "Containerfile", "50051 9464", "50051", "EXPOSE"),
    ("container", "Containerfile", "OBSERVE_LISTEN=0.0.0.0:9464", "OBSERVE_LISTEN=0.0.0.0:9465", "OBSERVE_LISTEN"),
    ("container", "Containerfile", "STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "STOPSIGNAL"),
    ("container", "../.dockerignore", "!proto\n", "", "leaves out what cargo reads"),
    ("container", "../.dockerignore", "!.cargo\n", "", "leaves out what cargo reads"),
    ("container", "../.dockerignore", "!proto\n", "!proto\n!tests\n", "does not read"),
    ("compose-schema", "compose.yaml", "cap_drop: [ALL]\n    security_opt: [\"no-new-privileges:true\"]\n    ulimits",
     "cap_dorp: [ALL]\n    security_opt: [\"no-new-privileges:true\"]\n    ulimits", "cap_dorp"),
    ("compose", "compose.yaml", "IDEMPOTENCY_LEDGER_LOG_FORMAT", "IDEMPOTENCY_LEDGER_LOGFORMAT", "reads no variable"),
    ("compose", "compose.yaml", "127.0.0.1:50051:50050", "0.0.0.0:50051:50050", "loopback"),
    ("compose", "compose.yaml", "127.0.0.1:50051:50050", "127.0.0.1:50051:50051", "published port"),
    ("compose", "compose.yaml", "127.0.0.1:9090:9090", "0.0.0.0:9090:9090", "loopback"),
    ("compose", "compose.yaml", "    networks: [database, clients]\n", "    networks: [database, clients]\n    ports: [\"127.0.0.1:50052:50051\"]\n", "through Envoy"),
    ("compose", "compose.yaml", "distroless-v1.39.1", "distroless-v1.39.0", "is tested"),
    ("compose", "compose.yaml", "prom/prometheus:v3.5.0", "prom/prometheus:latest", "not pinned by a version"),
    ("compose", "compose.yaml", "prom/prometheus:v3.5.0@sha256:", "prom/prometheus:v3.5.0@", "the digest of its content"),
    ("compose", "compose.yaml", "postgres:17.11-bookworm@sha256:", "postgres:17.11-bookworm@", "the digest of its content"),
    ("compose", "compose.yaml", "server:\n        condition: service_healthy", "server:\n        condition: service_started", "envoy.depends_on"),
    ("compose", "compose.yaml", "    security_opt: [\"no-new-privileges:true\"]\n    mem_limit: 512m", "    mem_limit: 512m", "envoy: security_opt"),
    ("compose", "compose.yaml", "--config-path, /etc/envoy/envoy.yaml", "--config-path, /etc/envoy/ledger.yaml", "which is not mounted"),
    ("compose", "compose.yaml", "--config.file=/etc/prometheus/prometheus.yaml", "--config.file=/etc/prometheus/prometheus.yml", "which is not mounted"),
    ("compose-schema", "compose.yaml", "mem_limit: 512m", "mem_limits: 512m", "mem_limits"),
    ("prometheus", "compose/prometheus.yaml", "server:9464", "server:9090", "targets"),
    ("prometheus", "compose/prometheus.yaml", "scrape_interval", "scrape_intervall", "scrape_intervall"),
    ("prometheus", "compose/prometheus.yaml", "/etc/prometheus/rules.yaml", "/etc/prometheus/rule.yaml", "rule_files"),
    ("prometheus", "alerts/rules.yaml", "expr: |", "exprs: |", "exprs"),
    ("envoy-of-compose", "compose/envoy.yaml", "num_retries: 2", "num_retries: 3", "what deploy/envoy/envoy.yaml makes"),
    ("envoy-of-compose", "envoy/envoy.yaml", "num_retries: 2", "num_retries: 3", "what deploy/envoy/envoy.yaml makes"),
    ("envoy-validate", "compose/envoy.yaml", "cluster: ledger", "cluster: ledgers", "compose/envoy.yaml"),
    ("compose", "compose.yaml", "service_completed_successfully", "service_started", "server.depends_on"),
    ("compose", "compose.yaml", "stop_grace_period: 30s", "stop_grace_period: 20s", "stop_grace_period"),
    ("compose", "compose.yaml", "nofile: 65536", "nofile: 10000", "nofile"),
    ("compose", "compose.yaml", "mem_limit: 1536m", "mem_limit: 1024m", "mem_limit"),
    ("compose", "compose.yaml", "idempotency-ledger:0.1.0", "idempotency-ledger:0.0.9", "image"),
    ("compose", "compose.yaml", "synchronous_commit=on", "synchronous_commit=off", "synchronous_commit"),
    ("compose", "compose.yaml", "internal: true", "internal: false", "not internal"),
    ("compose", "compose.yaml", "IDEMPOTENCY_LEDGER_TOKENS_FILE: /run/secrets/tokens.toml\n", "LANG: C\n", "nobody is authenticated"),
    ("compose", "compose.yaml", "/run/secrets/tokens.toml", "/run/secrets/tokens", "no secret of it"),
    ("compose", "compose.yaml", "RIGHTS_FILE: /etc/idempotency-ledger/rights.toml", "RIGHTS_FILE: /etc/rights.toml", "not mounted"),
    ("compose", "compose.yaml", "secrets: [postgres_password, tokens.toml]", "secrets: [tokens.toml]", "no secret of it"),
    ("compose", "compose.yaml", "file: secrets/tokens.toml", "file: compose/tokens.toml", "which git ignores"),
    ("compose", "compose.yaml", "file: compose/rights.toml", "file: compose/right.toml", "is no file"),
    ("compose", "compose/rights.toml", "may = [\"claim\", \"settle\"]", "may = [\"settle\"]", "rights.toml"),
    ("compose", "compose.yaml", "command: [migrate]", "command: [migrat]", "no command"),
    ("kubernetes-schema", "kubernetes/deployment.yaml", "maxSurge: 1", "maxSurges: 1", "maxSurges"),
    ("kubernetes", "kubernetes/deployment.yaml", "maxUnavailable: 0", "maxUnavailable: 1", "maxUnavailable"),
    ("kubernetes", "kubernetes/deployment.yaml", "path: /readyz", "path: /ready", "readinessProbe"),
    ("kubernetes", "kubernetes/deployment.yaml", "port: metrics", "port: grpc", "startupProbe"),
    ("kubernetes", "kubernetes/deployment.yaml", "/run/secrets/tokens/tokens.toml", "/run/secrets/tokens.toml", "not mounted"),
    ("kubernetes", "kubernetes/deployment.yaml", "/run/secrets/tokens/tokens.toml", "/run/secrets/tokens/tokens", "README.md makes"),
    ("kubernetes", "kubernetes/deployment.yaml", "/etc/idempotency-ledger/rights.toml", "/run/secrets/tokens/rights.toml", "rights come from"),
    ("kubernetes", "kubernetes/deployment.yaml", "mountPath: /run/secrets/tokens\n", "mountPath: /run/secrets/tokens\n              subPath: tokens.toml\n", "subPath"),
    ("kubernetes", "kubernetes/deployment.yaml", "mountPath: /run/secrets/database\n              readOnly: true\n", "mountPath: /run/secrets/database\n", "read-only"),
    ("kubernetes", "kubernetes/deployment.yaml", "secretName: idempotency-ledger-tokens", "secretName: ledger-tokens", "TOKENS_FILE comes from"),
    ("kubernetes", "kubernetes/deployment.yaml", "containerPort: 50051", "containerPort: 50052", "ports"),
    ("kubernetes", "kubernetes/deployment.yaml", "0.0.0.0:50051", "127.0.0.1:50051", "address"),
    ("kubernetes", "kubernetes/deployment.yaml", "0.0.0.0:9464", "127.0.0.1:9464", "metrics' address"),
    ("kubernetes", "kubernetes/deployment.yaml", "containerPort: 9464", "containerPort: 9465", "ports"),
    ("kubernetes", "kubernetes/networkpolicy.yaml", "          port: metrics\n", "          port: grpc\n", "NetworkPolicy: ports"),
    ("kubernetes", "kubernetes/networkpolicy.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "its types"),
    ("kubernetes", "kubernetes/networkpolicy.yaml", """\
    - ports:
        - protocol: TCP
          port: 5432
""", "    - {}\n", "egress must name its ports"),
    ("kubernetes", "kubernetes/networkpolicy.yaml", """\
        - namespaceSelector:
            matchLabels:
              idempotency-ledger-monitoring: "true"
""", "        - podSelector: {}\n", "must name"),
    ("kubernetes", "kubernetes/deployment.yaml", "IDEMPOTENCY_LEDGER_DATABASE_URL_FILE", "IDEMPOTENCY_LEDGER_DATABASE_FILE", "reads no variable"),
    ("kubernetes", "kubernetes/migrate.yaml", "IDEMPOTENCY_LEDGER_DATABASE_URL_FILE", "IDEMPOTENCY_LEDGER_CONFIG", "URL must come from"),
    ("kubernetes", "kubernetes/deployment.yaml", "GracePeriodSeconds: 30", "GracePeriodSeconds: 20", "terminationGracePeriodSeconds"),
    ("kubernetes", "kubernetes/deployment.yaml", "enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks"),
    ("kubernetes", "kubernetes/deployment.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "securityContext"),
    ("kubernetes", "kubernetes/deployment.yaml", "runAsUser: 65532", "runAsUser: 1000", "securityContext"),
    ("kubernetes", "kubernetes/deployment.yaml", "secretName: idempotency-ledger-database", "secretName: idempotency-ledger-url", "DATABASE_URL_FILE comes from"),
    ("kubernetes-schema", "kubernetes/deployment.yaml", "replicas: 3", "replicas: 3\n  replicas: 1", "given twice"),
    ("kubernetes", "kubernetes/migrate.yaml", "args: [migrate]", "args: [upgrade]", "no command"),
    ("kubernetes-schema", "kubernetes/migrate.yaml", "backoffLimit", "backOffLimit", "backOffLimit"),
    ("kubernetes", "kubernetes/configmap.yaml", "may = [\"claim\", \"settle\"]", "may = [\"claim\", \"complete\"]", "rights.toml"),
    ("kubernetes", "kubernetes/configmap.yaml", "may = [\"claim\", \"settle\"]", "may = [\"claim\"]", "rights.toml"),
    ("kubernetes", "kubernetes/configmap.yaml", "token:operators", "token:people", "principals"),
    ("kubernetes", "kubernetes/configmap.yaml", "drain_max = \"15s\"", "drain_max = \"25s\"", "terminationGracePeriodSeconds"),
    ("kubernetes", "kubernetes/configmap.yaml", "startup_wait = \"60s\"", "startup_wait = \"90s\"", "startup probe"),
    ("kubernetes", "kubernetes/configmap.yaml", "startup_wait = \"60s\"", "startup_weight = \"60s\"", "startup_weight"),
    ("kubernetes", "kubernetes/networkpolicy.yaml", "      app.kubernetes.io/component: server", "      app.kubernetes.io/component: servers", "selector"),
    ("kubernetes", "kubernetes/poddisruptionbudget.yaml", "      app.kubernetes.io/component: server", "      app.kubernetes.io/component: servers", "selector"),
    ("kubernetes", "kubernetes/service.yaml", "clusterIP: None", "type: LoadBalancer", "type"),
    ("kubernetes", "kubernetes/migrate.yaml", "pre-install,pre-upgrade", "post-install", "hooks"),
    ("kubernetes", "kubernetes/service.yaml", "namespace: idempotency-ledger", "namespace: default", "namespace"),
    ("kubernetes", "kubernetes/serviceaccount.yaml", "apiVersion: v1\n", "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata:\n  namespace: idempotency-ledger\n---\napiVersion: v1\n", "every cluster knows"),
    ("chart", f"{CHART}/Chart.yaml", "appVersion: 0.1.0", "appVersion: 0.2.0", "appVersion"),
    ("chart", f"{CHART}/values.yaml", "priorityClassName", "priorityClass", "the values"),
    ("chart", f"{CHART}/values.schema.json", '"queue_max"', '"queue_maximum"', "the settings"),
    ("chart", f"{CHART}/values.schema.json", '"maximum": 32}', '"maximum": 64}', "sessions"),
    ("chart", f"{CHART}/templates/_refusals.tpl", "(add $sessions 7)", "(add $sessions 6)", "connections of a server"),
    ("chart", "README.md", "The defaults need 80", "The defaults need 64", "The defaults need 80"),
    ("rendered", f"{CHART}/templates/deployment.yaml", "maxSurge: 1", "maxSurge: 2", "deployment.yaml: changed since"),
    ("rendered", "kubernetes/deployment.yaml", "replicas: 3", "replicas: 4", "deployment.yaml: changed since"),
    ("rendered", "alerts/rules.yaml", "severity: page", "severity: ticket", "rules.yaml: changed since"),
    ("rendered", "alerts/prometheusrule.yaml", "severity: page", "severity: ticket", "prometheusrule.yaml: changed since"),
    ("systemd-analyze", "systemd/idempotency-ledger.service", "ProtectHome=yes", "ProtectHomes=yes", "ProtectHomes"),
    ("systemd-analyze", "systemd/idempotency-ledger.service", "NoNewPrivileges=yes\nCapabilityBoundingSet=\n", "", "systemd-analyze security"),
    ("systemd", "systemd/idempotency-ledger.service", "ProtectSystem=strict", "ProtectSystem=full", "ProtectSystem"),
    ("systemd", "systemd/idempotency-ledger.service", "Type=notify", "Type=exec", "Type"),
    ("systemd", "systemd/idempotency-ledger.service", "WatchdogSec=30s", "WatchdogSec=1s", "WatchdogSec"),
    ("systemd", "systemd/idempotency-ledger.service", "TimeoutStartSec=10min", "TimeoutStartSec=10s", "TimeoutStartSec"),
    ("systemd", "systemd/idempotency-ledger.service", "NotifyAccess=main", "NotifyAccess=none", "NotifyAccess"),
    ("systemd", "systemd/idempotency-ledger.service", "TimeoutStopSec=30s", "TimeoutStopSec=15s", "TimeoutStopSec"),
    ("systemd", "systemd/idempotency-ledger.service", "LimitNOFILE=65536", "LimitNOFILE=8192", "LimitNOFILE"),
    ("systemd", "systemd/idempotency-ledger.service", "idempotency-ledger serve", "idempotency-ledger run", "no command"),
    ("systemd-analyze", "systemd/idempotency-ledger-backup.service", "ProtectHome=yes", "ProtectHomes=yes", "ProtectHomes"),
    ("systemd-analyze", "systemd/idempotency-ledger-backup.timer", "OnCalendar=hourly", "OnCalendar=hoursly", "hoursly"),
    ("systemd", "systemd/idempotency-ledger-backup.service", "User=idempotency-ledger\n", "User=backup\n", "User"),
    ("systemd", "systemd/idempotency-ledger-backup.service", "backup --replace", "backup --overwrite", "no flag --overwrite"),
    ("systemd", "systemd/idempotency-ledger-backup.service", "idempotency-ledger/backup", "idempotency-ledger/copies", "lie outside"),
    ("systemd-analyze", "systemd/credentials.conf", "LoadCredential=database", "LoadCredentials=database", "LoadCredentials"),
    ("systemd", "systemd/credentials.conf", "LoadCredential=database_password", "LoadCredential=password", "files of the variables"),
    ("systemd", "systemd/credentials.conf", "idempotency-ledger.service/tls_key", "idempotency-ledger.service/key", "files of the variables"),
    ("systemd", "systemd/credentials.conf", "DATABASE_PASSWORD_FILE", "DATABASE_PASSWORD", "reads no variable"),
    ("systemd", "systemd/environment.example", "postgres://ledger@", "postgres://ledger:secret@", "password belongs"),
    ("systemd", "systemd/environment.example", "IDEMPOTENCY_LEDGER_CONFIG", "IDEMPOTENCY_LEDGER_CONF", "reads no variable"),
    ("envoy-validate", "envoy/envoy.yaml", "host_selection_retry_max_attempts", "host_selection_max_attempts", "host_selection_max_attempts"),
    ("envoy-validate", "envoy/envoy.yaml", "lb_policy: ROUND_ROBIN", "lb_policy: ROUND_ROBBIN", "ROUND_ROBBIN"),
    ("envoy-validate", "envoy/envoy.yaml", "cluster: ledger", "cluster: ledgers", "ledgers"),
    ("envoy-validate", "envoy/envoy.yaml", "connect_timeout: 0.5s", "connect_timeout: 500", "connect_timeout"),
    ("envoy", "envoy/envoy.yaml", "SANITIZE_SET", "APPEND_FORWARD", "forward_client_cert_details"),
    ("envoy", "envoy/envoy.yaml", "SANITIZE_SET", "ALWAYS_FORWARD_ONLY", "forward_client_cert_details"),
    ("envoy", "envoy/envoy.yaml", "{ uri: true }", "{ uri: true, cert: true }", "set_current_client_cert_details"),
    ("envoy", "envoy/envoy.yaml", "use_remote_address: true", "use_remote_address: false", "use_remote_address"),
    ("envoy", "envoy/envoy.yaml", "address: 127.0.0.1, port_value: 50050", "address: 0.0.0.0, port_value: 50050", "without TLS"),
    ("envoy", "envoy/envoy.yaml", "address: 127.0.0.1, port_value: 9901", "address: 0.0.0.0, port_value: 9901", "address of admin"),
    ("envoy", "envoy/envoy.yaml", "request_body_buffer_limit: 4194304", "request_body_buffer_limit: 1048576", "a batch must fit"),
    ("envoy", "envoy/envoy.yaml", "per_connection_buffer_limit_bytes: 4194304", "per_connection_buffer_limit_bytes: 1048576", "a batch must fit"),
    ("envoy", "envoy/envoy.yaml", "LedgerService/Batch", "LedgerService/batch", "methods of LedgerService"),
    ("envoy", "envoy/envoy.yaml", ".AdminService/", ".AdministratorService/", "no service"),
    ("envoy", "envoy/envoy.yaml", "refused-stream,reset,", "refused-stream,reset,unavailable,", "retry_on"),
    ("envoy", "envoy/envoy.yaml", "OUTCOME_UNKNOWN|STORE", "OUTCOME_UNKNOWN|OVERLOADED|STORE", "reasons"),
    ("envoy", "envoy/envoy.yaml", "previous_hosts\n", "omit_canary_hosts\n", "retry_host_predicate"),
    ("envoy", "envoy/envoy.yaml", "max_attempts: 20", "max_attempts: 3", "several times in a row"),
    ("envoy", "envoy/envoy.yaml", "max_stream_duration: 15s", "max_stream_duration: 10s", "each try must fit"),
    ("envoy", "envoy/envoy.yaml", "timeout: 0s\n                            max", "timeout: 5s\n                            max", "timeout is '5s'"),
    ("envoy", "envoy/envoy.yaml", "max_stream_duration: { grpc_timeout", "max_stream_duration: { max_stream_duration: 60s, grpc_timeout", "max_stream_duration is '60s'"),
    ("envoy", "envoy/envoy.yaml", "per_try_timeout: 4s", "per_try_timeout: 1s", "per_try_timeout of batches"),
    ("envoy", "envoy/envoy.yaml", "max_stream_duration: { grpc_timeout", "retry_policy: { retry_on: reset }\n                            max_stream_duration: { grpc_timeout", "retry_policy"),
    ("envoy", "envoy/envoy.yaml", "lb_policy: ROUND_ROBIN", "lb_policy: LEAST_REQUEST", "lb_policy"),
    ("envoy", "envoy/envoy.yaml", "panic_threshold: { value: 1 }", "panic_threshold: { value: 50 }", "healthy_panic_threshold"),
    ("envoy", "envoy/envoy.yaml", "grpc_health_check: {}", "grpc_health_check: { service_name: accepting }", "name that is asked for"),
    ("envoy", "envoy/envoy.yaml", "no_traffic_interval: 1s", "no_traffic_interval: 60s", "within drain_wait"),
    ("envoy", "envoy/envoy.yaml", "          no_traffic_interval: 1s\n", "", "60 s then"),
    ("envoy", "envoy/envoy.yaml", "          interval: 1s", "          interval: 5s", "within drain_wait"),
    ("envoy", "envoy/envoy.yaml", "budget_percent: { value: 50 }", "budget_percent: { value: 20 }", "budget_percent"),
    ("envoy", "envoy/envoy.yaml", "max_requests: 100000", "max_requests: 1024", "circuit_breakers"),
    ("envoy", "envoy/envoy.yaml", "ledger-2.example, port_value: 50051", "ledger-2.example, port_value: 50050", "replicas' ports"),
    ("envoy", "envoy/envoy.yaml", "      load_assignment:", "      outlier_detection: {}\n      load_assignment:", "lost store"),
    ("service-config", "clients/service-config.json", '"accepting"', '""', "healthCheckConfig"),
    ("service-config", "clients/service-config.json", '"method": "BatchClaim"', '"method": "ClaimBatch"', "no method"),
    ("service-config", "clients/service-config.json", '"maxAttempts": 4', '"maxAttempts": 6', "maxAttempts"),
    ("service-config", "clients/service-config.json", '["UNAVAILABLE"]', '["UNAVAILABLE", "RESOURCE_EXHAUSTED"]', "retryableStatusCodes"),
    ("service-config", "clients/service-config.json", '"timeout": "5s"', '"timeout": "2s"', "come first"),
    ("service-config", "clients/service-config.json", "ledger.v1.LedgerService\" }],", "ledger.v1.AdminService\" }],", "of all methods"),
    ("service-config", "clients/service-config.json", '"tokenRatio": 1', '"tokenRatio": 0.1', "retryThrottling"),
]


def unseen(checks, program):
    """The mistakes that their check does not see, or sees as something else."""
    problems = []
    for check, name, old, new, word in BREAKS:
        with tempfile.TemporaryDirectory(prefix="ledger-deploy-") as folder:
            deploy = pathlib.Path(folder) / "deploy"
            shutil.copytree(ROOT / "deploy", deploy, symlinks=True, ignore=shutil.ignore_patterns("secrets"))
            shutil.copyfile(ROOT / ".dockerignore", deploy.parent / ".dockerignore")
            file = deploy / name
            text = file.read_text()
            if old not in text:
                problems.append(f"deploy/{name} has no {old!r} for the mistake {new!r}")
                continue
            file.write_text(text.replace(old, new, 1))
            try:
                said = checks[check](deploy, program)
            except yaml.YAMLError as error:
                said = [str(error)]
            if not any(word in problem for problem in said):
                problems.append(f"deploy/{name}: {new!r} instead of {old!r} is not seen as {word!r}, but as {said}")
    return problems
