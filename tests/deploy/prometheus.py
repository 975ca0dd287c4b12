"""deploy/compose/prometheus.yaml: Prometheus' own tool reads it, with the shipped rules beside it."""

import pathlib
import shutil
import subprocess
import tempfile

import compose
import yamls
from facts import Problems

FILE = "compose/prometheus.yaml"
SERVICE = "prometheus"


def check(deploy, program):
    problems = Problems(f"deploy/{FILE}")
    whole = yamls.read(deploy / compose.FILE)[0]
    there = compose.mounted(whole, whole["services"][SERVICE])
    (config,) = yamls.read(deploy / FILE)
    with tempfile.TemporaryDirectory() as folder:
        # Its rules, where it finds them beside itself.
        text = (deploy / FILE).read_text()
        for inside, outside in there.items():
            shutil.copyfile(deploy / outside, pathlib.Path(folder) / pathlib.Path(inside).name)
            text = text.replace(inside, pathlib.Path(inside).name)
        (pathlib.Path(folder) / "checked.yaml").write_text(text)
        asked = subprocess.run(["promtool", "check", "config", "checked.yaml"], capture_output=True, text=True, cwd=folder)
        problems.expect(asked.returncode == 0, f"promtool: {asked.stdout}{asked.stderr}")
    problems.equal("rule_files, of those that are mounted", [there.get(file) for file in config["rule_files"]], ["alerts/rules.yaml"])
    (job,) = config["scrape_configs"]
    problems.equal("the targets", [target for group in job["static_configs"] for target in group["targets"]],
                   [f"server:{program.port('observe_listen')}"])
    return problems
