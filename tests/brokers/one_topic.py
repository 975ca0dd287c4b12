"""One topic, queue or stream with consumers in several languages, all in one group: each effect happens once.

A message that a consumer of one language has begun is finished, repeated or dead-lettered by a consumer of another one: all must
give it the same key and fingerprint, commit no offset past a hole, and agree on who has which partition.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import Any, Iterator

from faults import FINAL, Run
from languages import Consumer
from running import wait_for

from idempotency_ledger._proto import admin_pb2

# A poisonous message holds up its partition until its attempts are used up.
POLICIES = """
[policy]
lease = "3s"
reclaim_grace = "200ms"
max_attempts = 8
backoff = { initial = "100ms", max = "500ms" }
"""
ROUNDS = 50  # at most; in each of them a consumer of each language is killed
EACH = 200  # messages of a round; more in the largest runs
LARGE = 1000  # messages; from there on each language has two consumers
STILL = 3.5  # seconds: longer than lease and grace
REBALANCE = 20  # seconds between two forced rebalances; a small run ends sooner
REBALANCE_SMALL = 4
PATIENCE = 120  # seconds without progress
PAGE = 1000


class OneTopic(Run):
    """One broker with consumers of several languages."""

    name = "one topic"
    policies = POLICIES
    wait = 3.0
    shares = 24

    def __init__(self, *arguments: Any) -> None:
        self.languages: dict[int, str] = {}
        self.killed: Counter[str] = Counter()
        self.settled: Counter[str] = Counter()
        self.forced = 0
        super().__init__(*arguments)

    @classmethod
    def places(cls, consumers: list[Consumer], size: int) -> list[Consumer]:
        return consumers * (2 if size >= LARGE else 1)

    def worker(self, place: int) -> subprocess.Popen:
        started = super().worker(place)
        self.languages[started.pid] = self.consumers[place].language
        return started

    def kill(self, place: int) -> None:
        super().kill(place)
        self.killed[self.consumers[place].language] += 1

    def play(self, size: int) -> dict[str, str]:
        messages = {f"order-{number}": "payment" for number in range(size)}
        messages.update({f"poison-{number}": "poison" for number in range(max(2, size // 100))})
        events = self.events(messages, size // 5)
        for worker in self.workers:
            self.consumes(worker)
        rounds = max(1, min(ROUNDS, size // EACH))
        sent: set[str] = set()
        with self.rebalancing(REBALANCE if size >= LARGE else REBALANCE_SMALL):
            for number in range(rounds):
                portion = events[number::rounds]
                begun = self.begun()
                self.broker.publish(portion)
                sent.update(event["id"] for event in portion if event.get("id") and event["type"] == "payment")
                wait_for("an effect begins", lambda: self.begun() > begun, seconds=PATIENCE, every=0.02)
                self.round()
                # There is always something left to do when the next round begins.
                self.progress(lambda: len(sent) * 4 // 5 - self.effects())
        # Without forced rebalances: on a slow machine they would leave no time to process in between.
        self.progress(lambda: size - self.effects())
        self.progress(lambda: len(self.unfinished(messages)))
        self.end()
        return messages

    def round(self) -> None:
        """Kills a consumer of each language, while another consumer stands still for longer than its lease."""
        quiet = self.dice.randrange(len(self.workers))
        still = self.workers[quiet]
        still.send_signal(signal.SIGSTOP)
        until = time.monotonic() + STILL
        languages = sorted({each.language for each in self.consumers} - {self.consumers[quiet].language})
        self.dice.shuffle(languages)
        for language in languages:
            time.sleep(self.dice.uniform(0, 0.3))
            self.kill(self.dice.choice(self.of(language)))
        time.sleep(max(0, until - time.monotonic()))
        still.send_signal(signal.SIGCONT)
        self.pauses += 1
        self.kill(self.dice.choice(self.of(self.consumers[quiet].language)))

    def of(self, language: str) -> list[int]:
        """The places of the consumers of a language."""
        return [place for place, each in enumerate(self.consumers) if each.language == language]

    @contextlib.contextmanager
    def rebalancing(self, every: float) -> Iterator[None]:
        """Forces a rebalance at intervals, while the block runs."""
        over, failed = threading.Event(), []

        def force() -> None:
            try:
                while self.broker.divides and not over.wait(every):
                    self.broker.rebalance()
                    self.forced += 1
            except AssertionError as error:
                failed.append(error)

        thread = threading.Thread(target=force)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if failed:
            raise failed[0]

    def progress(self, left: Any) -> None:
        """Waits until nothing is left, as long as that becomes less."""
        least, changed = left(), time.monotonic()
        while (now := left()) > 0:
            if now < least:
                least, changed = now, time.monotonic()
            assert time.monotonic() < changed + PATIENCE, f"{now} messages are not finished: {self.said()}"
            for worker in self.workers:
                assert worker.poll() is None, f"a consumer ended by itself with {worker.returncode}: {self.said()}"
            time.sleep(0.5)

    def effects(self) -> int:
        """The number of messages that have had an effect behind the fence."""
        return self.sinks.database.execute("SELECT count(*) FROM fenced").fetchone()[0]

    def unfinished(self, messages: dict[str, str]) -> dict[str, str]:
        """The messages whose entry is not in its final state; notes which language has settled the others."""
        states, token = {}, ""
        self.settled.clear()
        while True:
            page = self.admin.ListEntries(admin_pb2.ListEntriesRequest(
                filter=admin_pb2.EntryFilter(consumer="payments"), page_size=PAGE, page_token=token), timeout=60)
            for entry in page.entries:
                states[entry.key.id] = entry.state
                owner = re.search(r"(\d+)$", entry.owner)
                self.settled[self.languages.get(int(owner[1]) if owner else 0, entry.owner)] += 1
            token = page.next_page_token
            if not token:
                return {id: kind for id, kind in messages.items() if states.get(id) != FINAL[kind]}

    def wrong(self, messages: dict[str, str]) -> list[str]:
        found = super().wrong(messages)
        idle = {each.language for each in self.consumers} - set(self.settled)
        return found + ([f"no message was settled by {', '.join(sorted(idle))}"] if idle else [])

    def report(self, size: int) -> str:
        def each(counts: Counter[str]) -> str:
            return ", ".join(f"{language} {counts[language]}" for language in sorted({each.language for each in self.consumers}))

        repeated = sum(count > 1 for count in self.counts("plain").values())
        rebalances = f"{self.broker.rebalances()} rebalances, {self.forced} times forced, " if self.forced else ""
        return (f"{size} messages, {size // 5} twice, {max(2, size // 100)} poison; killed {each(self.killed)}; {rebalances}"
                f"{self.pauses} pauses, {repeated} effects repeated and fenced; settled by {each(self.settled)}")
