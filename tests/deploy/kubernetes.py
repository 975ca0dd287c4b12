"""deploy/kubernetes: the schemas of Kubernetes, and what must hold between the manifests and the program."""

import pathlib
import subprocess
import tempfile
import tomllib

import kubernetes_validate

import yamls
from container import Image
from facts import PREFIX, Problems, rights_of

# The oldest that has all that the manifests use, and the newest.
VERSIONS = ("1.30", "1.37")
NAME = "idempotency-ledger"
# The startup probe asks what the liveness probe asks, only more patiently.
PROBES = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
CONFIGURATION, RIGHTS = "ledger.toml", "rights.toml"
# The kinds of the Prometheus Operator, which Kubernetes' own schemas do not have.
OPERATORS = {"PrometheusRule", "ServiceMonitor"}
HOOKS = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}


# The Secrets that deploy/README.md makes.
MADE = {"idempotency-ledger-database", "idempotency-ledger-tokens"}
KNOWN_BY = [("TOKENS_FILE", "idempotency-ledger-tokens", "tokens.toml"), ("DATABASE_URL_FILE", "idempotency-ledger-database", "url"),
            ("LISTEN_TLS_CERT", "idempotency-ledger-tls", "tls.crt"), ("LISTEN_TLS_KEY", "idempotency-ledger-tls", "tls.key"),
            ("LISTEN_TLS_CLIENT_CA", "idempotency-ledger-tls", "ca.crt")]


class Manifests:
    """All that is applied together."""

    def __init__(self, documents):
        self.all = documents

    @classmethod
    def of_folder(cls, folder):
        return cls([document for path in sorted(folder.glob("*.yaml")) if path.name != "kustomization.yaml"
                    for document in yamls.read(path)])

    def of(self, kind):
        return [document for document in self.all if document["kind"] == kind]

    def one(self, kind):
        (found,) = self.of(kind)
        return found

    def files(self):
        """The files of the ConfigMap, by their names."""
        return self.one("ConfigMap")["data"]


def container_of(workload):
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return container


def environment_of(container):
    """The variables; what comes from a Secret has no value here."""
    return {variable["name"]: variable.get("value") for variable in container.get("env", [])}


def mounted(workload):
    """The paths of a pod's mounts: the ConfigMap or Secret of each, by its name."""
    spec, container = workload["spec"]["template"]["spec"], container_of(workload)
    names = {volume["name"]: volume.get("configMap", {}).get("name") or volume.get("secret", {}).get("secretName")
             for volume in spec.get("volumes", [])}
    return {mount["mountPath"]: names.get(mount["name"]) for mount in container.get("volumeMounts", [])}


def configuration(manifests):
    """The servers' file."""
    return tomllib.loads(manifests.files()[CONFIGURATION])


def of_recipe(deploy):
    return Manifests.of_folder(deploy / "kubernetes")


def schema(deploy, _):
    """Kubernetes' own; a field that it does not know is an error."""
    return schema_of("deploy/kubernetes", of_recipe(deploy))


def schema_of(where, manifests):
    problems = Problems(where)
    for document in manifests.all:
        if document["kind"] in OPERATORS:
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                path = ".".join(map(str, getattr(error, "path", [])))
                problems.add(f"{document['kind']}, Kubernetes {version}: {path}: {error.message}")
    return problems


def check(deploy, program):
    """What is applied without Helm: that of the default values."""
    manifests = of_recipe(deploy)
    problems = judged("deploy/kubernetes", manifests, program, deploy)
    problems.at_least("Deployment: replicas", manifests.one("Deployment")["spec"]["replicas"], 3, "one may be away for work, and one lost")
    problems.equal("Namespace: its name", manifests.one("Namespace")["metadata"]["name"], NAME)
    principals = {line["principal"] for line in tomllib.loads(manifests.files()[RIGHTS])["rights"]}
    problems.equal(f"{RIGHTS}: the principals", principals, set(rights_of(deploy / "compose" / RIGHTS)))
    problems.expect(not any(manifests.of(kind) for kind in OPERATORS), f"{sorted(OPERATORS)} are nothing that every cluster knows")
    return problems


def judged(where, manifests, program, deploy):
    """What holds for all values."""
    problems = Problems(where)
    deployment, job = manifests.one("Deployment"), manifests.one("Job")
    for document in manifests.all:
        if document["kind"] != "Namespace":
            problems.equal(f"{document['kind']}: namespace", document["metadata"].get("namespace"), NAME)
    for workload in (deployment, job):
        pod(problems, workload, program, deploy)
    problems.equal("Job: the command", container_of(job)["args"][:1], ["migrate"])
    problems.equal("Job: Helm's hooks", job["metadata"]["annotations"], HOOKS)
    problems.equal("Deployment: the command", container_of(deployment)["args"], ["serve"])
    server(problems, deployment, program, configuration(manifests))
    configured(problems, manifests, program)
    callers(problems, deployment)
    around(problems, manifests, deployment, program)
    return problems


def configured(problems, manifests, program):
    """The program itself reads the files of the ConfigMap."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in manifests.files().items():
            (pathlib.Path(folder) / name).write_text(text)
        said = program.lint(pathlib.Path(folder) / RIGHTS)
        problems.expect(not said, f"{RIGHTS}: {said}")
        # Rights are wanted where the file itself says how callers are known.
        rights = ["--rights-file", pathlib.Path(folder) / RIGHTS] if {"trusted_proxies", "issuers"} & configuration(manifests).keys() else []
        asked = subprocess.run([program.binary, "serve", "--check-config", "--config", pathlib.Path(folder) / CONFIGURATION,
                                *rights], capture_output=True, text=True, env={})
        problems.expect(asked.returncode == 0, f"{CONFIGURATION}: {asked.stdout}{asked.stderr}")


def pod(problems, workload, program, deploy):
    kind, spec, container = workload["kind"], workload["spec"]["template"]["spec"], container_of(workload)
    image = Image(deploy)
    problems.call(program, container["args"], {**image.environment, **environment_of(container)})
    problems.equal(f"{kind}: image", container["image"], f"idempotency-ledger:{program.version}")
    problems.expect("command" not in container, f"{kind}: command would replace the image's program")
    user, group = map(int, image.user.split(":"))
    problems.equal(f"{kind}: securityContext of the pod", spec.get("securityContext"), {
        "runAsNonRoot": True, "runAsUser": user, "runAsGroup": group, "seccompProfile": {"type": "RuntimeDefault"}})
    problems.equal(f"{kind}: securityContext of the container", container.get("securityContext"), {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
    problems.equal(f"{kind}: automountServiceAccountToken", spec.get("automountServiceAccountToken"), False)
    problems.expect(spec.get("enableServiceLinks") is False,
                    f"{kind}: enableServiceLinks must be false: Kubernetes' variables would begin with {PREFIX}")
    problems.expect("memory" in container["resources"]["limits"], f"{kind}: resources.limits must name the memory")
    problems.expect(f"{PREFIX}DATABASE_URL_FILE" in environment_of(container), f"{kind}: the database's URL must come from a Secret, as a file")
    problems.expect(all(mount.get("readOnly") and "subPath" not in mount for mount in container["volumeMounts"]),
                    f"{kind}: each mount must be read-only, and a whole folder: one with subPath follows no change")
    folders, readme = mounted(workload), (deploy / "README.md").read_text()
    for name, value in environment_of(container).items():
        if not str(value).startswith("/"):
            continue
        folder, _, key = value.rpartition("/")
        problems.expect(folders.get(folder), f"{kind}: {name} names {value}, which is not mounted")
        if folders.get(folder) in MADE:
            problems.expect(f"create secret generic {folders[folder]} --from-file={key}=" in readme,
                            f"{kind}: the Secret {folders[folder]} with the key {key} is not the one that deploy/README.md makes")


def callers(problems, deployment):
    """They are known by tokens where there are some, and have the rights of a file."""
    environment, at = environment_of(container_of(deployment)), mounted(deployment)
    folder, _, file = environment[f"{PREFIX}RIGHTS_FILE"].rpartition("/")
    problems.equal("Deployment: where the rights come from", (at.get(folder), file), (NAME, RIGHTS))
    for variable, secret, name in KNOWN_BY:
        if f"{PREFIX}{variable}" in environment:
            folder, _, file = environment[f"{PREFIX}{variable}"].rpartition("/")
            problems.equal(f"Deployment: where {PREFIX}{variable} comes from", (at.get(folder), file), (secret, name))


def server(problems, deployment, program, file):
    spec, container = deployment["spec"]["template"]["spec"], container_of(deployment)
    environment = environment_of(container)
    settings = program.settings(environment, file)
    port, metrics = program.port(), program.port("observe_listen")
    problems.equal("Deployment: the address", settings["listen"], f"0.0.0.0:{port}")
    problems.equal("Deployment: the metrics' address", settings["observe_listen"], f"0.0.0.0:{metrics}")
    problems.equal("Deployment: ports", container["ports"],
                   [{"name": "grpc", "containerPort": port}, {"name": "metrics", "containerPort": metrics}])
    for probe, path in PROBES.items():
        problems.equal(f"Deployment: {probe}", container.get(probe, {}).get("httpGet"), {"port": "metrics", "path": path})
    startup = container["startupProbe"]
    problems.at_least("Deployment: the seconds of the startup probe", startup["periodSeconds"] * startup["failureThreshold"],
                      settings["startup_wait"] + 10, "startup_wait and 10 s")
    problems.at_least("Deployment: terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30),
                      program.drain(environment, file) + 5, "drain_wait, drain_max and 5 s to end")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    paths = [f"{mounts[volume['name']]}/{CONFIGURATION}" for volume in spec["volumes"] if "configMap" in volume]
    problems.equal("Deployment: IDEMPOTENCY_LEDGER_CONFIG", [environment.get(f"{PREFIX}CONFIG")], paths)


def around(problems, servers, deployment, program):
    """What belongs to the servers finds them."""
    spec, labels = deployment["spec"], deployment["spec"]["template"]["metadata"]["labels"]
    problems.equal("Deployment: maxUnavailable", spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
    volumes = [volume["configMap"]["name"] for volume in spec["template"]["spec"]["volumes"] if "configMap" in volume]
    problems.equal("Deployment: its ConfigMaps", volumes, [servers.one("ConfigMap")["metadata"]["name"]])
    problems.equal("Deployment: its account", spec["template"]["spec"]["serviceAccountName"], servers.one("ServiceAccount")["metadata"]["name"])
    policy, budget = servers.one("NetworkPolicy")["spec"], servers.one("PodDisruptionBudget")["spec"]
    selectors = {"NetworkPolicy": policy["podSelector"], "PodDisruptionBudget": budget["selector"]}
    for constraint in spec["template"]["spec"]["topologySpreadConstraints"]:
        selectors[f"spread over {constraint['topologyKey']}"] = constraint["labelSelector"]
    encrypted = f"{PREFIX}LISTEN_TLS_CERT" in environment_of(container_of(deployment))
    protocol = {} if encrypted else {"appProtocol": "kubernetes.io/h2c"}
    wanted = {NAME: ("grpc", program.port(), protocol), f"{NAME}-headless": ("grpc", program.port(), protocol)}
    if servers.of("ServiceMonitor"):
        wanted[f"{NAME}-metrics"] = ("metrics", program.port("observe_listen"), {})
    services = {service["metadata"]["name"]: service["spec"] for service in servers.of("Service")}
    problems.equal("Services", set(services), set(wanted))
    for name in services.keys() & wanted.keys():
        port, number, more = wanted[name]
        selectors[f"Service {name}"] = {"matchLabels": services[name]["selector"]}
        problems.equal(f"Service {name}: ports", services[name]["ports"], [{"name": port, "port": number, "targetPort": port, **more}])
        problems.equal(f"Service {name}: type", services[name].get("type", "ClusterIP"), "ClusterIP")
        problems.equal(f"Service {name}: its address", services[name].get("clusterIP"), None if name == NAME else "None")
    for name, selector in selectors.items():
        problems.equal(f"{name}: its selector", selector, {"matchLabels": spec["selector"]["matchLabels"]})
    problems.expect(spec["selector"]["matchLabels"].items() < labels.items(), "Deployment: its selector must fit its pods, and leave out their version")
    problems.equal("NetworkPolicy: ports", [rule["ports"] for rule in policy["ingress"]],
                   [[{"protocol": "TCP", "port": name}] for name in ("grpc", "metrics")])
    problems.equal("NetworkPolicy: its types", policy["policyTypes"], ["Ingress", "Egress"])
    problems.equal("NetworkPolicy: DNS", policy["egress"][:1], [{"ports": [{"protocol": name, "port": 53} for name in ("UDP", "TCP")]}])
    problems.expect(len(policy["egress"]) > 1 and all(rule.get("ports") for rule in policy["egress"]),
                    "NetworkPolicy: each rule of egress must name its ports, and one of them the database's: all else is denied")
    for rule, needed in zip(policy["ingress"], ({"podSelector", "namespaceSelector"}, {"namespaceSelector"})):
        problems.expect(rule.get("from") and all(needed <= set(peer) for peer in rule["from"]),
                        f"NetworkPolicy: the rule of {rule['ports'][0]['port']} must name {' and '.join(sorted(needed))}: "
                        "without TLS tokens travel in the clear, and the metrics ask nobody who calls")
