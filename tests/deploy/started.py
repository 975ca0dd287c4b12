"""The command lines of the recipes, run as they stand: their arguments, their variables, their files."""

import os
import shutil
import signal
import subprocess
import tomllib
import urllib.error
import urllib.parse
import urllib.request

import compose
import kubernetes
import secret_files
import unit
import yamls
from container import Image
from facts import PREFIX, Problems, rights_of, seconds
from running import Running, free_port, wait_for

LISTEN, OBSERVE = f"{PREFIX}LISTEN", f"{PREFIX}OBSERVE_LISTEN"
LIVENESS = "liveness"


class Recipe:
    """How a recipe starts its server, asks it, and how many seconds it may take to end."""

    def __init__(self, name, serve, environment, grace, ready, alive, migrate=None, tokens=None):
        self.name, self.serve, self.grace = name, serve, grace
        self.ready, self.alive, self.migrate, self.tokens = ready, alive, migrate, tokens
        # The recipe's addresses, at ports that are free here.
        addresses = {name: environment.get(name, "127.0.0.1:0").rsplit(":", 1)[0] for name in (LISTEN, OBSERVE)}
        self.environment = {**environment, **{name: f"{host}:{free_port()}" for name, host in addresses.items()}}

    def ask(self, program, words):
        """A command of the program, or a probe over HTTP, by its path: 0 where the answer is good, and the answer."""
        if isinstance(words, str):
            return probe(f"http://{self.environment[OBSERVE]}{words}")
        return call(program, words, self.environment)

    def operate(self, program, holder, *words):
        """A command of the operators' command line, with the token of a holder, or with none."""
        token = ["--token-file", str(self.tokens / f"{holder}.token")] if holder else []
        port = self.environment[LISTEN].rsplit(":", 1)[1]
        return call(program, [*words, *token], {f"{PREFIX}ENDPOINT": f"http://127.0.0.1:{port}"})


def probe(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return 0, answer.read().decode().strip()
    except (urllib.error.URLError, ConnectionError) as error:
        return 1, str(error)


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
        files = secrets(problems, top, program, database_url)
        recipes = [of_compose(copy, files), of_kubernetes(copy, database_url), of_systemd(copy)]
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
        problems.equal(f"{recipe.name}: {recipe.alive}", recipe.ask(program, recipe.alive)[0], 0)
        if recipe.tokens:
            callers(problems, program, recipe)
    for process in processes.values():
        process.send_signal(signal.SIGTERM)
    for recipe, process in processes.items():
        # What drains gets no new callers, and is not to be restarted.
        wait_for(f"{recipe.name}: what drains is not ready", lambda: recipe.ask(program, recipe.ready)[0] == 1)
        problems.equal(f"{recipe.name}: while it drains, {recipe.alive}", recipe.ask(program, recipe.alive)[0], 0)
    for recipe, process in processes.items():
        try:
            problems.equal(f"{recipe.name}: the exit code after SIGTERM", process.wait(timeout=recipe.grace), 0)
        except subprocess.TimeoutExpired:
            problems.add(f"{recipe.name}: still there {recipe.grace} s after SIGTERM")


def callers(problems, program, recipe):
    """The holders of tokens may do what the rights say; nobody else may do anything."""
    for holder, words, reason in (
        ("operators", ["policy", "list"], None),
        ("operators", ["try", "--consumer", "payments"], "CONSUMER_NOT_ALLOWED"),
        ("payments", ["try", "--consumer", "payments"], None),
        ("payments", ["policy", "list"], "CONSUMER_NOT_ALLOWED"),
        (None, ["policy", "list"], "UNAUTHENTICATED"),
    ):
        code, said = recipe.operate(program, holder, *words)
        good = code == 0 if reason is None else code != 0 and reason in said
        problems.expect(good, f"{recipe.name}: {holder or 'nobody'}, {' '.join(words)}: {code}, must be {reason or 'done'}: {said}")


def secrets(problems, top, program, database_url):
    """Compose's files, those that README.md makes among them: their paths in the containers, and here. The database is the
    one here."""
    deploy = top / "deploy"
    secret_files.make(deploy, program)
    folder = deploy / "secrets"
    password, tokens = folder / "postgres_password", folder / "tokens.toml"
    problems.equal("deploy/README.md: the length of the password", len(password.read_text()), 48)
    names = {f"token:{name}" for name in tomllib.loads(tokens.read_text())["tokens"]}
    rights = deploy / "compose/rights.toml"
    problems.equal("deploy/README.md: the tokens", names, set(rights_of(rights)))
    said = program.lint(rights, tokens)
    problems.expect(not said, f"compose/rights.toml, with the tokens of deploy/README.md: {said}")
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    problems.equal("deploy/secrets: what only its owner reads", {name for name, mode in modes.items() if mode == 0o600},
                   {f"{name.removeprefix('token:')}.token" for name in names})
    problems.equal("deploy/secrets: what containers read", {name for name, mode in modes.items() if mode == 0o644},
                   {password.name, tokens.name})
    whole = yamls.read(deploy / compose.FILE)[0]
    postgres, file = whole["services"]["postgres"]["environment"], deploy / "compose/ledger.toml"
    problems.equal("deploy/compose/ledger.toml: database_url", tomllib.loads(file.read_text())["database_url"],
                   f"postgres://{postgres['POSTGRES_USER']}@postgres/{postgres['POSTGRES_DB']}?sslmode=disable")
    url = urllib.parse.urlsplit(database_url)
    password.write_text(url.password)
    file.write_text(f'database_url = "{url._replace(netloc=url.netloc.replace(f":{url.password}@", "@")).geturl()}"\n')
    there = {}
    for service in whole["services"].values():
        there |= {inside: str(deploy / outside) for inside, outside in compose.mounted(whole, service).items()}
    return there


def of_compose(deploy, files):
    image, services = Image(deploy), compose.services(deploy)

    def environment(service):
        given = {**image.environment, **services[service]["environment"]}
        return {name: files.get(value, value) for name, value in given.items()}

    ready = image.health[1:]
    grace = seconds(services["server"]["stop_grace_period"])
    return Recipe("compose", services["server"]["command"], environment("server"), grace, ready, [*ready[:-1], LIVENESS],
                  migrate=(services["migrate"]["command"], environment("migrate")), tokens=deploy / "secrets")


def of_kubernetes(deploy, database_url):
    image, manifests = Image(deploy), kubernetes.of_recipe(deploy)
    deployment, job = manifests.one("Deployment"), manifests.one("Job")
    container = kubernetes.container_of(deployment)

    # The ConfigMap, and the Secrets that README.md makes.
    folder = deploy / "configmap"
    folder.mkdir()
    for name, text in manifests.files().items():
        (folder / name).write_text(text)
    (folder / "url").write_text(f"{database_url}\n")
    secrets = {"idempotency-ledger-tokens": deploy / "secrets", "idempotency-ledger-database": folder}

    def environment(workload):
        given, mounts = kubernetes.environment_of(kubernetes.container_of(workload)), kubernetes.mounted(workload)

        def here(value):
            at, _, name = value.rpartition("/")
            return str(secrets.get(mounts[at], folder) / name) if at in mounts else value

        return {name: here(value) for name, value in {**image.environment, **given}.items()}

    def path(name):
        return container[name]["httpGet"]["path"]

    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return Recipe("kubernetes", container["args"], environment(deployment), grace, path("readinessProbe"),
                  path("livenessProbe"), migrate=(kubernetes.container_of(job)["args"], environment(job)), tokens=deploy / "secrets")


def of_systemd(deploy):
    """As it stands: the example of the environment has comments alone, so that the ledger is a file."""
    (grace,) = unit.options(deploy)["TimeoutStopSec"]
    return Recipe("systemd", unit.command(deploy)[1:], {}, seconds(grace), ["health"], ["health", "--service", LIVENESS])
