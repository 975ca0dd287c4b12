"""What a person sees of what may go wrong: for each the metric that moves, the line of the log, and the alert.

Everything is made to happen on a real server. The metrics are those that it shows; how they moved is stretched over an
hour, since alerts wait for longer than a test, and promtool evaluates the rules over that.
"""

import json
import re
import uuid

import alerts
import scrape
from running import wait_for

import grpc
from stubs import pb

MINUTES = 60
CONFIG = """
[consumers.duplicates]
[consumers.crashes]
lease = "1s"
reclaim_grace = "0s"
on_expiry = "PARK_IF_STARTED"
[consumers.poison]
max_attempts = 2
[consumers.stale]
lease = "1s"
reclaim_grace = "0s"
[consumers.clashes]
[consumers.zombies]
lease = "1s"
reclaim_grace = "0s"
[consumers.hasty]
lease = "1s"
reclaim_grace = "0s"
[consumers.patient]
lease = "1s"
reclaim_grace = "0s"
"""


class Story:
    """A server, its log, and what happens to it; and another one, which knows who calls."""

    def __init__(self, ledger, observed, log, hop, secured):
        self.ledger, self.observed, self.log, self.hop, self.secured = ledger, observed, log, hop, secured

    def claim(self, consumer, message="1", **more):
        request = pb.ClaimRequest(key=key(consumer, message), claim_id=str(uuid.uuid4()), owner="story", **more)
        return self.ledger.Claim(request, timeout=5)

    def complete(self, consumer, token, message="1"):
        return self.ledger.Complete(pb.CompleteRequest(key=key(consumer, message), token=token), timeout=5)

    def after_the_lease(self, consumer, message="1"):
        """The answer to the first claim that finds the lease over."""
        answers = []

        def over():
            answers.append(self.claim(consumer, message))
            return answers[-1].WhichOneof("verdict") != "in_progress"

        wait_for("the lease is over", over, every=0.2)
        return answers[-1]

    # What happens.

    def duplicates(self):
        token = self.claim("duplicates").acquired.token
        self.complete("duplicates", token)
        for _ in range(9):
            assert self.claim("duplicates").WhichOneof("verdict") == "completed"

    def crash(self):
        token = self.claim("crashes").acquired.token
        self.ledger.Renew(pb.RenewRequest(key=key("crashes", "1"), token=token, effect_started=True), timeout=5)
        assert self.after_the_lease("crashes").WhichOneof("verdict") == "parked"

    def poison(self):
        for _ in range(2):
            token = self.claim("poison").acquired.token
            again = pb.FailRequest(key=key("poison", "1"), token=token, error="cannot", event_type="order.paid")
            again.retry_after.FromMilliseconds(0)
            self.ledger.Fail(again, timeout=5)

    def stale(self):
        self.claim("stale", "abandoned")
        token = self.claim("stale").acquired.token
        assert self.after_the_lease("stale").acquired.token > token

    def clash(self):
        self.claim("clashes", fingerprint=b"1" * 32)
        assert self.claim("clashes", fingerprint=b"2" * 32).WhichOneof("verdict") == "fingerprint_mismatch"

    def lost(self, consumer, token):
        try:
            self.complete(consumer, token)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.ABORTED, error
        else:
            raise AssertionError("the holder that lost its claim was not refused")

    def zombie(self):
        paused = self.claim("zombies").acquired.token
        self.complete("zombies", self.after_the_lease("zombies").acquired.token)
        self.lost("zombies", paused)

    def hasty(self):
        paused = self.claim("hasty").acquired.token
        later = self.after_the_lease("hasty").acquired.token
        self.lost("hasty", paused)
        self.complete("hasty", later)

    def patient(self):
        """Holders that repeat themselves: one that has lost its claim, and one that has the message."""
        paused = self.claim("patient", "lost").acquired.token
        self.after_the_lease("patient", "lost")
        token = self.claim("patient", "kept").acquired.token
        for _ in range(3):
            try:
                self.complete("patient", paused, "lost")
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.ABORTED, error
            self.complete("patient", token, "kept")

    def outage(self):
        self.hop.cut()
        for number in range(5):
            try:
                self.claim("duplicates", f"lost {number}")
            except grpc.RpcError:
                pass

    def end_of_outage(self):
        self.hop.mend()


def key(consumer, message):
    return pb.EntryKey(consumer=consumer, source="story", id=message)


# What happens; the metrics that tell it (name, labels, whether it grows or stands at 0 or at more), the line of the log
# (field, value, consumer), and the alert with its labels.
STORIES = [
    ("messages come again", "duplicates", [("idempotency_ledger_claims_total", {"consumer": "duplicates", "verdict": "completed"}, "grows")],
     ("event", "duplicate", "duplicates"), ("DuplicateSpike", {"consumer": "duplicates"})),
    ("a holder that had announced its effect crashes before Complete", "crash",
     [("idempotency_ledger_entries", {"consumer": "crashes", "state": "parked"}, "stands")],
     ("event", "parked", "crashes"), ("Parked", {"consumer": "crashes"})),
    ("a message fails until its attempts are used up", "poison",
     [("idempotency_ledger_attempts_failed_total", {"consumer": "poison", "event_type": "order.paid", "kind": "retryable"}, "grows"),
      ("idempotency_ledger_entries", {"consumer": "poison", "state": "parked"}, "stands")],
     ("event", "parked", "poison"), ("Parked", {"consumer": "poison"})),
    ("a holder vanishes, and another one gets its message; a second message is not claimed again", "stale",
     [("idempotency_ledger_entries_oldest_seconds", {"consumer": "stale", "kind": "expired"}, "stands")],
     ("event", "reclaimed", "stale"), ("StaleLeases", {"consumer": "stale"})),
    ("an id comes again with another payload", "clash",
     [("idempotency_ledger_claims_total", {"consumer": "clashes", "verdict": "fingerprint_mismatch"}, "grows")],
     ("event", "fingerprint_mismatch", "clashes"), ("FingerprintMismatch", {"consumer": "clashes"})),
    ("a holder wakes up after its lease, and completes what another one has completed", "zombie",
     [("idempotency_ledger_doubled_effects_total", {"consumer": "zombies"}, "grows")],
     ("event", "doubled", "zombies"), ("DoubledEffects", {"consumer": "zombies"})),
    ("a holder completes after its lease, and so does the one that has its message by then", "hasty",
     [("idempotency_ledger_doubled_effects_total", {"consumer": "hasty"}, "grows")],
     ("event", "doubled", "hasty"), ("DoubledEffects", {"consumer": "hasty"})),
    ("a holder that has lost its claim reports its effect, again and again", "patient",
     [("idempotency_ledger_settlements_total", {"consumer": "patient", "operation": "complete", "outcome": "superseded"}, "grows")],
     ("event", "lost_holder", "patient"), ("CompletesSuperseded", {"consumer": "patient"})),
    ("the store goes away", "outage", [("idempotency_ledger_store_ready", {}, "stands at 0")],
     ("message", "the store does not answer", None), ("StoreGone", {})),
    ("a token was replaced, and its holder goes on with the old one", "strangers",
     [("idempotency_ledger_refusals_total", {"reason": "UNAUTHENTICATED"}, "grows")],
     ("message", "refused: the caller is not authenticated", None), ("CallersRefused", {"reason": "UNAUTHENTICATED"})),
    ("a file of tokens is cut off while it is written", "broken_file",
     [("idempotency_ledger_credential_files_failing", {"setting": "tokens_file"}, "stands")],
     ("message", "what was read before stays in force", None), ("CredentialFilesFailing", {"setting": "tokens_file"})),
]
TITLES = "| what happens | the metric | the log | the alert |\n| --- | --- | --- | --- |\n"


def moved(before, after, how, name, labels):
    was, now = scrape.value(before, name, **labels), scrape.value(after, name, **labels)
    return {"grows": now > was, "stands": now > 0, "stands at 0": now == 0 and was > 0}[how]


def shown(metrics):
    return ", ".join(f"`{scrape.written(name, sorted(labels.items()))}` {how}" for name, labels, how in metrics)


def line_of(log, field, word, consumer):
    for line in log().splitlines():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get(field) == word and consumer in (None, told.get("consumer")):
            return told
    return None


def stretched(before, after, consumer):
    """Series for promtool, of all consumers or of one, as far as rules ask for them: counters grow within an hour from
    the one to the other, ages grow with it, gauges stand at the later value, and what was not there comes after half an
    hour."""
    lines, rules = {}, " ".join(rule["expr"] for rule in alerts.rules())
    for (name, labels), now in after.items():
        if re.search(rf"\b{name}\b", rules) and dict(labels).get("consumer", consumer) == consumer:
            counts = name.endswith(("_total", "_count", "_sum", "_bucket"))
            was = before.get((name, labels))
            half = MINUTES // 2
            if name.endswith("_oldest_seconds") and now > 0:
                # Nobody claims it within the hour, either.
                line = f"{now}+60x{MINUTES}"
            elif was is None:
                # It was not there before: Prometheus, too, sees it come with its first value.
                line = f"_x{half} {now}x{half}"
            elif counts and now > was:
                line = f"{was}+{(now - was) / MINUTES}x{MINUTES}"
            else:
                line = f"{now}x{MINUTES}"
            lines[scrape.written(name, labels)] = line
    return lines


def told(story):
    """Makes it all happen; gives the problems, and the table of the page."""
    problems, rows, tests = [], [], []
    # Duplicates are a spike of a consumer that was there before.
    story.complete("duplicates", story.claim("duplicates", "before").acquired.token, "before")
    # And so was the one whose holders repeat themselves.
    story.complete("patient", story.claim("patient", "before").acquired.token, "before")
    for what, act, metrics, (field, word, whose), (alert, alert_labels) in STORIES:
        where = story if hasattr(story, act) else story.secured
        before = scrape.series(scrape.text(where.observed))
        getattr(where, act)()
        seen = {}

        def is_seen():
            seen["after"] = scrape.series(scrape.text(where.observed))
            seen["line"] = line_of(where.log, field, word, whose)
            return all(moved(before, seen["after"], how, name, labels) for name, labels, how in metrics) and seen["line"]

        try:
            wait_for(f"{what}: {shown(metrics)}, and the log says {word}", is_seen)
        except AssertionError as error:
            problems.append(str(error))
            continue
        level = seen["line"]["level"]
        series = stretched(before, seen["after"], alert_labels.get("consumer"))
        tests.append(alerts.unit_test(alert, series, [alert_labels], at=f"{MINUTES}m"))
        rows.append(f"| {what} | {shown(metrics)} | {level}, `{field}`: {word} | "
                    f"[{alerts.PREFIX}{alert}](#{(alerts.PREFIX + alert).lower()}) |\n")
    story.end_of_outage()
    story.secured.mended_file()
    return problems + alerts.promtool(tests), TITLES + "".join(rows)
