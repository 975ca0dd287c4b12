"""A real Prometheus that scrapes a server under load: what the dashboard and the alerts ask for is there."""

import importlib.util
import json
import pathlib
import re
import subprocess
import urllib.parse
import urllib.request
import uuid

import alerts
import board
import catalogue
import scrape
from running import free_port, wait_for

from stubs import pb

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARDS = ROOT / "deploy/dashboards"
BATCH, CONSUMERS = 1_000, 10_000
# Contract of the page docs/metrics.md: bytes, and seconds.
TEXT_MAX, SCRAPE_MAX = 2_000_000, 0.2


def prometheus(running, *observed):
    """Scrapes the servers once a second, and knows the rules."""
    config = running.path / "prometheus.yaml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(alerts.RULES)],
        "scrape_configs": [{"job_name": "ledger", "static_configs": [{"targets": observed}]}],
    }))
    address = f"127.0.0.1:{free_port()}"
    running.start("prometheus", "prometheus", f"--config.file={config}", f"--storage.tsdb.path={running.path / 'prometheus'}",
                  f"--web.listen-address={address}")

    def ready():
        try:
            return urllib.request.urlopen(f"http://{address}/-/ready", timeout=2).status == 200
        except OSError:
            return False

    wait_for("Prometheus is ready", ready)
    return address


def asked(address, query):
    parameters = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"http://{address}/api/v1/query?{parameters}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def doubled_effects_are_alerts(address, fire, silent):
    """The alert fires in this Prometheus for consumers of whose messages two holders have reported the effect, and for no other."""
    alert = f'ALERTS{{alertname="{alerts.PREFIX}DoubledEffects",alertstate="firing"}}'

    def firing():
        return sorted(one["metric"]["consumer"] for one in asked(address, alert))

    wait_for(f"the alert fires for {fire}", lambda: set(fire) <= set(firing()))
    seen = asked(address, f'idempotency_ledger_settlements_total{{consumer="{silent}",outcome="superseded"}} > 0')
    problems = [] if seen else [f"Prometheus has not seen what {silent} did"]
    return problems + ([] if firing() == fire else [f"the alert fires for {firing()}, not for {fire}"])


def load(ledger):
    """A little of everything, batches and a stored message included."""
    ledger.Store(pb.StoreRequest(key=pb.EntryKey(consumer="inbox", source="live", id="1"), message=pb.Message(payload=b"1")), timeout=5)
    for number in range(20):
        message = pb.EntryKey(consumer="load", source="live", id=str(number))
        claim = pb.ClaimRequest(key=message, claim_id=str(uuid.uuid4()), event_type="order.paid")
        token = ledger.Claim(claim, timeout=5).acquired.token
        if number % 4 == 0:
            ledger.Release(pb.ReleaseRequest(key=message, token=token), timeout=5)
        elif number % 4 == 1:
            ledger.Fail(pb.FailRequest(key=message, token=token, event_type="order.paid"), timeout=5)
        else:
            ledger.Complete(pb.CompleteRequest(key=message, token=token, event_type="order.paid"), timeout=5)


def dashboard_is_current():
    spec = importlib.util.spec_from_file_location("ledger_dashboard", DASHBOARDS / "ledger.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.made() == (DASHBOARDS / "ledger.json").read_text():
        return []
    return ["ledger.json is not what ledger.py makes: python deploy/dashboards/ledger.py > deploy/dashboards/ledger.json"]


def every_panel_shows_something(address):
    problems = []
    for line in board.lines():
        query = line.query.replace("$__rate_interval", "20s").replace("$consumer", board.ALL)
        if not asked(address, query):
            problems.append(f"the panel {line.title!r} shows nothing: {query}")
    return problems


def names_exist(of):
    """Every metric and every label that alerts and panels ask for is one that the server shows."""
    labels = {}
    for name, pairs in of:
        labels.setdefault(re.sub(r"_(bucket|sum|count)$", "", name), {"instance", "job"}).update(label for label, _ in pairs)
    known = set().union(*labels.values())
    problems = []
    queries = [(rule.get("alert", rule.get("record")), rule["expr"]) for rule in alerts.rules()]
    queries += [(line.title, line.query) for line in board.lines()]
    for where, query in queries:
        for name, matchers in catalogue.selected(query, labels):
            if name not in labels:
                problems.append(f"{where}: no metric is called {name}")
                continue
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r"(\"[^\"]*\"|'[^']*')", "", matchers)):
                if label not in labels[name] | {"le"}:
                    problems.append(f"{where}: {name} has no label {label}")
        for by in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            problems += [f"{where}: no metric has the label {label}" for label in re.findall(r"\w+", by) if label not in known]
    return problems


def linted(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    return [f"promtool check metrics: {done.stdout}{done.stderr}"] if done.returncode or done.stderr.strip() else []


def names_of_clients_are_bounded(ledger, observed):
    """10,000 consumers with an event type each: the text stays short, and quick to get."""
    for first in range(0, CONSUMERS, BATCH):
        requests = [pb.ClaimRequest(key=pb.EntryKey(consumer=f"consumer-{number}-{uuid.uuid4()}", source="live", id="1"),
                                    claim_id=str(uuid.uuid4()), event_type=str(uuid.uuid4()))
                    for number in range(first, first + BATCH)]
        ledger.BatchClaim(pb.BatchClaimRequest(requests=requests), timeout=30)
    size, seconds = scrape.timed(observed)
    print(f"{CONSUMERS} consumers, each with an event type of its own: {size} bytes, {seconds * 1_000:.0f} ms a scrape")
    problems = [] if size < TEXT_MAX else [f"/metrics has {size} bytes, must be below {TEXT_MAX}"]
    return problems + ([] if seconds < SCRAPE_MAX else [f"a scrape takes {seconds:.3f} s, must be below {SCRAPE_MAX} s"])
