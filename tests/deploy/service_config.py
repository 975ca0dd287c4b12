"""deploy/clients/service-config.json: what gRPC allows, and what fits the ledger."""

import json
import re

from facts import ROOT, Problems, seconds

FILE = "clients/service-config.json"
SERVICE = "idempotency.ledger.v1.LedgerService"
# gRPC's own bounds: more attempts are cut to these, and a larger bucket is refused.
ATTEMPTS_MAX, TOKENS_MAX = 5, 1000


def check(deploy, _program):
    problems = Problems(f"deploy/{FILE}")
    config = json.loads((deploy / FILE).read_text())
    proto = (ROOT / "proto/idempotency/ledger/v1/ledger.proto").read_text()
    methods = set(re.findall(r"^  rpc (\w+)\(", proto, re.MULTILINE))
    problems.equal("loadBalancingConfig", config["loadBalancingConfig"], [{"round_robin": {}}])
    # docs/running.md: the name for health checks of clients.
    problems.equal("healthCheckConfig", config["healthCheckConfig"], {"serviceName": "accepting"})
    named = [name for method in config["methodConfig"] for name in method["name"]]
    problems.expect({"service": SERVICE} in named, f"nothing is said of all methods of {SERVICE}")
    for name in named:
        problems.equal("service", name["service"], SERVICE)
        problems.expect(name.get("method") in {None, *methods}, f"{name.get('method')} is no method")
    for method in config["methodConfig"]:
        policy = method["retryPolicy"]
        problems.equal("retryableStatusCodes", policy["retryableStatusCodes"], ["UNAVAILABLE"])
        problems.expect(2 <= policy["maxAttempts"] <= ATTEMPTS_MAX, f"maxAttempts must be 2 to {ATTEMPTS_MAX}")
        # A server answers for its store by itself within 3 s.
        problems.at_least("timeout", seconds(method["timeout"]), 4, "the ledger's own error should come first")
    throttling = config["retryThrottling"]
    problems.equal("retryThrottling", throttling, {"maxTokens": TOKENS_MAX, "tokenRatio": 1})
    return problems
