"""What the guard of the Python package does in each database, case by case, also with sessions that stand in its way."""

import datetime
import random
import threading
import time
import uuid

from places import GUARD  # noqa: F401  the way to the package
from databases import Database
from idempotency_ledger import InvalidField, Retry, guard
from idempotency_ledger._claim import BaseClaim
from idempotency_ledger._core.holds import Hold
from idempotency_ledger._core.steps import World, duration
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger.guard._dialects import LOCK_WAIT


class NotDone(Exception):
    pass


def claim(key=None, names=("payments", "shop", "order-1"), run="", token=1, hold=60.0):
    """A claim that was granted now; its hold ends after as many seconds."""
    consumer, source, id = names
    request = pb.ClaimRequest(key=pb.EntryKey(consumer=consumer, source=source, id=id, replay_run=run))
    granted = pb.Acquired(idempotency_key=key or str(uuid.uuid4()), token=token, lease=duration(hold), hold=duration(hold))
    made = BaseClaim()
    made._held = Hold(World(time.monotonic, random.random), request, granted, time.monotonic())
    return made


def row(wanted):
    """The guard row of a claim: its key, and what stands under that."""
    key = wanted._hold.request.key
    return (wanted.idempotency_key, key.replay_run), (key.consumer, key.source, key.id, wanted.token)


def pay(receipt):
    """An effect; its receipt is its result."""
    def effect(cursor):
        cursor.execute(f"INSERT INTO payments (receipt, source, id, amount) VALUES ('{receipt}', 'shop', 'order-1', 42)")
        return receipt.encode()
    return effect


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


class Checks:
    """On one database; each check uses separate messages."""

    def __init__(self, place, url):
        self.place, self.url = place, url
        self.database = Database(url)

    def all(self):
        besides = ("all", "once", "paid", "rows", "held", "insert", "end_session", "is_closed", "is_refused",
                   "in_threads")
        names = [name for name in vars(Checks) if name[0].islower() and name not in besides]
        return [(f"{self.place.name}: {name.replace('_', ' ')}", getattr(self, name)) for name in names]

    def once(self, wanted, effect):
        return guard.once(self.database.connection, wanted, effect)

    def paid(self, *receipts):
        wanted = f"SELECT count(*) FROM payments WHERE receipt IN ({', '.join('?' * len(receipts))})"
        return self.database.execute(wanted, *receipts).fetchone()[0]

    def rows(self, key):
        return self.database.execute("SELECT count(*) FROM effect_guard WHERE idempotency_key = ?", key).fetchone()[0]

    def held(self, wanted, receipt):
        """A session that had the effect, and did not commit."""
        other = Database(self.url)
        other.begin()
        self.insert(wanted, other)
        other.execute(guard._KEEP, pay(receipt)(other.connection.cursor()), *row(wanted)[0])
        return other

    def insert(self, wanted, database):
        """A guard row without a result."""
        key, rest = row(wanted)
        assert database.insert_new(guard._INSERT, *key, *rest)

    def end_session(self, database):
        """The server ends the session of a connection; SQLite, which has no server, closes the file."""
        if self.place.name == "sqlite":
            return database.close()
        postgres = self.place.name == "postgres"
        session = database.execute("SELECT pg_backend_pid()" if postgres else "SELECT connection_id()").fetchone()[0]
        other = Database(self.url)
        other.execute(f"SELECT pg_terminate_backend({session}, 5000)" if postgres else f"KILL {session}")
        other.close()

    def is_closed(self, database):
        """A pool does not take a closed connection back."""
        if self.place.name != "sqlite":
            assert database.connection.closed if self.place.name == "postgres" else not database.connection.open

    def in_threads(self, wanted, *receipts):
        """Attempts in separate sessions and threads; their results, or what they raised."""
        results = {}

        def attempt(receipt):
            database = Database(self.url)
            try:
                results[receipt] = guard.once(database.connection, wanted, pay(receipt)).decode()
            except guard.Undecided as error:
                results[receipt] = error
            database.close()

        threads = [threading.Thread(target=attempt, args=(receipt,)) for receipt in receipts]
        for thread in threads:
            thread.start()
        return threads, results

    def an_effect_happens_once_and_its_result_stays(self):
        first, second, key = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4())
        assert self.once(claim(key), pay(first)) == first.encode()
        assert self.once(claim(key, token=2), pay(second)) == first.encode()
        assert (self.paid(first), self.paid(second)) == (1, 0)

    def a_result_may_be_any_bytes_or_text_or_nothing(self):
        anything = bytes(range(256)) * 4_000  # far more than the ledger keeps: the guard has it all the same
        for result, kept in ((b"", b""), (anything, anything), ("caf\u00e9\\", "caf\u00e9\\".encode()), (None, b"")):
            key = str(uuid.uuid4())
            for _ in range(2):
                assert self.once(claim(key), lambda _: result) == kept

    def an_effect_that_fails_leaves_nothing(self):
        receipt, wanted = str(uuid.uuid4()), claim()

        def half(cursor):
            pay(receipt)(cursor)
            raise NotDone

        error = refused(Retry, lambda: self.once(wanted, half))
        assert isinstance(error.__cause__, NotDone)
        assert (self.paid(receipt), self.rows(wanted.idempotency_key)) == (0, 0)
        assert self.once(wanted, pay(receipt)) == receipt.encode()

    def an_effect_that_ends_its_transaction_is_noticed(self):
        def ends(cursor):
            cursor.execute("ROLLBACK")
            return b""

        refused(guard.WrongRow, lambda: self.once(claim(), ends))

    def no_transaction_begins_after_the_hold(self):
        receipt, wanted = str(uuid.uuid4()), claim(hold=0)
        refused(guard.Undecided, lambda: self.once(wanted, pay(receipt)))
        assert (self.paid(receipt), self.rows(wanted.idempotency_key)) == (0, 0)

    def names_are_compared_as_bytes(self):
        names = ("payments", "shop", "caf\u00e9")
        for other in ("caf\u00e9 ", "Caf\u00e9", "cafe", "cafe\u0301", "caf\u00e9\u200b"):
            for place in range(3):
                key, mine, theirs = str(uuid.uuid4()), list(names), list(names)
                mine[place], theirs[place] = "caf\u00e9", other
                self.once(claim(key, mine), lambda _: b"")
                refused(guard.WrongRow, lambda: self.once(claim(key, theirs), lambda _: b""))
                self.once(claim(key, mine), lambda _: b"")

    def a_row_without_a_result_is_not_taken_for_an_effect(self):
        wanted = claim()
        self.insert(wanted, self.database)
        refused(guard.WrongRow, lambda: self.once(wanted, lambda _: b""))

    def the_longest_names_fit(self):
        for letter in ("x", "\u20ac", "\U0001f600"):
            size = len(letter.encode())
            names = (letter * (128 // size), letter * (256 // size), letter * (512 // size))
            key = str(uuid.uuid4())
            for _ in range(2):
                self.once(claim(key, names, run="r" * 64), lambda _: b"")

    def names_that_are_too_long_are_not_cut(self):
        if self.place.name == "sqlite":
            return  # which keeps them whole
        wanted = claim(names=("payments", "shop", "x" * 513))
        refused(guard.Undecided, lambda: self.once(wanted, lambda _: b""))
        assert self.rows(wanted.idempotency_key) == 0

    def replay_runs_are_told_apart_by_case(self):
        receipts, key = [str(uuid.uuid4()) for _ in range(3)], str(uuid.uuid4())
        for run, receipt in zip(("", "run", "Run"), receipts):
            assert self.once(claim(key, run=run), pay(receipt)) == receipt.encode()
        assert self.paid(*receipts) == 3

    def a_wait_for_somebody_else_is_bounded(self):
        mine, theirs, wanted = str(uuid.uuid4()), str(uuid.uuid4()), claim()
        other = self.held(wanted, theirs)
        began = time.monotonic()
        refused(guard.Undecided, lambda: self.once(wanted, pay(mine)))
        waited = time.monotonic() - began
        assert LOCK_WAIT * 0.9 <= waited <= LOCK_WAIT + 3, waited
        other.commit()
        assert self.once(wanted, pay(mine)) == theirs.encode()
        assert (self.paid(mine), self.paid(theirs)) == (0, 1)

    def who_waited_for_a_commit_reads_its_result(self):
        mine, theirs, wanted = str(uuid.uuid4()), str(uuid.uuid4()), claim()
        other = self.held(wanted, theirs)
        threads, results = self.in_threads(wanted, mine)
        time.sleep(0.5)
        other.commit()
        threads[0].join()
        assert results == {mine: theirs} and (self.paid(mine), self.paid(theirs)) == (0, 1), results

    def of_many_who_waited_for_a_rollback_one_has_the_effect(self):
        mine, theirs, wanted = [str(uuid.uuid4()) for _ in range(4)], str(uuid.uuid4()), claim()
        other = self.held(wanted, theirs)
        threads, results = self.in_threads(wanted, *mine)
        time.sleep(0.5)
        other.rollback()
        for thread in threads:
            thread.join()
        done = {one for one in results.values() if isinstance(one, str)}
        # Some may have been the victims of a deadlock.
        assert len(done) == 1 and self.paid(*mine) == 1 and self.paid(theirs) == 0, results
        assert self.once(wanted, pay(str(uuid.uuid4()))).decode() in done

    def a_lost_connection_decides_nothing_and_is_closed(self):
        receipt, wanted = str(uuid.uuid4()), claim()
        lost = Database(self.url)
        self.end_session(lost)
        for _ in range(2):
            refused(guard.Undecided, lambda: guard.once(lost.connection, wanted, pay(receipt)))
        self.is_closed(lost)
        assert self.once(wanted, pay(receipt)) == receipt.encode()

    def an_effect_whose_session_ends_is_rolled_back(self):
        first, second, wanted = str(uuid.uuid4()), str(uuid.uuid4()), claim()
        lost = Database(self.url)

        def amid(cursor):
            pay(first)(cursor)
            self.end_session(lost)
            return first.encode()

        for _ in range(2):
            refused(guard.Undecided, lambda: guard.once(lost.connection, wanted, amid))
        self.is_closed(lost)
        assert self.once(wanted, pay(second)) == second.encode()
        assert (self.paid(first), self.paid(second)) == (0, 1)

    def an_open_transaction_is_refused(self):
        self.database.begin()
        self.is_refused(self.database)
        self.database.rollback()

    def a_connection_that_begins_transactions_is_refused(self):
        other = Database(self.url)
        if self.place.name == "sqlite":
            other.connection.isolation_level = ""
        elif self.place.name == "postgres":
            other.connection.autocommit = False
        else:
            other.connection.autocommit(False)
        self.is_refused(other)

    def another_encoding_is_refused(self):
        if self.place.name == "sqlite":
            return  # whose driver has UTF-8 alone
        other = Database(self.url)
        if self.place.name == "postgres":
            other.execute("SET client_encoding = 'LATIN1'")
        else:
            other.connection.set_character_set("latin1")
        self.is_refused(other)

    def is_refused(self, database):
        receipt, wanted = str(uuid.uuid4()), claim()
        refused(InvalidField, lambda: guard.once(database.connection, wanted, pay(receipt)))
        if database is not self.database:
            database.close()
            assert (self.paid(receipt), self.rows(wanted.idempotency_key)) == (0, 0)

    def old_rows_are_deleted_a_thousand_at_a_time(self):
        young, then = claim(), datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=31)
        self.database.execute("DELETE FROM effect_guard")
        self.database.begin()
        for _ in range(1500):
            self.insert(claim(), self.database)
        self.database.execute("UPDATE effect_guard SET done_at = ?",
                              then if self.place.name == "postgres" else then.strftime("%Y-%m-%d %H:%M:%S"))
        self.database.commit()
        self.once(young, lambda _: b"")
        delete = self.place.delete_old_rows()
        assert [self.database.execute(delete).rowcount for _ in range(3)] == [1000, 500, 0]
        assert self.rows(young.idempotency_key) == 1
