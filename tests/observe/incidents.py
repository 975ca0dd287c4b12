"""Incidents on a ledger of nine consumers: each cause is found in at most three commands, by what a terminal of 80 columns shows.

    python tests/observe/incidents.py --binary target/debug/idempotency-ledger

Every incident is made by calls, while the other eight consumers have traffic. An operator begins with `entries summary`. Each further
command is one that a screen before it names, or docs/runbooks.md. The mend is carried out, and the command that showed the incident
shows that it is over. The store is SQLite, whose clock is that of the server: the test sets it ahead.
"""

import argparse
import dataclasses
import os
import pathlib
import shlex
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from incident_ledger import Ledger, Traffic, key  # noqa: E402
from running import ROOT, Running, wait_for  # noqa: E402

import grpc  # noqa: E402
from stubs import pb  # noqa: E402

RUNBOOKS = " ".join((ROOT / "docs/runbooks.md").read_text().split())
MINUTES, DAYS = 60, 86_400
# Commands for the cause.
MOST = 3
LOOKS, MAKES = "bob", "alice"


@dataclasses.dataclass(frozen=True)
class Look:
    """A command, and what it must show of the cause."""

    line: str
    shows: list[str]


@dataclasses.dataclass(frozen=True)
class Incident:
    what: str
    consumer: str
    make: Callable[[Ledger], None]
    looks: list[Look]
    # An operator's commands.
    mend: list[str]
    # What follows, and what it is.
    again: Callable[[Ledger], None]
    then: str
    # The look that shows the end of the incident, what it shows then, and what it does not show any more.
    over: tuple[int, str, str]


# A producer sends a version of its event that its consumer cannot read.

INVOICES = [f"order-{number}" for number in range(1, 121)]
CANNOT = "invoice.paid v7: the field `currency` is missing, though its schema says required"


def payload_bug(ledger):
    ledger.all_done("invoices", [f"old-{number}" for number in range(30)], "invoices-7f/1")
    for _ in range(2):
        ledger.all_fail("invoices", INVOICES, "invoices-7f/1", lambda message: f"{CANNOT}\n  while {message} was read, line 12")


# A worker hangs, with messages under a long lease.

LABELS = ["label-1", "label-2", "label-3"]


def holder_hangs(ledger):
    for message in LABELS:
        ledger.token("shipping-labels", message, "labels-5c8d/2")
    ledger.all_done("shipping-labels", ["label-4", "label-5"], "labels-5c8d/1")
    ledger.passes(8 * MINUTES)
    verdict = ledger.claim("shipping-labels", LABELS[0], "labels-5c8d/1").WhichOneof("verdict")
    assert verdict == "in_progress", verdict


# An operator stops consumers, and forgets them.

def forgotten_hold(ledger):
    typed(ledger, MAKES, 'policy hold --prefix stock- --reason "the stock database is migrated, ticket 4711" --yes')
    ledger.passes(20 * MINUTES)
    ledger.refused("stock-levels", "order-1", "CONSUMER_DISABLED")


def changed_policy(ledger):
    typed(ledger, LOOKS, 'policy set fraud-checks --lease 2m --reason "scores take a minute"')
    ledger.done("fraud-checks", "order-1", "fraud-1")
    typed(ledger, MAKES, 'policy set fraud-checks --disabled --reason "the scoring service answers 503"')
    ledger.passes(20 * MINUTES)
    ledger.refused("fraud-checks", "order-2", "CONSUMER_DISABLED")


# The ledger is down for longer than the leases of holders that go on working.

PAYMENTS = ["order-1", "order-2", "order-3"]


def outage(ledger):
    tokens = {message: ledger.token("payments", message, "payments-a/1") for message in PAYMENTS}
    with ledger.lock:
        ledger.killed()
        ledger.passes(20 * MINUTES)
        ledger.start()
    ledger.all_done("payments", PAYMENTS, "payments-b/1")
    for message, token in tokens.items():
        try:
            ledger.complete("payments", message, token)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.ABORTED, error
        else:
            raise AssertionError(f"the first holder of {message} was not refused")


def retention_is_over(ledger):
    ledger.passes(8 * DAYS)


# The workers of an inbox are gone, some of them with messages.

MAILS = [f"mail-{number}" for number in range(1, 61)]


def workers_gone(ledger):
    typed(ledger, MAKES, 'policy set newsletter --inbox --lease 1m --reason "the mail server is slow"')
    for message in MAILS:
        stored = pb.StoreRequest(key=key("newsletter", message), message=pb.Message(payload=b"Dear reader", content_type="text/plain"))
        ledger.calls("Store", stored)
    for handed in ledger.claim_next("newsletter", "newsletter-6b/1", 20):
        ledger.complete("newsletter", handed.key.id, handed.acquired.token)
    assert len(ledger.claim_next("newsletter", "newsletter-6b/1", 5)) == 5
    ledger.passes(20 * MINUTES)


def workers_run(ledger):
    while handed := ledger.claim_next("newsletter", "newsletter-6c/1", 20):
        for one in handed:
            ledger.complete("newsletter", one.key.id, one.acquired.token)


INCIDENTS = [
    Incident(
        "a producer's payload bug parks 120 messages", "invoices", payload_bug,
        [Look("entries summary", ["entries are parked: invoices 120, refunds 1 entries list --state PARKED --group-by error"]),
         Look("entries list --state PARKED --group-by error", ["120 invoices PARKED ATTEMPTS_EXHAUSTED", CANNOT,
                                                               "entries list --consumer invoices --state PARKED"])],
        ['entries redrive --consumer invoices --state PARKED --error-contains currency --reason "the consumer reads v7" --yes'],
        lambda ledger: ledger.all_done("invoices", INVOICES, "invoices-80/1"), "the dead letters are delivered again",
        (1, "1 refunds PARKED", "invoices")),
    Incident(
        "a worker hangs with messages under a lease of 15 min", "shipping-labels", holder_hangs,
        [Look("entries summary", ["claims are held on messages that are up to 8m old: shipping-labels 3 entries list --state IN_PROGRESS --older-than 5m"]),
         Look("entries list --state IN_PROGRESS --older-than 5m",
              ["entries get shipping-labels shop label-1", "label-1", "label-2", "label-3", "labels-5c8d/2"]),
         Look("entries get shipping-labels shop label-1",
              ["held by labels-5c8d/2 since 8m, last renewed never, lease ends in ", "if its holder is gone",
               "entries redrive shipping-labels shop label-1 --force --reason WHY"])],
        [f'entries redrive shipping-labels shop {message} --force --reason "labels-5c8d/2 hangs, and was killed" --yes'
         for message in LABELS],
        lambda ledger: ledger.all_done("shipping-labels", LABELS, "labels-5c8d/1"), "the messages are delivered again",
        (1, "no entry matches", "label-1")),
    Incident(
        "an operator's hold was forgotten", "stock-levels", forgotten_hold,
        [Look("entries summary", ["no new grants: stock-* (held) (policy holds)", "stock-levels held: no new grants"]),
         Look("policy holds", ["stock-* 20m ago token:alice the stock database is migrated, ticket 4711",
                               "policy resume --prefix stock- --reason WHY"])],
        ['policy resume --prefix stock- --reason "migrated" --yes'],
        lambda ledger: ledger.done("stock-levels", "order-1", "stock-1"), "the next claim is granted",
        (1, "no consumer is held", "stock-")),
    Incident(
        "a changed policy stops a consumer", "fraud-checks", changed_policy,
        [Look("entries summary", ["no new grants: fraud-checks (disabled) (policy history fraud-checks)"]),
         Look("policy history fraud-checks", ["version 2,", "token:alice: the scoring service answers 503", "disabled: false → true"]),
         Look("audit list --consumer fraud-checks",
              ["token:alice SET_POLICY fraud-checks - disabled false → true reason: the scoring service answers 503"])],
        ['policy set fraud-checks --disabled false --reason "it answers again"'],
        lambda ledger: ledger.done("fraud-checks", "order-2", "fraud-1"), "the next claim is granted",
        (0, "fraud-checks", "(disabled)")),
    Incident(
        "after an outage two holders have completed a message", "payments", outage,
        [Look("entries summary", ["3 effects may have happened twice: payments 3 (entries list --doubled)"]),
         Look("entries list --doubled", ["COMPLETED (doubled) - 2 payments order-1", "order-2", "order-3"]),
         Look("entries get payments shop order-1",
              ["effect doubled: two holders have reported it as done", "owner payments-b/1",
               "EXPIRY, reported done later payments-a/1", "policy set payments --lease TIME"])],
        ['policy set payments --lease 15m --reason "outages take minutes"'],
        retention_is_over, "the entries are forgotten with their retention",
        (1, "no entry matches", "payments")),
    Incident(
        "the workers of an inbox are gone", "newsletter", workers_gone,
        [Look("entries summary", ["stored messages wait, the oldest has been due for 20m: newsletter 40 entries next newsletter",
                                  "5 claims are expired, the longest for 1", "newsletter 5 entries list --expired"]),
         Look("entries next newsletter", ["newsletter: 40 stored messages are due, the oldest for 20m; 0 are handed out later",
                                          "LAST ERROR 20m 0 no RECEIVED mail-26", "start workers of this consumer",
                                          "entries message newsletter shop mail-26 --reason WHY"]),
         Look("entries list --expired", ["IN_PROGRESS (expired) - newsletter mail-21 20m newsletter-6b/1"])],
        [],
        workers_run, "workers are started",
        (1, "no message is due", "start workers")),
]


def typed(ledger, operator, line):
    screen = ledger.types(operator, line)
    assert screen.code == 0, f"{line}: exit code {screen.code}: {screen.text}"
    return screen


def is_named(line, consumer, screens):
    """Whether a screen before this command, or the runbooks, name it: as a whole, or its name and each word that it looks for."""
    texts = [RUNBOOKS, *(screen.words() for screen in screens)]
    if any(shape in text for text in texts for shape in (line, line.replace(consumer, "CONSUMER"))):
        return True
    words = shlex.split(line)
    name, wanted = " ".join(words[:2]), [word for word in words[2:] if word != "shop"]
    shown = " ".join(screen.words() for screen in screens)
    return any(name in text for text in texts) and all(word in shown for word in wanted)


def found(ledger, incident):
    """Looks for the cause. Returns the problems."""
    problems, screens = [], []
    for look in incident.looks:
        screen = ledger.types(LOOKS, look.line)
        where = f"{incident.what}: {look.line}"
        missing = [text for text in look.shows if text not in screen.words()]
        if screen.code or missing or screen.too_wide():
            problems.append(f"{where}: exit code {screen.code}, does not show {missing}, too wide: {screen.too_wide()}:\n{screen.text}")
        if screens and not is_named(look.line, incident.consumer, screens):
            problems.append(f"{where}: no screen before it and no runbook names this command")
        screens.append(screen)
    if len(screens) > MOST:
        problems.append(f"{incident.what}: {len(screens)} commands, {MOST} at most")
    for line in incident.mend:
        name = " ".join(line.split()[:2])
        if not any(name in text for text in (RUNBOOKS, *(screen.words() for screen in screens))):
            problems.append(f"{incident.what}: no screen and no runbook names the mend: {line}")
    return problems


def is_over(ledger, incident):
    place, shows, gone = incident.over
    line, last = incident.looks[place].line, []

    def seen():
        last[:] = [ledger.types(LOOKS, line)]
        return shows in last[0].words() and gone not in last[0].words()

    try:
        wait_for("the incident is over", seen)
    except AssertionError:
        return [f"{incident.what}: after the mend `{line}` must show {shows!r} and not {gone!r}:\n{last[0].text}"]
    return []


def happens(ledger, traffic, incident):
    """Makes, finds and mends it. Returns the problems, and its row of the table."""
    began = time.monotonic()
    with traffic.during(incident.consumer):
        incident.make(ledger)
        problems = found(ledger, incident)
        for line in incident.mend:
            typed(ledger, LOOKS, line)
        incident.again(ledger)
        problems += is_over(ledger, incident)
    looks = [look.line for look in incident.looks]
    mends = [*(line.partition(" --reason")[0] for line in incident.mend), incident.then]
    return problems, [incident.what, str(len(looks)), looks, mends, f"{time.monotonic() - began:.1f} s"]


def printed(rows):
    width = max(len(row[0]) for row in rows)
    print(f"{'incident':{width}}  found in  took   commands; mend")
    for what, number, looks, mends, took in rows:
        lines = [*looks, *(f"mend: {mend}" for mend in mends)]
        print(f"{what:{width}}  {number:8}  {took:5}  {lines[0]}")
        for line in lines[1:]:
            print(" " * (width + 19) + line)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    arguments.add_argument("--show", action="store_true", help="print the screens")
    options = arguments.parse_args()
    if os.environ.get("LEDGER_TEST_NO_TERMINALS"):
        print("NOT CHECKED: the incidents (this machine has no pseudo-terminals)")
        return
    problems, rows = [], []
    with Running() as running:
        ledger = Ledger(running, options.binary, options.show)
        # Older than the incidents, and without a part in them.
        parks = pb.FailRequest(key=key("refunds", "order-0"), kind=pb.FAILURE_KIND_PARK, error="the card has expired")
        parks.token = ledger.token("refunds", "order-0", "refunds-1")
        ledger.calls("Fail", parks)
        with Traffic(ledger) as traffic:
            for incident in INCIDENTS:
                wrong, row = happens(ledger, traffic, incident)
                problems += wrong
                rows.append(row)
        problems += traffic.problems
        done = traffic.rounds
    for problem in problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    printed(rows)
    print(f"{len(rows)} incidents, each found in {MOST} commands at most; the other eight consumers had {done} rounds of messages; "
          + ("nothing is wrong" if not problems else f"{len(problems)} problems"))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
