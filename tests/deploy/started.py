"""The command lines of the recipes, run as they stand: their arguments, their variables, their files."""

import os
import re
import shutil
import signal
import subprocess
import tomllib

import compose
import kubernetes
import unit
import yamls
from container import Image
from facts import PREFIX, Problems, seconds
from running import Running, free_port, wait_for

LISTEN, OBSERVE, CONFIG, URL = f"{PREFIX}LISTEN", f"{PREFIX}OBSERVE_LISTEN", f"{PREFIX}CONFIG", f"{PREFIX}DATABASE_URL"
LIVENESS = "liveness"


class Recipe:
    """How a recipe starts its server, asks it, and how many seconds it may take to end."""

    def __init__(self, name, serve, environment, grace, ready, alive, migrate=None):
        self.name, self.serve, self.grace = name, serve, grace
        self.ready, self.alive, self.migrate = ready, alive, migrate
        # The recipe's addresses, at ports that are free here.
        addresses = {name: environment.get(name, "127.0.0.1:0").rsplit(":", 1)[0] for name in (LISTEN, OBSERVE)}
        self.environment = {**environment, **{name: f"{host}:{free_port()}" for name, host in addresses.items()}}

    def ask(self, program, words):
        return call(program, words, self.environment)


def call(program, words, environment):
    """A command's exit code, and what it says."""
    asked = subprocess.run([program.binary, *words], env=environment, capture_output=True, text=True, timeout=60)
    return asked.returncode, (asked.stdout + asked.stderr).strip()


def check(deploy, program, database_url):
    problems = Problems("deploy, started")
    with Running() as running:
        top = running.path / "tree"
        copy = top / "deploy"
        shutil.copytree(deploy, copy, ignore=shutil.ignore_patterns("secrets"))
        files = secrets(problems, top, database_url)
        recipes = [of_compose(deploy, files), of_kubernetes(deploy, database_url), of_systemd(deploy)]
        code, said = recipes[0].ask(program, recipes[0].serve)
        problems.expect(code == 1 and f"run `{os.path.abspath(program.binary)} migrate`" in said,
                        f"compose: a server before its migration exits with {code}: {said}")
        for recipe in recipes:
            if recipe.migrate:
                code, said = call(program, *recipe.migrate)
                problems.expect(code == 0, f"{recipe.name}: its migration exits with {code}: {said}")
        if not problems:
            run(problems, running, program, recipes)
    return problems


def run(problems, running, program, recipes):
    """All of them at once: from the start to the end."""
    processes = {}
    for recipe in recipes:
        folder = running.path / recipe.name
        folder.mkdir()
        processes[recipe] = running.start(f"{recipe.name}-server", "/usr/bin/env", "-C", folder, program.binary,
                                          *recipe.serve, environment=recipe.environment)
    for recipe, process in processes.items():
        wait_for(f"{recipe.name}: its server is ready",
                 lambda: process.poll() is not None or recipe.ask(program, recipe.ready)[0] == 0)
        if process.poll() is not None:
            problems.add(f"{recipe.name}: its server ended: {running.log(f'{recipe.name}-server')}")
            return
        problems.equal(f"{recipe.name}: {' '.join(recipe.alive)}", recipe.ask(program, recipe.alive), (0, "SERVING"))
    for process in processes.values():
        process.send_signal(signal.SIGTERM)
    for recipe, process in processes.items():
        # What drains gets no new callers, and is not to be restarted.
        wait_for(f"{recipe.name}: what drains is not ready", lambda: recipe.ask(program, recipe.ready)[0] == 1)
        problems.equal(f"{recipe.name}: while it drains, {' '.join(recipe.alive)}", recipe.ask(program, recipe.alive), (0, "SERVING"))
    for recipe, process in processes.items():
        try:
            problems.equal(f"{recipe.name}: the exit code after SIGTERM", process.wait(timeout=recipe.grace), 0)
        except subprocess.TimeoutExpired:
            problems.add(f"{recipe.name}: still there {recipe.grace} s after SIGTERM")


def secrets(problems, top, database_url):
    """Compose's secrets, made as README.md says: their paths in a container, and here. The database is the one here."""
    deploy = top / "deploy"
    text = (deploy / "README.md").read_text()
    block = re.search(r"<!-- tests/deploy runs this: begin -->\n```sh\n(.*?)```\n<!-- end -->", text, re.DOTALL)[1]
    subprocess.run(["sh", "-eu", "-c", block], cwd=top, check=True)
    password = (deploy / "secrets/postgres_password").read_text()
    file = deploy / "secrets/ledger.toml"
    postgres = compose.services(deploy)["postgres"]["environment"]
    problems.equal("deploy/README.md: the length of the password", len(password), 48)
    problems.equal("deploy/README.md: secrets/ledger.toml", tomllib.loads(file.read_text()), {
        "database_url": f"postgres://{postgres['POSTGRES_USER']}:{password}@postgres/{postgres['POSTGRES_DB']}"})
    file.write_text(f'database_url = "{database_url}"\n')
    defined = yamls.read(deploy / compose.FILE)[0]["secrets"]
    return {compose.SECRETS + name: str(deploy / secret["file"]) for name, secret in defined.items()}


def of_compose(deploy, files):
    image, services = Image(deploy), compose.services(deploy)

    def environment(service):
        given = {**image.environment, **services[service]["environment"]}
        return {name: files.get(value, value) for name, value in given.items()}

    ready = image.health[1:]
    grace = seconds(services["server"]["stop_grace_period"])
    return Recipe("compose", services["server"]["command"], environment("server"), grace, ready, [*ready[:-1], LIVENESS],
                  migrate=(services["migrate"]["command"], environment("migrate")))


def of_kubernetes(deploy, database_url):
    image, folder = Image(deploy), deploy / "kubernetes"
    deployment = kubernetes.Manifests(folder).one("Deployment")
    job = kubernetes.container_of(kubernetes.Manifests(folder / "migrate").one("Job"))
    container = kubernetes.container_of(deployment)

    def environment(container):
        given = {**image.environment, **kubernetes.environment_of(container), URL: database_url}
        if CONFIG in given:
            given[CONFIG] = str(folder / kubernetes.CONFIGURATION)
        return given

    def probe(name):
        return ["health", "--service", container[name]["grpc"]["service"]]

    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return Recipe("kubernetes", container["args"], environment(container), grace, probe("readinessProbe"),
                  probe("livenessProbe"), migrate=(job["args"], environment(job)))


def of_systemd(deploy):
    """As it stands: the example of the environment has comments alone, so that the ledger is a file."""
    (grace,) = unit.options(deploy)["TimeoutStopSec"]
    return Recipe("systemd", unit.command(deploy)[1:], {}, seconds(grace), ["health"], ["health", "--service", LIVENESS])
