"""A small broker: a table of deliveries that come again until they are acknowledged.

Whoever takes a delivery has it for `visible` seconds; then somebody else gets it, and the late answer of the first one
counts for nothing. At most `unacked` of them are out at a time.
"""

import heapq
import itertools
import time


class Broker:
    def __init__(self, visible, unacked):
        self.visible, self.unacked = visible, unacked
        self.ready = []  # (due, number, copy)
        self.out = {}  # receipt: (until, copy)
        self.receipts = itertools.count(1)
        self.numbers = itertools.count()
        self.published = self.delivered = self.acknowledged = 0

    def publish(self, copy):
        self.published += 1
        self._put(copy, 0)

    def _put(self, copy, wait):
        heapq.heappush(self.ready, (time.monotonic() + wait, next(self.numbers), copy))

    def take(self):
        """A receipt and a copy, or nothing where none is due or too many are out."""
        now = time.monotonic()
        for receipt in [one for one, (until, _) in self.out.items() if until <= now]:
            self._put(self.out.pop(receipt)[1], 0)
        if not self.ready or self.ready[0][0] > now or len(self.out) >= self.unacked:
            return None
        receipt, copy = next(self.receipts), heapq.heappop(self.ready)[2]
        self.out[receipt] = (now + self.visible, copy)
        self.delivered += 1
        return receipt, copy

    def ack(self, receipt):
        """Whether it counted."""
        done = self.out.pop(receipt, None)
        self.acknowledged += done is not None
        return done is not None

    def nak(self, receipt, wait):
        late = self.out.pop(receipt, None)
        if late:
            self._put(late[1], wait)
