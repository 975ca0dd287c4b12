"""What a person sees of a running ledger: metrics, log lines, alerts, the dashboard; by real Prometheus tools.

    python tests/observe/check.py --binary target/debug/idempotency-ledger --database-url URL [--print]

--print writes the table of docs/runbooks.md anew.
"""

import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import alerts  # noqa: E402
import board  # noqa: E402
import edges  # noqa: E402
import live  # noqa: E402
import panels  # noqa: E402
import scrape  # noqa: E402
import secured  # noqa: E402
import story  # noqa: E402
from running import Running, free_port, wait_for  # noqa: E402
from database_hop import DatabaseHop  # noqa: E402

import grpc  # noqa: E402
from stubs import rpc  # noqa: E402

MARKS = re.compile(r"(<!-- printed: story -->\n)(.*?)(<!-- end -->)", re.DOTALL)
# What a runbook tells to type, and to whom it does nothing.
COMMAND = re.compile(r"`idempotency-ledger ([^`]+)`", re.DOTALL)


def page_is_current(table, write):
    text = alerts.RUNBOOKS.read_text()
    wanted = MARKS.sub(lambda found: found[1] + table + found[3], text)
    if write:
        alerts.RUNBOOKS.write_text(wanted)
    if wanted == text or write:
        return []
    return ["docs/runbooks.md shows another table than this; write it with --print:\n" + table]


def commands_work(binary, address, named):
    """Every command of the runbooks, on this server, and with what stands for its words: it knows what it is asked."""
    problems = []
    commands = {" ".join(command.split()) for command in COMMAND.findall(alerts.RUNBOOKS.read_text())}
    for command in sorted(commands):
        given = {"CONSUMER": "stale", "HASH": "0" * 32, "HOST:PORT": address, "WHY": "drill"} | named
        words = [given.get(word, word) for word in command.split()]
        # One names its server in another way, and one asks none.
        if words[0] not in ("health", "rights"):
            words += ["--endpoint", address]
        done = subprocess.run([binary, *words], capture_output=True, text=True, timeout=30)
        # No such entry is an answer.
        if done.returncode not in (0, 3):
            problems.append(f"{command}: exit code {done.returncode}: {done.stderr}")
    return problems, len(commands)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--database-url", required=True, help="an empty Postgres")
    arguments.add_argument("--print", action="store_true")
    options = arguments.parse_args()
    problems, tests = alerts.check()
    print(f"{len(alerts.alerts())} alerts, {tests} tests of them; {len(alerts.BREAKS)} mistakes made, and seen")
    wrong, number, moves = edges.check()
    problems += wrong
    print(f"{number} edges of alerts; {moves} times a threshold or a waiting time was moved; {len(edges.BREAKS)} mistakes made")
    problems += live.dashboard_is_current()
    wrong, number, mistakes = panels.check()
    problems += wrong
    print(f"{number} queries of the dashboard show the known value of a known load; {mistakes} mistakes made in them")
    wrong, mistakes = board.check(panels.shown())
    problems += wrong
    print(f"consumers, units, legends and variables of the dashboard were checked; {mistakes} mistakes made in them")
    where = re.fullmatch(r"(postgres\w*://[^@]*@)([^:/]+):(\d+)(/.*)", options.database_url)
    hop = DatabaseHop(where[2], int(where[3]))
    with Running() as running:
        subprocess.run([options.binary, "migrate", "--database-url", options.database_url], check=True)
        observed, address = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        config = running.path / "ledger.toml"
        config.write_text(story.CONFIG)
        running.start("server", options.binary, "serve", "--listen", address, "--observe-listen", observed, "--config", config,
                      "--database-url", f"{where[1]}127.0.0.1:{hop.port}{where[4]}", "--count-every", "1s", "--log-format", "json")
        asked = [options.binary, "health", "--address", address]
        wait_for("the server is healthy", lambda: subprocess.run(asked, capture_output=True).returncode == 0)
        other = secured.Secured(running, options.binary)
        server = live.prometheus(running, observed, other.observed)
        ledger = rpc.LedgerServiceStub(grpc.insecure_channel(address))
        tells = story.Story(ledger, observed, lambda: running.log("server"), hop, other)
        wrong, table = story.told(tells)
        problems += wrong + page_is_current(table, options.print)
        print(table, end="")
        problems += live.doubled_effects_are_alerts(server, fire=["hasty", "zombies"], silent="patient")
        wait_for("the server is healthy again", lambda: subprocess.run(asked, capture_output=True).returncode == 0)
        policy = [options.binary, "policy", "set", "inbox", "--inbox", "--reason", "drill", "--endpoint", address]
        subprocess.run(policy, check=True, capture_output=True)
        live.load(ledger)
        wait_for("the stored message is counted", lambda: "idempotency_ledger_inbox_messages{" in scrape.text(observed))
        text = scrape.text(observed)
        problems += live.linted(text) + live.linted(scrape.text(other.observed))
        problems += live.names_exist(scrape.series(text) | scrape.series(scrape.text(other.observed)))
        wrong, commands = commands_work(options.binary, address, other.words())
        problems += wrong
        print(f"{commands} commands of the runbooks were typed")
        # Two scrapes after the load.
        until = live.asked(server, "time()")[1]
        wait_for("Prometheus has seen the load", lambda: float(live.asked(server, "time()")[1]) > float(until) + 2)
        problems += live.every_panel_shows_something(server)
        print(f"{len(list(board.lines()))} queries of the dashboard were asked of a Prometheus")
        problems += live.names_of_clients_are_bounded(ledger, observed)
    for problem in problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    print("nothing is wrong" if not problems else f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


main()
