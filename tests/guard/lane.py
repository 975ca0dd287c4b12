"""One database, and consumers beside it, with the guard or without: what happens to them, and what came of it."""

import collections
import contextlib
import json
import os
import signal
import time

from broker import Broker
from databases import Database
from plan import COPIES, EXPIRED, HARMS, PURGE, STOP, plan

LEASE, HOLD = 1.0, 3.0  # seconds, as the policy has them
VISIBLE = 2.0  # seconds until the broker delivers again
DELETABLE = 65  # seconds after the last grant: an operator may delete the entry then, safely after a minute
WORKERS = 3  # that do not stand still
AHEAD = 12  # deliveries that are due or out, at most, when more messages are published


class Worker:
    """A process of the consumer, and the delivery that it has."""

    def __init__(self, lane):
        arguments = ["--database", lane.url, "--ledger", lane.ledger, "--consumer", lane.consumer]
        self.pid, self.input, self.output = lane.nursery.start(arguments + ([] if lane.guarded else ["--unguarded"]))
        os.set_blocking(self.output.fileno(), False)
        self.read = b""
        self.receipt = self.message = self.harm = self.wake = self.kill_at = None
        self.stopped = self.doomed = False

    def send(self, event):
        self.input.write(json.dumps(event).encode() + b"\n")

    def signal(self, which):
        """Only before its end was read: after that another process may have its id."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, which)

    def lines(self):
        """The lines since the last time; None at the end where the process has ended."""
        while more := self.output.read(65536):
            self.read += more
        *lines, self.read = self.read.split(b"\n")
        return [line.decode() for line in lines] + ([None] if more == b"" else [])

    def close(self):
        self.input.close()
        self.output.close()


class Lane:
    def __init__(self, place, guarded, ledger, operator, size, seed, selector, nursery):
        self.place, self.guarded, self.ledger, self.operator = place, guarded, ledger, operator
        self.url = place.make("guarded" if guarded else "plain")
        self.consumer = f"{place.name}-{'guarded' if guarded else 'plain'}"
        # The same harms with the guard and without.
        self.messages, self.chance = plan(place.name, size, seed)
        self.waiting = collections.deque(self.messages)  # not published yet
        self.due = collections.deque()  # (when, message, what the operator does) before its next copy
        self.broker = Broker(VISIBLE, unacked=4 * WORKERS)
        self.selector, self.nursery = selector, nursery
        self.workers, self.problems, self.seen = [], [], collections.Counter()
        self.database = Database(self.url)
        if place.name == "sqlite":
            self.database.execute("PRAGMA busy_timeout = 10")  # the suite waits for nobody

    # -- what the consumers are given, and what they answer

    def step(self):
        while len([one for one in self.workers if not one.stopped]) < WORKERS and not self.is_done():
            self.add()
        now = time.monotonic()
        for worker in self.workers:
            if worker.kill_at and now >= worker.kill_at:
                worker.kill_at = None
                self.strike(worker)
                worker.signal(signal.SIGKILL)
            if worker.stopped and self.may_wake(worker, now):
                worker.stopped = False
                worker.signal(signal.SIGCONT)
        self.operate()
        while self.waiting and len(self.broker.ready) + len(self.broker.out) < AHEAD:
            message = self.waiting.popleft()
            for _ in range(1 if message.between else COPIES):
                self.broker.publish(message)
        for worker in self.workers:
            if worker.message is None and not worker.stopped and (taken := self.broker.take()):
                self.hand_out(worker, *taken)

    def add(self):
        worker = Worker(self)
        self.workers.append(worker)
        self.selector.register(worker.output, 1, (self, worker))

    def hand_out(self, worker, receipt, message):
        worker.receipt, worker.message = receipt, message
        worker.harm, message.harm = message.harm, None
        event = {"source": "shop", "id": message.id, "data": {"amount": 42}}
        if worker.harm:
            at, hit = HARMS[worker.harm]
            if at:
                event["fault"] = {"at": at, "signal": hit}
            else:
                worker.kill_at = time.monotonic() + self.chance.uniform(0, 0.02)
        try:
            worker.send(event)
        except BrokenPipeError:
            pass  # it has just died; its end is read

    def strike(self, worker):
        """The harm that was planned has come about."""
        self.seen[worker.harm] += 1
        worker.doomed, worker.harm = True, None

    def idle(self, worker):
        """It has answered. What did not come about is for the next delivery."""
        worker.message.harm = worker.message.harm or worker.harm
        worker.message = worker.harm = worker.kill_at = None

    def heard(self, worker):
        for line in worker.lines():
            word, _, rest = (line or "").partition(" ")
            if line is None:
                self.ended(worker)
            elif word == "HIT":
                self.hit(worker)
            elif word == "ACK":
                if self.broker.ack(worker.receipt):
                    self.acknowledged(worker.message)
                self.idle(worker)
            elif word == "RETRY_LATER":
                self.seen["told to wait"] += 1
                self.broker.nak(worker.receipt, float(rest))
                self.idle(worker)
            else:
                self.problems.append(f"{worker.message.id} was answered {line}")
                self.broker.ack(worker.receipt)
                self.idle(worker)

    def hit(self, worker):
        message, harm = worker.message, worker.harm
        self.strike(worker)
        if HARMS[harm][1] != STOP:
            return
        worker.doomed, worker.stopped = False, True
        lasts = self.chance.uniform(1.3, 2.3) * LEASE if harm != EXPIRED else HOLD + 0.5
        worker.wake = (time.monotonic() + lasts, harm)
        if message.redriven_amid and harm != EXPIRED:
            self.due.append((0, message, "redriven amid"))

    def may_wake(self, worker, now):
        at, harm = worker.wake
        if now < at:
            return False
        if harm != EXPIRED:
            return True
        if worker.message.left:
            return False
        # Nobody will deliver it again, and its hold is over: its row may go. It is older than the longest pause here,
        # which is that of a process on its way from its look at the clock to the database.
        if self.guarded:
            try:
                self.database.execute("DELETE FROM effect_guard WHERE id = ?", worker.message.id)
            except self.database.Error:
                return False  # somebody who stands still has the only lock
            worker.message.deleted = True
        return True

    def ended(self, worker):
        self.selector.unregister(worker.output)
        self.workers.remove(worker)
        worker.close()
        if not worker.doomed:
            self.problems.append("a consumer ended by itself")

    # -- what operators do

    def acknowledged(self, message):
        message.left -= 1
        if message.between:
            what = message.between.pop()
            waits = DELETABLE if what == PURGE and message.purged_late else 0
            self.due.append((time.monotonic() + waits, message, what))

    def operate(self):
        """What cannot be done now, since the ledger is away, is done later."""
        for _ in range(len(self.due)):
            at, message, what = self.due.popleft()
            if at <= time.monotonic() and self.operator.does(what, self.consumer, message.id):
                self.seen[what] += 1
                if what != "redriven amid":
                    self.broker.publish(message)
            else:
                self.due.append((at, message, what))

    # -- the end

    def is_done(self):
        return (not self.waiting and not self.due and self.broker.acknowledged == self.broker.published
                and not any(one.stopped or one.message for one in self.workers))

    def stop(self):
        for worker in self.workers:
            self.selector.unregister(worker.output)
            worker.signal(signal.SIGKILL)
            worker.close()
        self.workers = []

    def effects(self):
        """The receipts of each message's effects."""
        receipts = collections.defaultdict(list)
        for receipt, name in self.database.execute("SELECT receipt, id FROM payments").fetchall():
            receipts[name].append(receipt.encode())
        return receipts

    def judge(self, results):
        """What is wrong, by the ledger's result of each message, which with the guard is nothing; and how many effects
        each message had."""
        receipts, wrong = self.effects(), list(self.problems)
        rows = dict(self.database.execute("SELECT id, result FROM effect_guard").fetchall())
        rows = {key if isinstance(key, str) else key.decode(): bytes(result or b"none") for key, result in rows.items()}
        for message in self.messages:
            had = receipts[message.id]
            if len(had) != 1:
                wrong.append(f"{message.id} has {len(had)} effects")
            elif results[message.id] != had[0]:
                wrong.append(f"{message.id}: its result is {results[message.id]}, its effect was {had[0]}")
            elif message.deleted != (message.id not in rows) or not message.deleted and rows[message.id] != had[0]:
                wrong.append(f"{message.id}: its guard row has {rows.get(message.id)}, its effect was {had[0]}")
        return wrong, {message.id: len(receipts[message.id]) for message in self.messages}
