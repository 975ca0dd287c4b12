"""deploy/envoy/envoy.yaml: Envoy itself reads it, and its values fit the program's."""

import pathlib
import re
import subprocess
import sys
import tempfile

import yamls
from facts import ROOT, Problems, seconds

FILE = "envoy/envoy.yaml"
PACKAGE = "idempotency.ledger.v1"
PREVIOUS_HOSTS = "envoy.retry_host_predicates.previous_hosts"
# A batch each way, as docs/contract.md, section 10, has it.
BATCH_BYTES = int(3.5 * 1024 * 1024)
# What a replica answers for its store by itself after this, in seconds: docs/running.md.
STORE_GIVEN_UP = 3
# Another replica may answer these otherwise.
ELSEWHERE = {"DRAINING", "OUTCOME_UNKNOWN", "STORE_UNAVAILABLE"}


# What Compose has otherwise, and nothing else: Envoy is in a container of its own, before one server.
OF_COMPOSE = "compose/envoy.yaml"
OTHERWISE = [
    ("""\
# Envoy in front of three replicas of the ledger. To use it, change the addresses at the end of this file.
# What is here, and what fits it: deploy/README.md. `tests/run mesh` runs this very file.
#
#   envoy --config-path deploy/envoy/envoy.yaml
""", """\
# deploy/envoy/envoy.yaml, with the addresses of compose.yaml: `tests/prove deploy --render` makes it.
"""),
    ("""\
        # Without TLS, so loopback alone: for others add a `transport_socket` to the filter chain first.
        socket_address: { address: 127.0.0.1, port_value: 50050 }
""", """\
        # Without TLS, so compose.yaml publishes it on loopback alone.
        socket_address: { address: 0.0.0.0, port_value: 50050 }
"""),
    ("""\
              - endpoint: { address: { socket_address: { address: ledger-1.example, port_value: 50051 } } }
              - endpoint: { address: { socket_address: { address: ledger-2.example, port_value: 50051 } } }
              - endpoint: { address: { socket_address: { address: ledger-3.example, port_value: 50051 } } }
""", """\
              - endpoint: { address: { socket_address: { address: server, port_value: 50051 } } }
"""),
]


def of_compose(deploy):
    """What deploy/compose/envoy.yaml must be."""
    text = (deploy / FILE).read_text()
    for old, new in OTHERWISE:
        assert text.count(old) == 1, f"deploy/{FILE} does not have this once: {old}"
        text = text.replace(old, new)
    return text


def validate(deploy, _program):
    problems = Problems("deploy")
    envoy = pathlib.Path(sys.executable).with_name("envoy")
    for file in (FILE, OF_COMPOSE):
        command = [envoy, "--mode", "validate", "--disable-hot-restart", "--log-level", "error", "--config-path", deploy / file]
        with tempfile.TemporaryDirectory(prefix="ledger-envoy-") as folder:
            asked = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        problems.expect(asked.returncode == 0, f"{file}: envoy: {asked.stdout}{asked.stderr}")
    return problems


def derived(deploy, _program):
    """Compose's file is the shipped one, with other addresses."""
    problems = Problems(f"deploy/{OF_COMPOSE}")
    problems.expect((deploy / OF_COMPOSE).read_text() == of_compose(deploy),
                    f"is not what deploy/{FILE} makes of it; make it: tests/prove deploy --render")
    return problems


def check(deploy, program):
    problems = Problems(f"deploy/{FILE}")
    whole = yamls.read(deploy / FILE)[0]
    (listener,), (cluster,) = whole["static_resources"]["listeners"], whole["static_resources"]["clusters"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    (host,) = manager["route_config"]["virtual_hosts"]
    for name, address in (("admin", whole["admin"]["address"]), ("listener", listener["address"])):
        problems.equal(f"the address of {name}, without TLS", address["socket_address"]["address"], "127.0.0.1")
    # docs/identity.md: what clients send as their identity must not reach the ledger.
    problems.equal("forward_client_cert_details", manager["forward_client_cert_details"], "SANITIZE_SET")
    problems.equal("set_current_client_cert_details", manager["set_current_client_cert_details"], {"uri": True})
    problems.equal("use_remote_address", manager["use_remote_address"], True)
    for name, there in (("per_connection_buffer_limit_bytes", listener), ("request_body_buffer_limit", host)):
        problems.at_least(name, there[name], BATCH_BYTES, "a batch must fit, to be sent again")
    problems.equal("include_attempt_count_in_response", host["include_attempt_count_in_response"], True)
    routes(problems, host["routes"], cluster["name"])
    upstream(problems, cluster, program)
    return problems


def routes(problems, listed, cluster):
    services = {name for proto in (ROOT / "proto").rglob("*.proto") for name in re.findall(r"^service (\w+) {", proto.read_text(), re.MULTILINE)}
    retried = {}
    for route in listed:
        prefix, action = route["match"]["prefix"], route["route"]
        service, _, method = prefix.removeprefix(f"/{PACKAGE}.").partition("/")
        if not prefix.startswith(f"/{PACKAGE}.{service}/") or service not in services:
            problems.add(f"{prefix} is no service")
            continue
        problems.equal(f"{prefix}: cluster", action["cluster"], cluster)
        # Beside `grpc_timeout_header_max` Envoy takes no notice of `timeout`.
        bounds = action["max_stream_duration"]
        problems.equal(f"{prefix}: grpc_timeout_header_max", bounds["grpc_timeout_header_max"], "0s")
        problems.equal(f"{prefix}: timeout", action["timeout"], "0s")
        longest, policy = bounds.get("max_stream_duration"), action.get("retry_policy")
        if service == "AdminService":
            problems.equal(f"{prefix}: retry_policy", policy, None)
            problems.equal(f"{prefix}: max_stream_duration", longest, None)
            continue
        retried[method] = policy
        wanted = {"connect-failure", "refused-stream", "reset", "retriable-headers"}
        problems.equal(f"{prefix}: retry_on", set(policy["retry_on"].split(",")), wanted)
        (header,) = policy["retriable_headers"]
        problems.equal(f"{prefix}: retriable_headers", header["name"], "idempotency-ledger-reason")
        problems.equal(f"{prefix}: reasons", set(header["string_match"]["safe_regex"]["regex"].split("|")), ELSEWHERE)
        predicates = [predicate["name"] for predicate in policy["retry_host_predicate"]]
        problems.equal(f"{prefix}: retry_host_predicate", predicates, [PREVIOUS_HOSTS])
        problems.at_least(f"{prefix}: host_selection_retry_max_attempts", policy["host_selection_retry_max_attempts"], 10,
                          "round robin offers the same replica several times in a row")
        tries = 1 + policy["num_retries"]
        problems.at_least(f"{prefix}: max_stream_duration", seconds(longest), tries * seconds(policy["per_try_timeout"]),
                          "each try must fit")
    problems.equal("the methods of LedgerService that are retried", list(retried), ["Batch", ""])
    if not problems:
        problems.at_least("per_try_timeout of batches", seconds(retried["Batch"]["per_try_timeout"]), STORE_GIVEN_UP + 0.5,
                          "a replica answers for its store by itself")
    problems.equal("the services with a route", {route["match"]["prefix"].split("/")[1] for route in listed},
                   {f"{PACKAGE}.{service}" for service in services})


def upstream(problems, cluster, program):
    problems.equal("lb_policy", cluster["lb_policy"], "ROUND_ROBIN")
    problems.equal("healthy_panic_threshold", cluster["common_lb_config"]["healthy_panic_threshold"]["value"], 1)
    problems.expect("outlier_detection" not in cluster, "outlier_detection takes replicas away for their lost store")
    (health,) = cluster["health_checks"]
    problems.equal("the name that is asked for", health["grpc_health_check"], {})
    problems.expect("no_traffic_interval" in health, "no_traffic_interval is missing: it is 60 s then")
    slowest = max(seconds(health[name]) for name in ("interval", "no_traffic_interval") if name in health)
    worst = slowest * health["unhealthy_threshold"] + seconds(health["timeout"])
    problems.expect(worst < seconds(program.default("drain_wait")),
                    f"a drain is seen after {worst} s, must be within drain_wait, {program.default('drain_wait')}")
    for name, values in listed_numbers(cluster):
        problems.at_least(name, values, 10_000, "the ledger refuses by itself what is too much")
    budget = cluster["circuit_breakers"]["thresholds"][0]["retry_budget"]
    problems.at_least("retry_budget: budget_percent", budget["budget_percent"]["value"], 50,
                      "half of all calls are repeated when one of two replicas dies")
    ports = {endpoint["endpoint"]["address"]["socket_address"]["port_value"]
             for group in cluster["load_assignment"]["endpoints"] for endpoint in group["lb_endpoints"]}
    problems.equal("the replicas' ports", ports, {program.port()})


def listed_numbers(cluster):
    threshold = cluster["circuit_breakers"]["thresholds"][0]
    return [(f"circuit_breakers: {name}", threshold[name]) for name in ("max_connections", "max_pending_requests", "max_requests")]
