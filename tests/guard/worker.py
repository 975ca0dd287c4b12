"""The consumer of examples/guard as a process that dies or stands still at the point that a delivery names.

It is the example's own program with the package's guard: only around its effect, the guard and its deliveries stands a point
each, at which the process may be hit. Before it is hit it reports the point. With --unguarded the effect has a transaction
without a guard.
"""

import json
import pathlib
import signal
import sys

from places import EXAMPLE, GUARD

import consumer
from idempotency_ledger import guard
from idempotency_ledger.guard._dialects import dialect_of

assert consumer.__file__ == str(EXAMPLE / "consumer.py"), consumer.__file__
assert pathlib.Path(guard.__file__).parent == GUARD, guard.__file__
fault, guarded = {}, True


def point(name):
    if fault.get("at") == name:
        print(f"HIT {name}", flush=True)
        fault.pop("at")
        signal.raise_signal(signal.Signals[fault["signal"]])  # at this thread: it goes no further


def unguarded(connection, _claim, effect):
    """As most consumers do it: the effect is committed, then Complete is called."""
    dialect = dialect_of(connection)
    try:
        dialect.bound_waits()
        dialect.begin()
        result = effect(dialect.cursor())
        dialect.commit()
        return result
    except dialect.errors as error:
        raise guard.Undecided(str(error)) from error
    finally:
        dialect.roll_back()


def pay(cursor, event, real=consumer.pay):
    point("before effect")
    result = real(cursor, event)
    point("before commit")
    return result


def once(connection, claim, effect, real=guard.once):
    point("before transaction")
    result = (real if guarded else unguarded)(connection, claim, effect)
    point("before Complete")
    return result


def deliver(body, *rest, real=consumer.deliver):
    event = json.loads(body)
    fault.clear()
    fault.update(event.pop("fault", {}))
    # The body has no trace of the fault: it is the same on each delivery, as its fingerprint must be.
    outcome = real(json.dumps(event).encode(), *rest)
    point("before ack")
    return outcome


consumer.pay, guard.once, consumer.deliver = pay, once, deliver


def main(arguments):
    global guarded
    guarded = "--unguarded" not in arguments
    sys.argv[1:] = [one for one in arguments if one != "--unguarded"]
    consumer.main()
