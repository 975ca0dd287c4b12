"""Compose's services, all at once, as processes: by Compose's own reading of compose.yaml, with the very files that it
mounts, at their paths, names and ports. What an engine would give them is made here: a network in which each service has
its name, and an /etc with the files. Starts in namespaces of its own: see tests/lib/prove/deploy.

    python tests/deploy/together.py --binary target/debug/idempotency-ledger --compose PATH --postgres FOLDER
"""

import argparse
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import yaml  # noqa: E402

import secret_files  # noqa: E402
from container import Image  # noqa: E402
from facts import PREFIX, ROOT, Problems, Program, seconds  # noqa: E402
from running import Running, wait_for  # noqa: E402

# Mistakes in compose.yaml that Compose itself must see: what stands there, and what somebody made of it.
BREAKS = [("service_completed_successfully", "service_has_ended"), ("source: rights.toml", "source: right.toml"),
          ("networks: [database, clients]", "networks: [databases, clients]"), ("stop_grace_period: 30s", "stop_grace_period: soon")]
SCRAPED_WITHIN = 60


def read_by_compose(compose, file):
    """Exit code, and what Compose makes of a file, or says of it."""
    asked = subprocess.run([compose, "--file", file, "config", "--format", "json"], capture_output=True, text=True)
    return asked.returncode, asked.stdout if asked.returncode == 0 else asked.stderr


def mistakes(compose, deploy, problems):
    text = (deploy / "compose.yaml").read_text()
    for old, new in BREAKS:
        assert old in text, f"compose.yaml has no {old!r}"
        broken = deploy / "broken.yaml"
        broken.write_text(text.replace(old, new, 1))
        code, said = read_by_compose(compose, broken)
        problems.expect(code != 0, f"Compose takes {new!r} instead of {old!r}: {said}")
        broken.unlink()


def loopback_up():
    """The one device of this network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))


def own_etc(work, whole):
    """An /etc and a /run of this process and its children alone, with what the services mount and the services' names."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    etc = work / "etc"
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    subprocess.run(["mount", "--bind", etc, "/etc"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run"], check=True)
    for service in whole["services"].values():
        for kind in ("configs", "secrets"):
            for mount in service.get(kind, []):
                target = pathlib.Path(mount["target"])
                assert target.is_relative_to("/etc") or target.is_relative_to("/run"), f"{target} would be a file of this machine"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(whole[kind][mount["source"]]["file"], target)
    hosts = "".join(f"127.0.1.{number} {name}\n" for number, name in enumerate(whole["services"], 1))
    pathlib.Path("/etc/hosts").unlink(missing_ok=True)
    pathlib.Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")


class Together:
    """The services; each is started as Compose would start it."""

    def __init__(self, running, whole, program, deploy, postgres_bin):
        self.running, self.services, self.program, self.image = running, whole["services"], program, Image(deploy)
        self.postgres_bin, self.folders, self.processes = pathlib.Path(postgres_bin), {}, {}

    def folder_of(self, volume):
        """A volume is a folder."""
        folder = self.running.path / f"volume-{volume}"
        folder.mkdir(exist_ok=True)
        return folder

    def words(self, name):
        """The command, with the folders of its volumes."""
        service = self.services[name]
        volumes = {mount["target"]: str(self.folder_of(mount["source"])) for mount in service.get("volumes", [])}
        return [volumes.get(word.rpartition("=")[2], word) if "=" not in word else
                f"{word.rpartition('=')[0]}={volumes.get(word.rpartition('=')[2], word.rpartition('=')[2])}" for word in service["command"]]

    def environment(self, name):
        own = self.image.environment if self.services[name]["image"].startswith("idempotency-ledger:") else {}
        return {"PATH": os.environ["PATH"], **own, **self.services[name].get("environment", {})}

    def start(self, name, *program, **more):
        process = self.running.start(name, *program, environment=self.environment(name), **more)
        self.processes[name] = process
        return process

    def postgres(self):
        """As its image does: the cluster with the user, the database and the password; then the command."""
        environment = self.services["postgres"]["environment"]
        data, sockets = self.folder_of("postgres"), self.running.path / "sockets"
        sockets.mkdir()
        self.running.path.chmod(0o755)
        for folder in (data, sockets):
            shutil.chown(folder, "postgres", "postgres")
        data.chmod(0o700)
        user = {"user": "postgres", "group": "postgres", "extra_groups": [], "cwd": data}
        subprocess.run([self.postgres_bin / "initdb", "--pgdata", data, "--username", environment["POSTGRES_USER"],
                        "--auth", "scram-sha-256", "--pwfile", environment["POSTGRES_PASSWORD_FILE"], "--no-sync",
                        *environment["POSTGRES_INITDB_ARGS"].split()], check=True, stdout=subprocess.DEVNULL, **user)
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all all scram-sha-256\n")
        _, *words = self.words("postgres")
        self.start("postgres", self.postgres_bin / "postgres", "-D", data, "-c", "listen_addresses=*",
                   "-c", f"unix_socket_directories={sockets}", *words, **user)
        ready = self.services["postgres"]["healthcheck"]["test"][1:]
        ready[0] = self.postgres_bin / ready[0]
        wait_for("Postgres is ready", lambda: subprocess.run(ready, capture_output=True).returncode == 0)
        self.query(f"CREATE DATABASE {environment['POSTGRES_DB']}")

    def query(self, statement):
        """As the user that owns the database; the answer's one value."""
        environment = self.services["postgres"]["environment"]
        return subprocess.run([self.postgres_bin / "psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-U", environment["POSTGRES_USER"],
                               "-d", "postgres", "-c", statement], check=True, capture_output=True, text=True,
                              env={"PGPASSWORD": pathlib.Path(environment["POSTGRES_PASSWORD_FILE"]).read_text()}).stdout.strip()

    def ours(self, name):
        return [self.program.binary, *self.services[name]["command"]]

    def health(self):
        asked = [self.program.binary, *self.image.health[1:]]
        return subprocess.run(asked, env=self.environment("server"), capture_output=True).returncode == 0

    def begin(self):
        """In the order of `depends_on`."""
        loopback_up()
        self.postgres()
        migrate = subprocess.run(self.ours("migrate"), env=self.environment("migrate"), capture_output=True, text=True)
        assert migrate.returncode == 0, f"migrate: {migrate.stdout}{migrate.stderr}"
        server = self.start("server", *self.ours("server"))
        wait_for("the server is healthy", lambda: server.poll() is not None or self.health())
        assert server.poll() is None, self.running.log("server")
        self.start("envoy", pathlib.Path(sys.executable).with_name("envoy"), *self.words("envoy"))
        self.start("prometheus", "prometheus", *self.words("prometheus"))


def ask(together, tokens, holder, *words):
    """A command of the operators' command line, at the port that Envoy publishes: on loopback, where a token may go in the clear."""
    (published,) = together.services["envoy"]["ports"]
    token = ["--token-file", str(tokens / f"{holder}.token")] if holder else []
    asked = subprocess.run([together.program.binary, *words, *token], capture_output=True, text=True,
                           env={f"{PREFIX}ENDPOINT": f"http://127.0.0.1:{published['target']}"}, timeout=60)
    return asked.returncode, (asked.stdout + asked.stderr).strip()


def use(problems, together, tokens):
    """A claim and its completion by a holder of a token, through Envoy; nobody else may do so."""
    wait_for("Envoy has found the server", lambda: ask(together, tokens, "operators", "policy", "list")[0] == 0)
    for holder, words, reason in (("payments", ["try", "--consumer", "payments"], None), (None, ["try", "--consumer", "payments"], "UNAUTHENTICATED"),
                                  ("operators", ["entries", "summary", "--consumer", "payments"], None)):
        code, said = ask(together, tokens, holder, *words)
        problems.expect(code == 0 if reason is None else code != 0 and reason in said, f"{holder or 'nobody'}, {' '.join(words)}: {code}: {said}")
    with urllib.request.urlopen("http://127.0.0.1:9901/clusters?format=json", timeout=10) as answer:
        (cluster,) = json.load(answer)["cluster_statuses"]
    sent = [int(stat.get("value", 0)) for host in cluster["host_statuses"] for stat in host["stats"] if stat["name"] == "rq_success"]
    problems.expect(sum(sent) >= 3, f"Envoy has sent {sent} calls to the server")
    most = int(together.program.default("sessions")) + 7
    held = int(together.query("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'idempotency-ledger %'"))
    problems.expect(3 <= held <= most, f"the server holds {held} connections, must be at most {most}: the chart counts so")


def prometheus(path, **query):
    try:
        with urllib.request.urlopen(f"http://prometheus:9090/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]
    except (urllib.error.URLError, ConnectionError):
        return None


def watched(problems, whole):
    """A metric of the ledger in Prometheus, and every rule: loaded, and evaluated without an error."""

    def claims():
        found = prometheus("query", query='sum by (job) (idempotency_ledger_claims_total{consumer="payments",verdict="acquired"})')
        return found and found["result"]

    wait_for("Prometheus has the claim", claims, seconds=SCRAPED_WITHIN)
    problems.equal("Prometheus: the job and the claims", [(one["metric"], one["value"][1]) for one in claims()], [({"job": "idempotency-ledger"}, "1")])
    file = yaml.safe_load(pathlib.Path(whole["configs"]["rules.yaml"]["file"]).read_text())
    wanted = sorted(rule.get("alert") or rule["record"] for group in file["groups"] for rule in group["rules"])

    def rules():
        return [rule for group in prometheus("rules")["groups"] for rule in group["rules"]]

    wait_for("Prometheus has evaluated the rules", lambda: all(rule["health"] != "unknown" for rule in rules()), seconds=SCRAPED_WITHIN)
    problems.equal("Prometheus: the rules", sorted(rule["name"] for rule in rules()), wanted)
    problems.equal("Prometheus: the rules with an error", [rule["name"] for rule in rules() if rule["health"] != "ok"], [])
    problems.equal("Prometheus: the targets", [target["health"] for target in prometheus("targets")["activeTargets"]], ["up"])
    return len(wanted)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("binary", "compose", "postgres"):
        arguments.add_argument(f"--{name}", required=True)
    options = arguments.parse_args()
    program, problems, rules = Program(options.binary), Problems("compose, together"), 0
    with Running() as running:
        deploy = running.path / "tree/deploy"
        shutil.copytree(ROOT / "deploy", deploy, symlinks=True, ignore=shutil.ignore_patterns("secrets"))
        secret_files.make(deploy, program)
        code, said = read_by_compose(options.compose, deploy / "compose.yaml")
        problems.expect(code == 0, f"docker-compose config: {said}")
        if not problems:
            mistakes(options.compose, deploy, problems)
            whole = json.loads(said)
            own_etc(running.path, whole)
            together = Together(running, whole, program, deploy, options.postgres)
            together.begin()
            use(problems, together, deploy / "secrets")
            rules = watched(problems, whole)
            server = together.processes["server"]
            server.send_signal(signal.SIGTERM)
            problems.equal("the server's exit code", server.wait(timeout=seconds(whole["services"]["server"]["stop_grace_period"])), 0)
    for problem in problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    if not problems:
        print(f"Compose takes compose.yaml, and not {len(BREAKS)} mistakes in it; its services served together: "
              f"a claim through Envoy, its metric and {rules} rules in Prometheus")
    sys.exit(1 if problems else 0)


main()
