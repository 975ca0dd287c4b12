"""Consumers of one group are replaced one after the other under a steady stream of messages, as a deployment does: no message waits
longer than the lease, no claim is left to run out its lease, and a consumer that is asked to stop ends within its bound.

What a consumer leaves behind is taken over only after `LOST` seconds, whether it is a claim, a message or a partition: that is longer
than everything else that a restart costs, so that it is noticed on a slow machine as well. What the machine costs is measured first: how
long messages wait without restarts, and how long a process needs until it processes.
"""

from __future__ import annotations

import itertools
import re
import signal
import sqlite3
import threading
import time
from typing import Any

from faults import BOUND, FINAL, PATIENCE, Run
from running import wait_for

import grpc
from idempotency_ledger._proto import admin_pb2

LEASE = 15  # seconds
LOST = 4 * LEASE  # seconds until a claim, a message or a partition is taken over that its process has left behind
POLICIES = f"""
[policy]
lease = "{LEASE}s"
reclaim_grace = "{LOST - LEASE}s"
max_attempts = 20
backoff = {{ initial = "100ms", max = "500ms" }}
"""
BATCH = 4  # messages that are published at the same time: one for each partition of a topic
EVERY = 0.1  # seconds between two batches
MOST = 16  # messages that wait or run at the same time: a slow machine gets fewer in a second, and they do not wait in a backlog
# One message of this number takes so many milliseconds: some run whenever a consumer stops or a group divides its partitions.
SLOW, LONG = 5, 1000
CALM, CALM_EFFECTS = 3, 40  # seconds and effects without a restart: how long messages wait on this machine in any case
ROUND = 200  # messages of the stream, at least, for a round: in each of them every consumer is replaced once
SERVES = 120  # seconds until a new consumer has processed a message
FOREVER = float("inf")
HEARS = 1.5  # seconds until the members of a group hear that it rebalances
# Clients that send their leave on the connection on which their join waits for an answer: a group that rebalances hears of it too late,
# and waits for the end of the session, as messages do then. The consumer in Rust is an example; its package has no adapter.
LEAVES_LATE = {"rust"}
LOOK = 0.02  # seconds between two looks at the sinks
PAGE, NEWEST = 1000, 100


class Stream:
    """Publishes messages until it is ended, and notes when each could first be delivered, and when it had its effect."""

    def __init__(self, run: Rolling) -> None:
        self.run = run
        self.published: dict[str, float] = {}
        self.effects: dict[str, float] = {}
        self.failed: list[Exception] = []
        self.bound = FOREVER  # seconds that a message may wait
        self._enough, self._over = threading.Event(), threading.Event()
        self.threads = [threading.Thread(target=self._guarded, args=(each,)) for each in (self._publish, self._look)]
        for thread in self.threads:
            thread.start()

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as error:  # Reported by `check`, in the thread of the run.
            self.failed.append(error)

    def check(self) -> None:
        if self.failed:
            raise AssertionError(f"the stream of messages has failed: {self.failed[0]!r}") from self.failed[0]
        now = time.monotonic()
        waited, id = max(((self.effects.get(id, now) - at, id) for id, at in list(self.published.items())), default=(0.0, ""))
        if waited > self.bound:
            raise AssertionError(self.run.late(waited, id))

    def _publish(self) -> None:
        numbers = itertools.count()
        while not self._enough.wait(EVERY):
            if len(self.published) - len(self.effects) > MOST - BATCH:
                continue
            events = [{"specversion": "1.0", "id": f"order-{number}", "source": "shop", "type": "payment",
                       "takes": LONG if number % SLOW == SLOW // 2 else 0} for number in itertools.islice(numbers, BATCH)]
            self.run.broker.publish(events)
            now = time.monotonic()
            self.published.update((event["id"], now) for event in events)

    def _look(self) -> None:
        database, last = sqlite3.connect(self.run.running.path / "sinks.db", timeout=10), 0
        while not self._over.wait(LOOK):
            rows = database.execute("SELECT rowid, id FROM fenced WHERE rowid > ? ORDER BY rowid", (last,)).fetchall()
            now = time.monotonic()
            for last, id in rows:
                self.effects.setdefault(id, now)
        database.close()

    def enough(self) -> None:
        """Publishes no more."""
        self._enough.set()
        self.threads[0].join()
        self.check()

    def end(self) -> None:
        self._enough.set()
        self._over.set()
        for thread in self.threads:
            thread.join()

    def waits(self, since: float, until: float) -> list[tuple[float, str]]:
        """How long each message waited that was published at `since` or later, and had its effect until `until`."""
        return [(at - self.published[id], id) for id, at in list(self.effects.items())
                if self.published.get(id, 0) >= since and at <= until]


class Rolling(Run):
    """Consumers in one language that are replaced one after the other."""

    name = "rolling"
    policies = POLICIES
    wait = float(LOST)
    stop_within = BOUND + 5.0  # The process itself counts the grace, and ends with another code after it.
    header = (f"{'broker':<10} {'language':<18} {'':<7} {'messages':>8} {'restarts':>8} {'start':>8} {'calm wait':>9} {'longest wait':>12} "
              f"{'longest stop':>12} {'expired':>7}")

    def __init__(self, *arguments: Any) -> None:
        self.start = self.calm = self.longest = 0.0
        self.expired: list[str] = []
        self.messages = self.replaced = 0
        super().__init__(*arguments)

    def play(self, size: int) -> dict[str, str]:
        stream = Stream(self)
        try:
            return self.roll(stream, size)
        finally:
            stream.end()
            self.messages = len(stream.published)

    def roll(self, stream: Stream, size: int) -> dict[str, str]:
        started = time.monotonic()
        for worker in self.workers:
            self.serves(worker.pid, stream)
        began = time.monotonic()
        # A new process takes messages before it is warm.
        self.start = began - started

        def measured() -> bool:
            stream.check()
            return time.monotonic() > began + CALM and len(stream.waits(began, FOREVER)) >= CALM_EFFECTS

        wait_for("messages have effects before the first restart", measured, seconds=PATIENCE)
        rolling = time.monotonic()
        self.calm = max(stream.waits(began, rolling))[0]
        stream.bound = LEASE + self.calm + self.start
        for _ in range(max(1, size // ROUND)):
            for place in range(len(self.workers)):
                self.stop(self.workers[place])
                self.workers[place] = self.worker(place)
                self.serves(self.workers[place].pid, stream)
                self.replaced += 1
        if self.broker.divides:
            stream.bound += LOST if LEAVES_LATE & {each.language for each in self.consumers} else 0
            self.stop_amid_rebalance(stream)
        wait_for("the stream is long enough", lambda: len(stream.published) >= size, seconds=PATIENCE + size / 10)
        stream.enough()
        messages = dict.fromkeys(stream.published, "payment")
        left, changed = len(messages), time.monotonic()
        while (now := len(messages.keys() - stream.effects.keys())) > 0:
            changed, left = (time.monotonic(), now) if now < left else (changed, left)
            waiting = sorted(messages.keys() - stream.effects.keys())[:10]
            assert time.monotonic() < changed + PATIENCE, f"{left} messages have no effect, among them {waiting}: {self.said()}"
            time.sleep(0.1)
            stream.check()
        wait_for("the ledger has each message as completed", lambda: not self.unfinished(messages), seconds=2 * LOST, every=0.5)
        self.end()
        self.longest = max(stream.waits(began, FOREVER))[0]
        return messages

    def stop_amid_rebalance(self, stream: Stream) -> None:
        """Replaces a consumer while its group waits for another one, which stands still: neither a commit nor a leave is answered then."""
        still, before = self.workers[0], self.broker.began()
        still.send_signal(signal.SIGSTOP)
        try:
            joining = self.worker(1)
            # The new process may be ready only when the group has agreed, as the bridge is.
            wait_for("the group rebalances for a new consumer", lambda: self.broker.began() > before, seconds=PATIENCE)
            time.sleep(HEARS)
            self.stop(self.workers[1])
            self.workers[1] = joining
        finally:
            still.send_signal(signal.SIGCONT)
        self.serves(joining.pid, stream)
        self.replaced += 1

    def late(self, waited: float, id: str) -> str:
        """What is known of a message that has waited for too long."""
        self.longest = waited
        try:
            entry = self.entry(id)
            known = f"{entry.attempts} attempts, the last one by {entry.owner}"
        except grpc.RpcError:
            known = "no claim"
        return (f"{id} has waited for {waited:.1f} s, after {self.replaced} restarts; at most the lease, the start of a process and the "
                f"wait without restarts are allowed. The ledger knows {known}: {self.said()}")

    def entries(self, newest: int | None = None) -> list[admin_pb2.Entry]:
        """All entries, or the newest ones."""
        found, token = [], ""
        order = admin_pb2.ENTRY_ORDER_NEWEST_FIRST if newest else admin_pb2.ENTRY_ORDER_OLDEST_FIRST
        while True:
            page = self.admin.ListEntries(admin_pb2.ListEntriesRequest(
                filter=admin_pb2.EntryFilter(consumer="payments"), order=order, page_size=newest or PAGE, page_token=token), timeout=60)
            found += page.entries
            token = page.next_page_token
            if newest or not token:
                return found

    def serves(self, pid: int, stream: Stream) -> None:
        """Waits until a consumer has processed a message: a deployment goes on once the new process is ready."""
        def processed() -> bool:
            stream.check()
            return any(re.search(rf"\b{pid}$", entry.owner) for entry in self.entries(NEWEST))

        try:
            wait_for("a new consumer processes messages", processed, seconds=SERVES, every=0.2)
        except AssertionError as error:
            done = f"{len(stream.effects)} of {len(stream.published)} messages have effects"
            raise AssertionError(f"{error}, and {done}: {self.said()}") from error

    def unfinished(self, messages: dict[str, str]) -> list[str]:
        states = {entry.key.id: entry.state for entry in self.entries()}
        return [id for id, kind in messages.items() if states.get(id) != FINAL[kind]]

    def letters(self, messages: dict[str, str]) -> set[str | None]:
        return set()

    def wrong(self, messages: dict[str, str]) -> list[str]:
        found = super().wrong(messages)
        repeated = sorted(id for id, count in self.counts("plain").items() if count > 1)
        found += [f"effects have begun more than once: {repeated[:10]}"] if repeated else []
        for entry in self.entries():
            closed = [attempt.outcome for attempt in entry.history]
            if admin_pb2.CLOSED_BY_EXPIRY in (*closed, entry.closed_by) or entry.effect_unknown or entry.expired:
                self.expired.append(entry.key.id)
        found += [f"claims were left to run out their leases: {self.expired[:10]}"] if self.expired else []
        return found

    def unjudged(self) -> str:
        missing = "NO_ANSWER" in self.running.log("consumer")
        return "the ledger has not answered a call in time, and a claim may have been left to run out" if missing else ""

    def report(self, size: int) -> str:
        return (f"{self.messages:>8} {self.replaced:>8} {self.start:>6.1f} s {self.calm:>7.1f} s {self.longest:>10.1f} s "
                f"{self.slowest:>10.1f} s {len(self.expired):>7}")
