"""docs/tutorial-inbox.md as it stands, with a real RabbitMQ and a real ledger.

    python tests/brokers/tutorial_inbox.py --binary target/debug/idempotency-ledger
    python tests/brokers/tutorial_inbox.py --bugs      seeds each bug of BUGS into the page, and sees it fail: 9 minutes

What a block is: tests/brokers/page.py. `timeout` stops the receiver once the queue is empty, and a worker once it has named both
orders.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python")]
import page as pages  # noqa: E402
from page import Bug  # noqa: E402
from running import Running  # noqa: E402
from servers import RabbitMq  # noqa: E402

PAGE = ROOT / "docs" / "tutorial-inbox.md"
STEPS = ["policy", "send", "receive", "killed", "down", "back", "again", "look"]
ORDERS = {"order-1", "order-2"}

BUGS = [
    Bug("inbox", "the provider is not given the key of the message", "send(order, claim.idempotency_key)",
        "send(order, str(claim.token))"),
    Bug("inbox", "the receiver acknowledges what it does not store", '"orders", STORE)', '"orders", skip)'),
    Bug("inbox", "a provider that is down is taken for a mail that was sent", '        raise GiveBack("the provider is down", after=2)\n',
        ""),
    Bug("inbox", "each repeat of a message is another message", "message_id=order, delivery_mode=2",
        "message_id=os.urandom(8).hex(), delivery_mode=2"),
    Bug("inbox", "the consumer has no inbox", "--inbox --message-retention 1d", "--lease 30s"),
]
# What a bug needs besides, and does no harm.
IMPORTS = {"skip)": ("async def main():\n    stop", "async def skip(claim, message):\n    return None\n\n\nasync def main():\n    stop")}


class Own(RabbitMq):
    """A RabbitMQ without queues."""

    async def _made(self, channel: object) -> None:
        pass


def waiting() -> int:
    """How many messages of the page's queue are not delivered."""
    async def count() -> int:
        import aio_pika

        async with await aio_pika.connect(os.environ["RABBITMQ"]) as connection:
            queue = await (await connection.channel()).get_queue("orders")
            return queue.declaration_result.message_count or 0

    return asyncio.run(count())


def timeout(option: str, seconds: str, *command: str) -> int:
    """The program `timeout` of the page: SIGTERM once the work is done, with whatever number of seconds."""
    assert option == "--preserve-status" and seconds.isdigit(), f"timeout {option} {seconds}: not a command of the page"
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    named: set[str] = set()

    def copy() -> None:
        assert child.stdout
        for line in child.stdout:
            print(line, end="", flush=True)
            named.add(line.split(":")[0])

    copying = threading.Thread(target=copy)
    copying.start()
    ends = time.monotonic() + pages.MOST - 60
    receives = "receiver.py" in command
    while child.poll() is None and time.monotonic() < ends and (waiting() if receives else ORDERS - named):
        time.sleep(0.2)
    child.terminate()
    ended = child.wait()
    copying.join()
    return ended


def walk(binary: str, page: str) -> None:
    """Does what the page says. Raises `AssertionError` where something else is printed."""
    found = pages.blocks(page, STEPS)
    with Running() as running:
        rabbit = Own(running)
        try:
            _, address = running.serve(binary, None)
            ledger = f'#!/bin/sh\nexec {binary} "$@"\n'
            folder, environment = pages.shell(running.path, __file__, {"idempotency-ledger": ledger})
            environment |= {"LEDGER_ENDPOINT": address, "IDEMPOTENCY_LEDGER_ENDPOINT": address, "RABBITMQ": rabbit.url}
            pages.follow(found, folder, environment)
        finally:
            rabbit.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs of the page")
    options = parser.parse_args()
    binary, page = str(pathlib.Path(options.binary).resolve()), PAGE.read_text(encoding="utf-8")
    if options.bugs:
        return 0 if pages.seen(BUGS, page, IMPORTS, lambda _, changed: walk(binary, changed)) else 1
    passed = pages.one("inbox", lambda: walk(binary, page))
    print(f"SUMMARY tutorial: 1 walks, {0 if passed else 1} failed")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(timeout(*sys.argv[2:]) if sys.argv[1:2] == ["--timeout"] else main())
