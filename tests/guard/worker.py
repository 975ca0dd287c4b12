"""The consumer of examples/guard as a process that dies or stands still where a delivery says so.

It is the example's own program: only around its effect, its guard and its deliveries stands a point each, at which the
process may be hit. Before it is hit it says so. With --unguarded the effect has a transaction of its own, and no guard.
"""

import asyncio
import os
import signal
import sys

from places import GUARD

import consumer
import guard

assert consumer.__file__ == str(GUARD / "consumer.py"), consumer.__file__
fault, guarded = {}, True


def point(name):
    if fault.get("at") == name:
        print(f"HIT {name}", flush=True)
        fault.pop("at")
        signal.raise_signal(signal.Signals[fault["signal"]])  # at this thread: it goes no further


def unguarded(database, _claim, effect):
    """As most consumers do it: the effect is committed, then Complete is called."""
    try:
        database.open()
        database.begin()
        result = effect(database.execute)
        database.commit()
        return result
    except database.Error as error:
        raise guard.Undecided(str(error)) from error
    finally:
        database.rollback()


def pay(execute, event, real=consumer.pay):
    point("before effect")
    result = real(execute, event)
    point("before commit")
    return result


def once(database, claim, effect, real=guard.once):
    point("before transaction")
    result = (real if guarded else unguarded)(database, claim, effect)
    point("before Complete")
    return result


async def deliver(event, *rest, real=consumer.deliver):
    fault.clear()
    fault.update(event.pop("fault", {}))
    answer = await real(event, *rest)
    point("before ack")
    return answer


consumer.pay, guard.once, consumer.deliver = pay, once, deliver


def main(arguments):
    global guarded
    guarded = "--unguarded" not in arguments
    sys.argv[1:] = [one for one in arguments if one != "--unguarded"]
    consumer.OWNER = f"worker/{os.getpid()}"
    asyncio.run(consumer.main())
