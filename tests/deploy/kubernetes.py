"""deploy/kubernetes: the schemas of Kubernetes, and what must hold between the manifests and the program."""

import re
import tomllib

import kubernetes_validate

import yamls
from container import Image
from facts import PREFIX, Problems, rights_of

# The oldest that has all that the manifests use, and the newest.
VERSIONS = ("1.30", "1.37")
KUSTOMIZATION = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images"}
# The startup probe asks what the liveness probe asks, only more patiently.
PROBES = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
CONFIGURATION, RIGHTS = "ledger.toml", "rights.toml"


class Manifests:
    """A folder's manifests."""

    def __init__(self, folder):
        self.folder = folder
        self.files = sorted(path for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")
        self.all = [document for path in self.files for document in yamls.read(path)]
        self.kustomization = yamls.read(folder / "kustomization.yaml")[0]

    def of(self, kind):
        return [document for document in self.all if document["kind"] == kind]

    def one(self, kind):
        (found,) = self.of(kind)
        return found


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


def with_tls(text):
    """The Deployment with the comments off what TLS needs."""
    return re.sub(r"^( +)# (- name: (?:IDEMPOTENCY_LEDGER_LISTEN_TLS_\w+|tls)$|  (?:value|mountPath|readOnly|secret|  secretName): ?)",
                  r"\1\2", text, flags=re.MULTILINE)


def configuration(deploy):
    return tomllib.loads((deploy / "kubernetes" / CONFIGURATION).read_text())


def folders(deploy):
    """The servers' manifests, and the migration's."""
    return Manifests(deploy / "kubernetes"), Manifests(deploy / "kubernetes/migrate")


def schema(deploy, _):
    """Kubernetes' own; a field that it does not know is an error."""
    problems = Problems("deploy/kubernetes")
    for manifests in folders(deploy):
        for document in manifests.all:
            for version in VERSIONS:
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                    path = ".".join(map(str, getattr(error, "path", [])))
                    problems.add(f"{document['kind']}, Kubernetes {version}: {path}: {error.message}")
    return problems


def check(deploy, program):
    problems = Problems("deploy/kubernetes")
    servers, migration = folders(deploy)
    for manifests in (servers, migration):
        kustomization(problems, manifests, program)
    deployment, job = servers.one("Deployment"), migration.one("Job")
    for workload in (deployment, job):
        pod(problems, workload, program, deploy)
    problems.equal("Job: the command", container_of(job)["args"], ["migrate"])
    problems.equal("Deployment: the command", container_of(deployment)["args"], ["serve"])
    server(problems, deployment, program, configuration(deploy))
    callers(problems, deploy, deployment, program)
    around(problems, servers, deployment, program)
    return problems


def kustomization(problems, manifests, program):
    own = manifests.kustomization
    name = f"{manifests.folder.name}/kustomization.yaml"
    unknown = set(own) - KUSTOMIZATION
    problems.expect(not unknown, f"{name}: {sorted(unknown)} is nothing that is known here")
    problems.equal(f"{name}: resources", sorted(own["resources"]), [path.name for path in manifests.files])
    for generator in own.get("configMapGenerator", []):
        problems.expect(set(generator) == {"name", "files"} and all((manifests.folder / file).is_file() for file in generator["files"]),
                        f"{name}: configMapGenerator must have a name and files that exist")
    problems.equal(f"{name}: images", own["images"], [{"name": "idempotency-ledger", "newTag": program.version}])
    problems.equal(f"{name}: namespace", own["namespace"], "idempotency-ledger")
    for namespace in manifests.of("Namespace"):
        problems.equal("Namespace: its name", namespace["metadata"]["name"], own["namespace"])


def pod(problems, workload, program, deploy):
    kind, spec, container = workload["kind"], workload["spec"]["template"]["spec"], container_of(workload)
    image = Image(deploy)
    problems.call(program, container["args"], {**image.environment, **environment_of(container)})
    problems.equal(f"{kind}: image", container["image"], "idempotency-ledger")
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
        if folders.get(folder) not in (None, kind_of_config(deploy)):
            problems.expect(f"create secret generic {folders[folder]} --from-file={key}=" in readme,
                            f"{kind}: the Secret {folders[folder]} with the key {key} is not the one that deploy/README.md makes")


def kind_of_config(deploy):
    """The name of the ConfigMap; its files are beside the kustomization."""
    (generator,) = yamls.read(deploy / "kubernetes/kustomization.yaml")[0]["configMapGenerator"]
    return generator["name"]


def callers(problems, deploy, deployment, program):
    """They are known by tokens, and have the rights of a file."""
    environment = environment_of(container_of(deployment))
    folders = {name: (environment.get(f"{PREFIX}{name}_FILE") or "").rpartition("/")[0] for name in ("TOKENS", "RIGHTS")}
    at = mounted(deployment)
    problems.equal("Deployment: where the tokens come from", at.get(folders["TOKENS"]), "idempotency-ledger-tokens")
    problems.equal("Deployment: where the rights come from", at.get(folders["RIGHTS"]), kind_of_config(deploy))
    rights = deploy / "kubernetes" / RIGHTS
    said = program.lint(rights)
    problems.expect(not said, f"{RIGHTS}: {said}")
    problems.equal(f"{RIGHTS}: the principals", set(rights_of(rights)), set(rights_of(deploy / "compose" / RIGHTS)))
    text = with_tls((deploy / "kubernetes/deployment.yaml").read_text())
    (encrypted,) = yamls.parse(text)
    kubernetes_validate.validate(encrypted, VERSIONS[0], strict=True)
    environment = environment_of(container_of(encrypted))
    for name, file in (("CERT", "tls.crt"), ("KEY", "tls.key")):
        folder, _, key = (environment.get(f"{PREFIX}LISTEN_TLS_{name}") or "").rpartition("/")
        problems.equal(f"Deployment, with TLS: LISTEN_TLS_{name}", (mounted(encrypted).get(folder), key), ("idempotency-ledger-tls", file))
    problems.call(program, container_of(encrypted)["args"], environment)


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
    problems.at_least("Deployment: replicas", spec["replicas"], 3, "one may be away for work, and one lost")
    problems.equal("Deployment: maxUnavailable", spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
    volumes = [volume["configMap"]["name"] for volume in spec["template"]["spec"]["volumes"] if "configMap" in volume]
    problems.equal("Deployment: its ConfigMaps", volumes, [generator["name"] for generator in servers.kustomization["configMapGenerator"]])
    problems.equal("Deployment: its account", spec["template"]["spec"]["serviceAccountName"], servers.one("ServiceAccount")["metadata"]["name"])
    policy, budget = servers.one("NetworkPolicy")["spec"], servers.one("PodDisruptionBudget")["spec"]
    selectors = {"Deployment": spec["selector"], "NetworkPolicy": policy["podSelector"], "PodDisruptionBudget": budget["selector"]}
    for constraint in spec["template"]["spec"]["topologySpreadConstraints"]:
        selectors[f"spread over {constraint['topologyKey']}"] = constraint["labelSelector"]
    for service in servers.of("Service"):
        name = f"Service {service['metadata']['name']}"
        selectors[name] = {"matchLabels": service["spec"]["selector"]}
        problems.equal(f"{name}: ports", service["spec"]["ports"], [
            {"name": "grpc", "port": program.port(), "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"}])
        problems.equal(f"{name}: type", service["spec"].get("type", "ClusterIP"), "ClusterIP")
    problems.equal("Services: which have no address", [service["spec"].get("clusterIP") for service in servers.of("Service")], [None, "None"])
    for name, selector in selectors.items():
        problems.equal(f"{name}: its selector", selector, {"matchLabels": labels})
    problems.equal("NetworkPolicy: ports", [rule["ports"] for rule in policy["ingress"]],
                   [[{"protocol": "TCP", "port": name}] for name in ("grpc", "metrics")])
    for rule, needed in zip(policy["ingress"], ({"podSelector", "namespaceSelector"}, {"namespaceSelector"})):
        problems.expect(rule.get("from") and all(needed <= set(peer) for peer in rule["from"]),
                        f"NetworkPolicy: the rule of {rule['ports'][0]['port']} must name {' and '.join(sorted(needed))}: "
                        "without TLS tokens travel in the clear, and the metrics ask nobody who calls")
