"""What the guard does in each database, case by case: its own module, and sessions that stand in its way."""

import datetime
import threading
import time
import uuid

from places import GUARD  # noqa: F401  the way to the example
import guard
from databases import LOCK_WAIT, open_database


class NotDone(Exception):
    pass


def claim(key=None, names=("payments", "shop", "order-1"), run="", token=1, hold=60.0):
    return guard.Claim(key or str(uuid.uuid4()), run, *names, token=token, until=time.monotonic() + hold)


def pay(receipt):
    """An effect; its receipt is its result."""
    def effect(execute):
        execute("INSERT INTO payments (receipt, source, id, amount) VALUES (?, 'shop', 'order-1', 42)", receipt)
        return receipt.encode()
    return effect


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


class Checks:
    """On one database; each check has a message of its own."""

    def __init__(self, place, url):
        self.place, self.url = place, url
        self.database = open_database(url)
        self.database.open()

    def all(self):
        besides = ("all", "paid", "rows", "held", "beside")
        names = [name for name in vars(Checks) if name[0].islower() and name not in besides]
        return [(f"{self.place.name}: {name.replace('_', ' ')}", getattr(self, name)) for name in names]

    def paid(self, *receipts):
        wanted = f"SELECT count(*) FROM payments WHERE receipt IN ({', '.join('?' * len(receipts))})"
        return self.database.execute(wanted, *receipts).fetchone()[0]

    def rows(self, key):
        return self.database.execute("SELECT count(*) FROM effect_guard WHERE idempotency_key = ?", key).fetchone()[0]

    def held(self, wanted, receipt):
        """A session that had the effect, and did not commit."""
        other = open_database(self.url)
        other.open()
        other.begin()
        assert other.insert_new(guard.INSERT, *wanted.key, *wanted.names, 1)
        other.execute(guard.KEEP, pay(receipt)(other.execute), *wanted.key)
        return other

    def beside(self, wanted, *receipts):
        """Attempts in sessions and threads of their own; their results, or what they raised."""
        results = {}

        def attempt(receipt):
            database = open_database(self.url)
            try:
                results[receipt] = guard.once(database, wanted, pay(receipt)).decode()
            except guard.Undecided as error:
                results[receipt] = error
            database.close()

        threads = [threading.Thread(target=attempt, args=(receipt,)) for receipt in receipts]
        for thread in threads:
            thread.start()
        return threads, results

    def an_effect_happens_once_and_its_result_stays(self):
        first, second, key = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4())
        assert guard.once(self.database, claim(key), pay(first)) == first.encode()
        assert guard.once(self.database, claim(key, token=2), pay(second)) == first.encode()
        assert (self.paid(first), self.paid(second)) == (1, 0)

    def a_result_may_be_any_bytes(self):
        for result in (b"", bytes(range(256)) * 64):
            key = str(uuid.uuid4())
            for _ in range(2):
                assert guard.once(self.database, claim(key), lambda _: result) == result

    def an_effect_that_fails_leaves_nothing(self):
        receipt, wanted = str(uuid.uuid4()), claim()

        def half(execute):
            pay(receipt)(execute)
            raise NotDone

        refused(NotDone, lambda: guard.once(self.database, wanted, half))
        assert (self.paid(receipt), self.rows(wanted.idempotency_key)) == (0, 0)
        assert guard.once(self.database, wanted, pay(receipt)) == receipt.encode()

    def an_effect_that_ends_its_transaction_is_noticed(self):
        def ends(execute):
            execute("ROLLBACK")
            return b""

        refused(guard.WrongRow, lambda: guard.once(self.database, claim(), ends))

    def no_transaction_begins_after_the_hold(self):
        receipt, wanted = str(uuid.uuid4()), claim(hold=0)
        refused(guard.Undecided, lambda: guard.once(self.database, wanted, pay(receipt)))
        assert (self.paid(receipt), self.rows(wanted.idempotency_key)) == (0, 0)

    def names_are_compared_as_bytes(self):
        names = ("payments", "shop", "caf\u00e9")
        for other in ("caf\u00e9 ", "Caf\u00e9", "cafe", "cafe\u0301", "caf\u00e9\u200b"):
            for place in range(3):
                key, mine, theirs = str(uuid.uuid4()), list(names), list(names)
                mine[place], theirs[place] = "caf\u00e9", other
                guard.once(self.database, claim(key, mine), lambda _: b"")
                refused(guard.WrongRow, lambda: guard.once(self.database, claim(key, theirs), lambda _: b""))
                guard.once(self.database, claim(key, mine), lambda _: b"")

    def a_row_without_a_result_is_not_taken_for_an_effect(self):
        wanted = claim()
        self.database.insert_new(guard.INSERT, *wanted.key, *wanted.names, 1)
        refused(guard.WrongRow, lambda: guard.once(self.database, wanted, lambda _: b""))

    def the_longest_names_fit(self):
        for letter in ("x", "\u20ac", "\U0001f600"):
            size = len(letter.encode())
            names = (letter * (128 // size), letter * (256 // size), letter * (512 // size))
            key = str(uuid.uuid4())
            for _ in range(2):
                guard.once(self.database, claim(key, names, run="r" * 64), lambda _: b"")

    def names_that_are_too_long_are_not_cut(self):
        if self.place.name == "sqlite":
            return  # which keeps them whole
        wanted = claim(names=("payments", "shop", "x" * 513))
        refused(guard.Undecided, lambda: guard.once(self.database, wanted, lambda _: b""))
        assert self.rows(wanted.idempotency_key) == 0

    def replay_runs_are_told_apart_by_case(self):
        receipts, key = [str(uuid.uuid4()) for _ in range(3)], str(uuid.uuid4())
        for run, receipt in zip(("", "run", "Run"), receipts):
            assert guard.once(self.database, claim(key, run=run), pay(receipt)) == receipt.encode()
        assert self.paid(*receipts) == 3

    def a_wait_for_somebody_else_is_bounded(self):
        mine, theirs, wanted = str(uuid.uuid4()), str(uuid.uuid4()), claim()
        other = self.held(wanted, theirs)
        began = time.monotonic()
        refused(guard.Undecided, lambda: guard.once(self.database, wanted, pay(mine)))
        waited = time.monotonic() - began
        assert LOCK_WAIT * 0.9 <= waited <= LOCK_WAIT + 3, waited
        other.commit()
        assert guard.once(self.database, wanted, pay(mine)) == theirs.encode()
        assert (self.paid(mine), self.paid(theirs)) == (0, 1)

    def who_waited_for_a_commit_reads_its_result(self):
        mine, theirs, wanted = str(uuid.uuid4()), str(uuid.uuid4()), claim()
        other = self.held(wanted, theirs)
        threads, results = self.beside(wanted, mine)
        time.sleep(0.5)
        other.commit()
        threads[0].join()
        assert results == {mine: theirs} and (self.paid(mine), self.paid(theirs)) == (0, 1), results

    def of_many_who_waited_for_a_rollback_one_has_the_effect(self):
        mine, theirs, wanted = [str(uuid.uuid4()) for _ in range(4)], str(uuid.uuid4()), claim()
        other = self.held(wanted, theirs)
        threads, results = self.beside(wanted, *mine)
        time.sleep(0.5)
        other.rollback()
        for thread in threads:
            thread.join()
        done = {one for one in results.values() if isinstance(one, str)}
        # Some may have been the victims of a deadlock.
        assert len(done) == 1 and self.paid(*mine) == 1 and self.paid(theirs) == 0, results
        assert guard.once(self.database, wanted, pay(str(uuid.uuid4()))).decode() in done

    def a_lost_connection_is_made_again(self):
        receipt, wanted = str(uuid.uuid4()), claim()
        self.database.connection.close()
        assert guard.once(self.database, wanted, pay(receipt)) == receipt.encode()

    def old_rows_are_deleted_a_thousand_at_a_time(self):
        young, then = claim(), datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=31)
        self.database.execute("DELETE FROM effect_guard")
        self.database.begin()
        for _ in range(1500):
            one = claim()
            self.database.insert_new(guard.INSERT, *one.key, *one.names, 1)
        self.database.execute("UPDATE effect_guard SET done_at = ?",
                              then if self.place.name == "postgres" else then.strftime("%Y-%m-%d %H:%M:%S"))
        self.database.commit()
        guard.once(self.database, young, lambda _: b"")
        delete = self.place.delete_old_rows()
        assert [self.database.execute(delete).rowcount for _ in range(3)] == [1000, 500, 0]
        assert self.rows(young.idempotency_key) == 1
