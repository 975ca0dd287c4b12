"""The chart of deploy/helm, by Helm itself: what it makes of which values, and what it refuses.

    python tests/deploy/charted.py --binary target/debug/idempotency-ledger --helm PATH
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import yaml  # noqa: E402

import chart  # noqa: E402
import kubernetes  # noqa: E402
import leaves  # noqa: E402
import yamls  # noqa: E402
from facts import PREFIX, ROOT, Problems, Program  # noqa: E402

TEMPLATES = f"{chart.CHART}/templates"
# The base of each runbook_url, until a value of the chart replaces it.
RUNBOOKS = "{{ with $externalLabels.runbooks }}{{ . }}{{ else }}docs/{{ end }}"

# What somebody may set: the values, and what the manifests must say then, path by path.
VARIANTS = {
    "the defaults": ({}, {"Deployment.spec.template.spec.terminationGracePeriodSeconds": 30}),
    "TLS, and callers with certificates": (
        {"tls": {"secret": "idempotency-ledger-tls", "clients": True}, "tokens": {"secret": ""}},
        {"env.LISTEN_TLS_CERT": "/run/secrets/tls/tls.crt", "env.LISTEN_TLS_KEY": "/run/secrets/tls/tls.key",
         "env.LISTEN_TLS_CLIENT_CA": "/run/secrets/tls/ca.crt", "env.TOKENS_FILE": None}),
    "a mesh": ({"tokens": {"secret": ""}, "settings": {"trusted_proxies": "127.0.0.6"}}, {"env.TOKENS_FILE": None, "toml.trusted_proxies": "127.0.0.6"}),
    "an autoscaler": (
        {"autoscaling": {"enabled": True}},
        {"Deployment.spec.replicas": None, "HorizontalPodAutoscaler.spec.minReplicas": 3, "HorizontalPodAutoscaler.spec.maxReplicas": 4}),
    "a longer drain": (
        {"settings": {"drain_wait": "90s", "drain_max": "2m", "startup_wait": "5m"}},
        {"Deployment.spec.template.spec.terminationGracePeriodSeconds": 220, "toml.drain_max": "2m"}),
    "half a second": ({"settings": {"drain_wait": "500ms"}}, {"Deployment.spec.template.spec.terminationGracePeriodSeconds": 26}),
    "two roles": (
        {"migration": {"secret": "idempotency-ledger-owner", "grantTo": "ledger_app"}},
        {"Job.spec.template.spec.containers.0.args": ["migrate", "--grant-to", "ledger_app"],
         "Job.spec.template.spec.volumes.0.secret.secretName": "idempotency-ledger-owner"}),
    "settings and policies": (
        {"settings": {"queue_bytes_max": 1099511627776, "prepared_statements": False, "slow_call": "250ms", "sessions": 4},
         "tables": '[policy]\nlease = "45s"\n\n[consumers."payments"]\nmax_attempts = 5\n'},
        {"toml.queue_bytes_max": 1099511627776, "toml.prepared_statements": False, "toml.slow_call": "250ms", "toml.sessions": 4,
         "toml.policy.lease": "45s", "toml.consumers.payments.max_attempts": 5}),
    "web tokens": (
        {"tokens": {"secret": ""}, "tables": '[issuers.shop]\nissuer = "https://shop.example"\naudiences = ["ledger"]\njwks_url = "https://shop.example/keys"\n',
         "networkPolicy": {"egress": {"jwks": {"ports": [443]}}}},
        {"NetworkPolicy.spec.egress.2.ports.0.port": 443, "env.TOKENS_FILE": None, "toml.issuers.shop.audiences": ["ledger"]}),
    "traces": ({"otel": {"OTEL_BSP_MAX_QUEUE_SIZE": 1000000, "OTEL_SERVICE_NAME": "ledger"}},
               {"env.OTEL_BSP_MAX_QUEUE_SIZE": "1000000", "env.OTEL_SERVICE_NAME": "ledger"}),
    "a pooler, and a collector": (
        {"otel": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"},
         "networkPolicy": {"egress": {"database": {"ports": [6432], "cidrs": ["10.0.0.0/8"]}, "otlp": {"ports": [4317]}}}},
        {"NetworkPolicy.spec.egress.1.ports.0.port": 6432, "NetworkPolicy.spec.egress.1.to.0.ipBlock.cidr": "10.0.0.0/8",
         "NetworkPolicy.spec.egress.2.ports.0.port": 4317}),
    "monitoring": (
        {"monitoring": {"serviceMonitor": True, "rules": True, "labels": {"release": "mine"}}},
        {"ServiceMonitor.metadata.labels.release": "mine", "PrometheusRule.metadata.labels.release": "mine",
         "ServiceMonitor.spec.jobLabel": "app.kubernetes.io/instance", "ServiceMonitor.spec.endpoints.0.port": "metrics"}),
    "runbooks elsewhere": (
        {"monitoring": {"rules": True, "runbooks": "https://wiki.example/ledger/"}},
        {"PrometheusRule.spec.groups.1.rules.0.annotations.runbook_url": "https://wiki.example/ledger/runbooks.md#idempotencyledgerclaimsbad"}),
    "a cluster with habits": (
        {"image": {"pullSecrets": ["registry"]}, "nodeSelector": {"disk": "ssd"}, "priorityClassName": "high",
         "tolerations": [{"key": "ledger", "operator": "Exists"}], "podAnnotations": {"team": "payments"},
         "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
             {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}},
         "serviceAccount": {"annotations": {"example.com/role": "ledger"}},
         "extraEnv": [{"name": "TZ", "value": "UTC"}],
         "extraVolumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}],
         "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": True}]},
        {"Deployment.spec.template.spec.imagePullSecrets.0.name": "registry", "Deployment.spec.template.spec.nodeSelector.disk": "ssd",
         "Job.spec.template.spec.tolerations.0.key": "ledger", "Deployment.spec.template.metadata.annotations.team": "payments",
         "Deployment.spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0.matchExpressions.0.key": "zone",
         "Job.spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0.matchExpressions.0.key": "zone",
         "ServiceAccount.metadata.annotations": {"example.com/role": "ledger"}, "env.TZ": "UTC",
         "Job.spec.template.spec.containers.0.env.1.name": "TZ", "Job.spec.template.spec.volumes.1.name": "scratch",
         "Deployment.spec.template.spec.volumes.3.emptyDir": {"sizeLimit": "1Mi"},
         "Deployment.spec.template.spec.containers.0.volumeMounts.3.mountPath": "/scratch",
         "Job.spec.template.spec.containers.0.volumeMounts.1.readOnly": True}),
}

# What the chart refuses: the values, and a word of why.
REFUSED = [
    ({"replicas": 5}, f"database.connections is 97, must be at least {chart.connections(5, 3)}: replicas (5)"),
    ({"autoscaling": {"enabled": True, "max": 5}}, f"must be at least {chart.connections(5, 3)}: autoscaling.max (5)"),
    ({"settings": {"sessions": 8}}, f"must be at least {chart.connections(3, 8)}"),
    ({"database": {"connections": chart.connections(3, 3) - 1}}, f"must be at least {chart.connections(3, 3)}"),
    ({"autoscaling": {"enabled": True, "max": 2}}, "autoscaling.max is 2, must be at least replicas, 3"),
    ({"tokens": {"secret": ""}}, "no caller could be authenticated"),
    ({"tls": {"clients": True}}, "tls.clients needs tls.secret"),
    ({"migration": {"grantTo": "ledger_app"}}, "migration.grantTo needs migration.secret"),
    ({"migration": {"grantTo": "ledger_app", "secret": "idempotency-ledger-database"}}, "the same Secret"),
    ({"settings": {"sesions": 3}}, "'sesions' not allowed"),
    ({"settings": {"listen": "0.0.0.0:1"}}, "'listen' not allowed"),
    ({"settings": {"drain_max": "soon"}}, "'soon' does not match"),
    ({"settings": {"sessions": 33}}, "maximum: got 33, want 32"),
    ({"settings": {"queue_max": "many"}}, "got string, want integer"),
    ({"settings": {"startup_wait": None}}, "missing property 'startup_wait'"),
    ({"networkPolicy": {"egress": {"database": {"ports": []}}}}, "could not reach the database"),
    ({"networkPolicy": {"egress": {"database": {"ports": [0]}}}}, "minimum: got 0, want 1"),
    ({"networkPolicy": {"egress": {"otlp": {"ports": [4317], "cidrs": ["collector"]}}}}, "'collector' does not match"),
    ({"otel": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}}, "egress.otlp.ports is empty"),
    ({"tables": '[issuers.shop]\njwks_url = "https://shop.example/keys"\n'}, "egress.jwks.ports is empty"),
    ({"otel": {"IDEMPOTENCY_LEDGER_LISTEN": "x"}}, "'IDEMPOTENCY_LEDGER_LISTEN' not allowed"),
    ({"extraEnv": [{"name": "IDEMPOTENCY_LEDGER_INSECURE_ANONYMOUS", "value": "true"}]}, "IDEMPOTENCY_LEDGER_INSECURE_ANONYMOUS is the chart's own"),
    ({"extraEnv": [{"name": "IDEMPOTENCY_LEDGER_LISTEN", "value": "0.0.0.0:1"}]}, "IDEMPOTENCY_LEDGER_LISTEN is the chart's own"),
    ({"replica": 3}, "'replica' not allowed"),
    ({"replicas": 0}, "minimum: got 0, want 1"),
    ({"database": {"secret": ""}}, "does not match pattern"),
]


def at(whole, path):
    """What is at a path like `Deployment.spec.replicas`; none: nothing."""
    for step in path:
        if isinstance(whole, list):
            whole = whole[int(step)] if int(step) < len(whole) else None
        else:
            whole = (whole or {}).get(step)
    return whole


def found(manifests, path):
    """The same in all manifests; `env.` and `toml.` are the servers' variables and their file."""
    first, *rest = path.split(".")
    if first == "env":
        environment = kubernetes.environment_of(kubernetes.container_of(manifests.one("Deployment")))
        return environment.get(rest[0], environment.get(f"{PREFIX}{rest[0]}"))
    if first == "toml":
        return at(kubernetes.configuration(manifests), rest)
    return at(manifests.one(first), rest) if manifests.of(first) else None


def lint(deploy, helm, _program, problems):
    code, listed, said = helm.run("lint", "--strict", "--kube-version", kubernetes.VERSIONS[0], deploy / chart.CHART)
    problems.expect(code == 0, f"helm lint: {listed}{said}")


def unchanged(deploy, helm, _program, problems):
    """What deploy/ holds is what is rendered now."""
    with tempfile.TemporaryDirectory() as folder:
        said = helm.render(deploy, pathlib.Path(folder))
        if said:
            problems.add(f"helm template: {said}")
            return
        new = {path.relative_to(folder): path.read_text() for path in pathlib.Path(folder).rglob("*.yaml")}
    old = {path.relative_to(deploy): path.read_text() for path in (deploy / chart.RENDERED).glob("*.yaml") if path.name not in chart.BY_HAND}
    old[pathlib.Path(chart.RULES)] = (deploy / chart.RULES).read_text()
    for name in sorted(new.keys() | old.keys()):
        problems.expect(new.get(name) == old.get(name), f"{name} differs from what the chart makes; render it: tests/prove deploy --render")


def variants(deploy, helm, program, problems):
    digests = set()
    for name, (values, wanted) in VARIANTS.items():
        code, documents, said = helm.template(deploy, values=values)
        if code != 0:
            problems.add(f"{name}: {said}")
            continue
        manifests = kubernetes.Manifests(yamls.parse(documents))
        problems += kubernetes.schema_of(name, manifests)
        problems += kubernetes.judged(name, manifests, program, deploy)
        for path, value in wanted.items():
            problems.equal(f"{name}: {path}", found(manifests, path), value)
        digests.add(found(manifests, "Deployment.spec.template.metadata.annotations.idempotency-ledger/configuration"))
        operated(name, values, manifests, problems)
    code, documents, _ = helm.template(deploy, values={"rights": '[[rights]]\nprincipal = "token:payments"\nconsumers = ["a"]\nmay = ["claim", "settle"]\n'})
    if code == 0:
        digests.add(found(kubernetes.Manifests(yamls.parse(documents)), "Deployment.spec.template.metadata.annotations.idempotency-ledger/configuration"))
    # The defaults; a mesh; two drains; settings; an issuer; rights.
    problems.equal("a change of settings or rights that rolls no servers: the digests", len(digests), 7)


def operated(name, values, manifests, problems):
    """What the Prometheus Operator finds: the rules of deploy/alerts, and a Service with the metrics."""
    for rule in manifests.of("PrometheusRule"):
        base = values["monitoring"].get("runbooks") or RUNBOOKS
        rules = yaml.safe_load((ROOT / "deploy/alerts/rules.yaml").read_text().replace(RUNBOOKS, base))
        problems.expect(rule["spec"] == rules, f"{name}: PrometheusRule: its rules are not those of alerts/rules.yaml")
    for monitor in manifests.of("ServiceMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"]
        chosen = [service["metadata"]["name"] for service in manifests.of("Service") if labels.items() <= service["metadata"]["labels"].items()]
        problems.equal(f"{name}: ServiceMonitor: its Services", chosen, [f"{chart.NAME}-metrics"])


def refusals(deploy, helm, _program, problems):
    for values, word in REFUSED:
        code, _, said = helm.template(deploy, values=values)
        problems.expect(code != 0 and word in said, f"{values} is not refused with {word!r}, but {said or 'taken'}")


def notes(deploy, helm, _program, problems):
    """What a person reads after the installation."""
    for values, words in (({}, ["dns:///idempotency-ledger-headless.idempotency-ledger:50051", "TLS is off", "Alerts are off"]),
                          ({"tls": {"secret": "x"}, "monitoring": {"rules": True}}, ["https://localhost:50051"])):
        # Helm shows it where there is a cluster alone: so it stands in a manifest of a copy.
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "deploy"
            shutil.copytree(deploy, copy, ignore=shutil.ignore_patterns("secrets"))
            shutil.copyfile(copy / TEMPLATES / "NOTES.txt", copy / chart.CHART / "files/NOTES.txt")
            (copy / TEMPLATES / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}\n')
            code, shown, said = helm.template(copy, "--show-only", "templates/notes.yaml", values=values)
        problems.expect(code == 0, f"NOTES.txt: {said}")
        text = yaml.safe_load(shown)["notes"] if code == 0 else ""
        for word in words:
            problems.expect(word in text, f"NOTES.txt does not say {word!r}: {text}")
        problems.equal("NOTES.txt: says that TLS is off", "TLS is off" in text, "tls" not in values)


def packaged(deploy, helm, _program, problems):
    """The package, in which the link to the rules is the rules, makes the same."""
    with tempfile.TemporaryDirectory() as folder:
        code, _, said = helm.run("package", deploy / chart.CHART, "--destination", folder)
        problems.expect(code == 0, f"helm package: {said}")
        monitoring = {"monitoring": {"rules": True}}
        copy = pathlib.Path(folder) / "deploy" / chart.CHART
        copy.parent.mkdir(parents=True)
        for package in pathlib.Path(folder).glob("*.tgz"):
            shutil.unpack_archive(package, copy.parent, filter="data")
        problems.equal("helm package: what is rendered from it", helm.template(copy.parents[1], values=monitoring), helm.template(deploy, values=monitoring))


# Who must see it; a file of the chart; what stands there; what somebody made of it; a word of what must be said then.
BREAKS = [
    (variants, f"{TEMPLATES}/deployment.yaml", "maxSurge: 1", "maxSurges: 1", "maxSurges"),
    (variants, f"{TEMPLATES}/deployment.yaml", "include \"ledger.grace\" .", "30", "terminationGracePeriodSeconds"),
    (variants, f"{TEMPLATES}/deployment.yaml", "tls/ca.crt", "tls/ca.pem", "LISTEN_TLS_CLIENT_CA"),
    (variants, f"{TEMPLATES}/deployment.yaml", "failureThreshold: {{", "failureThreshold: 45 # {{", "startup probe"),
    (variants, f"{TEMPLATES}/deployment.yaml", "{{- if not .Values.autoscaling.enabled }}", "{{- if true }}", "Deployment.spec.replicas"),
    (variants, f"{TEMPLATES}/deployment.yaml", 'include "ledger.toml" .', '"" ', "rolls no servers"),
    (variants, f"{TEMPLATES}/deployment.yaml", ".Values.rights", '""', "rolls no servers"),
    (lint, f"{TEMPLATES}/deployment.yaml", "{{- end }}\n            - name: IDEMPOTENCY_LEDGER_LISTEN\n", "            - name: IDEMPOTENCY_LEDGER_LISTEN\n", "helm lint"),
    (variants, f"{TEMPLATES}/migrate.yaml", "pre-install,pre-upgrade", "post-install,post-upgrade", "hooks"),
    (variants, f"{TEMPLATES}/migrate.yaml", " .Values.migration.secret | default", "", "idempotency-ledger-owner"),
    (variants, f"{TEMPLATES}/_helpers.tpl", "{{ int64 $value }}", "{{ $value }}", "floating point"),
    (variants, f"{TEMPLATES}/_helpers.tpl", '"m" 60', '"m" 1', "terminationGracePeriodSeconds"),
    (variants, f"{TEMPLATES}/_helpers.tpl", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "securityContext"),
    (refusals, f"{TEMPLATES}/_refusals.tpl", "(add $servers 1)", "$servers", "is not refused"),
    (refusals, f"{TEMPLATES}/_refusals.tpl", f"mul 2 (add $sessions {chart.SINGLE_SESSIONS})", "mul 2 $sessions", "is not refused"),
    (refusals, f"{TEMPLATES}/configmap.yaml", '{{- include "ledger.refusals" . -}}\n', "", "is not refused"),
    (variants, f"{TEMPLATES}/service.yaml", "{{- if not $.Values.tls.secret }}", "{{- if true }}", "ports"),
    (variants, f"{TEMPLATES}/servicemonitor.yaml", "jobLabel: app.kubernetes.io/instance", "jobLabel: app.kubernetes.io/name", "jobLabel"),
    (variants, f"{TEMPLATES}/servicemonitor.yaml", '"ledger.selector" (dict "root" . "component" "metrics")', '"ledger.selector" (dict "root" . "component" "server")', "ServiceMonitor"),
    (variants, f"{TEMPLATES}/prometheusrule.yaml", "files/rules.yaml", "files/rule.yaml", "PrometheusRule"),
    (notes, f"{TEMPLATES}/NOTES.txt", "dns:///", "", "NOTES.txt"),
    (refusals, f"{chart.CHART}/values.schema.json", '"sessions": {"type": "integer", "minimum": 1, "maximum": 32}', '"sessions": {}', "is not refused"),
    (variants, f"{chart.CHART}/values.yaml", "connections: 97", "connections: 50", f"must be at least {chart.connections(3, 3)}"),
    (unchanged, f"{chart.CHART}/values.yaml", "replicas: 3", "replicas: 4", "deployment.yaml differs"),
    # A value that acts nowhere.
    (leaves.check, f"{TEMPLATES}/migrate.yaml", "{{ .Values.migration.deadline }}", "600", "migration.deadline: set to another"),
    (leaves.check, f"{TEMPLATES}/horizontalpodautoscaler.yaml", "{{ .Values.autoscaling.cpu }}", "70", "autoscaling.cpu: set to another"),
    (leaves.check, f"{TEMPLATES}/networkpolicy.yaml", '"otlp" "jwks" }}', '"otlp" }}', "networkPolicy.egress.jwks.ports: set to another"),
    (leaves.check, f"{TEMPLATES}/_refusals.tpl", "database.connections is", "The connections are", "database.connections: set to another"),
    (leaves.check, f"{chart.CHART}/values.schema.json", '"priorityClassName": {', '"hostNetwork": {"type": "boolean"},\n    "priorityClassName": {',
     "hostNetwork: set to another"),
    (leaves.check, f"{TEMPLATES}/serviceaccount.yaml", ".Values.serviceAccount.annotations", ".Values.podAnnotations", "serviceAccount.annotations: set to another"),
    (variants, f"{TEMPLATES}/migrate.yaml", "with .Values.extraVolumes", "with .Values.noVolumes", "volumes.1.name"),
    (refusals, f"{TEMPLATES}/_refusals.tpl", '"INSECURE_ANONYMOUS"', '"ANONYMOUS"', "is not refused"),
    (unchanged, "kubernetes/service.yaml", "port: 50051", "port: 50052", "service.yaml differs"),
]


def check(deploy, helm, program):
    problems = Problems(f"deploy/{chart.CHART}")
    for part in (lint, unchanged, variants, refusals, notes):
        part(deploy, helm, program, problems)
        if problems:
            break
    return problems


def unseen(helm, program):
    problems = []
    for part, name, old, new, word in BREAKS:
        with tempfile.TemporaryDirectory(prefix="ledger-chart-") as folder:
            deploy = pathlib.Path(folder) / "deploy"
            shutil.copytree(ROOT / "deploy", deploy, symlinks=True, ignore=shutil.ignore_patterns("secrets"))
            text = (deploy / name).read_text()
            if old not in text:
                problems.append(f"deploy/{name} has no {old!r} for the mistake {new!r}")
                continue
            (deploy / name).write_text(text.replace(old, new, 1))
            said = Problems(name)
            part(deploy, helm, program, said)
            if not any(word in problem for problem in said):
                problems.append(f"deploy/{name}: {new!r} instead of {old!r} is not seen as {word!r}, but as {said}")
    return problems


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--helm", required=True)
    options = arguments.parse_args()
    program, helm = Program(options.binary), chart.Helm(options.helm)
    problems = check(ROOT / "deploy", helm, program)
    packaged(ROOT / "deploy", helm, program, problems)
    if not problems:
        values, calls = leaves.check(ROOT / "deploy", helm, program, problems)
        print(f"the chart: {values} values, each of which acts: {calls} calls of Helm")
        print(f"the chart: {len(VARIANTS)} sets of values rendered and judged, {len(REFUSED)} refused; deploy/kubernetes is what it makes")
    if not problems:
        problems = unseen(helm, program)
        print(f"the chart: {len(BREAKS)} mistakes made, {len(BREAKS) - len(problems)} seen")
    for problem in problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
