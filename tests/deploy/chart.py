"""deploy/helm: the chart, its values, and what is rendered from it.

    python tests/deploy/chart.py --helm PATH     renders deploy/kubernetes, deploy/alerts/prometheusrule.yaml and
                                                 deploy/compose/envoy.yaml again
"""

import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import tempfile

import yaml

import envoy
import yamls
from facts import ROOT, Problems
from kubernetes import VERSIONS

CHART = "helm/idempotency-ledger"
NAME = "idempotency-ledger"
RENDERED = "kubernetes"
# Made by hand: a chart makes no namespace, and no list for Kustomize.
BY_HAND = {"namespace.yaml", "kustomization.yaml"}
RULES = "alerts/prometheusrule.yaml"
# As `sha256sum` writes it: what was rendered, and from what.
DIGESTS = "kubernetes/rendered.sha256"
# The chart's own: the addresses and files that its templates name, and what would take away who calls.
CHARTS_OWN = {"listen", "observe_listen", "admin_listen", "listen_tls_cert", "listen_tls_key", "listen_tls_client_ca",
              "listen_tls_client_crl", "tokens_file", "rights_file", "database_url", "database_url_file",
              "database_user_file", "database_password_file", "insecure_anonymous"}

# The purposes of sessions; each but that of claims has one session: docs/running.md.
SINGLE_SESSIONS = int(re.search(r"const ALL: \[Purpose; (\d+)\]", (ROOT / "src/store/mod.rs").read_text())[1]) - 1


def connections(servers, sessions):
    """The connections that this number of servers needs, with one more while servers are replaced."""
    return (servers + 1) * 2 * (sessions + SINGLE_SESSIONS)


def text(deploy, name):
    return (deploy / CHART / name).read_text()


def chart_files(deploy):
    return sorted(path for path in (deploy / CHART).rglob("*") if path.is_file())


def digests(deploy):
    """Name to digest of the chart's files, and of all that is rendered from them."""
    rendered = [path for path in (deploy / RENDERED).glob("*.yaml") if path.name not in BY_HAND]
    files = [*chart_files(deploy), *sorted(rendered), deploy / RULES]
    return {str(path.relative_to(deploy)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rendered(deploy, _program):
    """Without Helm: nothing has changed since it was rendered."""
    problems = Problems(f"deploy/{DIGESTS}")
    lines = (deploy / DIGESTS).read_text().splitlines()
    noted = {name.removeprefix("../"): digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = digests(deploy)
    changed = sorted(name for name in noted.keys() | found.keys() if noted.get(name) != found.get(name))
    problems.expect(not changed, f"{', '.join(changed)}: changed since the manifests were rendered; render them: tests/prove deploy --render")
    return problems


def check(deploy, program):
    """Without Helm: the versions, and the settings that the values may have."""
    problems = Problems(f"deploy/{CHART}")
    about, values = yaml.safe_load(text(deploy, "Chart.yaml")), yaml.safe_load(text(deploy, "values.yaml"))
    schema = json.loads(text(deploy, "values.schema.json"))
    problems.equal("Chart.yaml: version and appVersion", (about["version"], about["appVersion"]), (program.version,) * 2)
    problems.equal("values.schema.json: the values", set(schema["properties"]) - {"global"}, set(values))
    problems.equal("_refusals.tpl: the connections of a server", re.findall(r"\$each := (.*?) -}}", text(deploy, "templates/_refusals.tpl")),
                   [f"mul 2 (add $sessions {SINGLE_SESSIONS})"])
    wanted = f"The defaults need {connections(values['replicas'], values['settings']['sessions'])}."
    problems.expect(wanted in (deploy / "README.md").read_text(), f"deploy/README.md must say {wanted!r}")
    page = {name: of_the_schema(default, bounds) for name, default, bounds in settings_of_the_page() if name not in CHARTS_OWN}
    there = schema["properties"]["settings"]["properties"]
    problems.equal("values.schema.json: the settings", set(there), set(page))
    listed = yaml.safe_load((deploy / RENDERED / "kustomization.yaml").read_text())["resources"]
    there_too = {path.name for path in (deploy / RENDERED).glob("*.yaml")} - {"kustomization.yaml"}
    problems.equal(f"{RENDERED}/kustomization.yaml: the resources", sorted(listed), sorted(there_too))
    for name in there.keys() & page.keys():
        problems.equal(f"values.schema.json: {name}", there[name], page[name])
    return problems


def settings_of_the_page():
    """Name, default and bounds of all settings, as docs/configuration.md has them from the program."""
    table = (ROOT / "docs/configuration.md").read_text().split("<!-- printed: settings -->")[1].split("<!-- end -->")[0]
    return re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| ", table, re.MULTILINE)


def of_the_schema(default, bounds):
    """How the schema of the values says what a setting may be."""
    if default in ("true", "false"):
        return {"type": "boolean"}
    if re.fullmatch(r"\d+", default):
        least, most = map(int, bounds.split(" to "))
        return {"type": "integer", "minimum": least, "maximum": most}
    if re.fullmatch(r"\d+(ms|s|m|h|d)", default):
        return {"$ref": "#/definitions/duration"}
    return {"type": "string"}


class Helm:
    """Helm itself."""

    def __init__(self, program):
        self.program = program

    def run(self, *words):
        asked = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)
        # The rules are a link to deploy/alerts, of which Helm tells each time.
        said = "\n".join(line for line in asked.stderr.splitlines() if "found symbolic link in path" not in line)
        return asked.returncode, asked.stdout, said

    def template(self, deploy, *more, values=None):
        """Exit code, documents as text, and complaints."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values or {}, file)
            file.flush()
            return self.run("template", NAME, deploy / CHART, "--namespace", NAME, "--kube-version", VERSIONS[0],
                            "--values", file.name, *more)

    def manifests(self, deploy, values):
        code, documents, said = self.template(deploy, values=values)
        if code != 0:
            raise AssertionError(f"helm template with {values}: {said}")
        return yamls.parse(documents)

    def render(self, deploy, to):
        """What deploy/ holds of the chart's result, into a folder like deploy/."""
        with tempfile.TemporaryDirectory() as folder:
            code, _, said = self.template(deploy, "--output-dir", folder)
            if code != 0:
                return said
            (to / RENDERED).mkdir(parents=True, exist_ok=True)
            for file in (pathlib.Path(folder) / NAME / "templates").iterdir():
                (to / RENDERED / file.name).write_text(file.read_text().removeprefix("---\n"))
        code, documents, said = self.template(deploy, "--show-only", "templates/prometheusrule.yaml",
                                              values={"monitoring": {"rules": True}})
        if code != 0:
            return said
        (to / RULES).parent.mkdir(parents=True, exist_ok=True)
        (to / RULES).write_text(documents.removeprefix("---\n"))
        return ""


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--helm", required=True)
    options = arguments.parse_args()
    deploy = ROOT / "deploy"
    for file in (deploy / RENDERED).glob("*.yaml"):
        if file.name not in BY_HAND:
            file.unlink()
    said = Helm(options.helm).render(deploy, deploy)
    assert not said, said
    (deploy / envoy.OF_COMPOSE).write_text(envoy.of_compose(deploy))
    (deploy / DIGESTS).write_text("".join(f"{digest}  ../{name}\n" for name, digest in digests(deploy).items()))
    print(f"rendered: {', '.join(sorted(digests(deploy)))}")


if __name__ == "__main__":
    main()
