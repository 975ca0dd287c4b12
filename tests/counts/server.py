"""What a call costs the server itself: the instructions that callgrind sees, and how often the allocator is called.

The server is the program of the tests, over SQLite in memory: no other process has a part in it, and no disk. It has one
thread for calls, and a clock that goes a thousandth as fast (slow_clock.c): what it does by the clock has no part in the counts.
Counting begins when the server has started: until then the program runs unobserved, and faster.
"""

import concurrent.futures
import contextlib
import pathlib
import re
import subprocess
import tempfile
import threading

from client import Client
from speed.credentials import Credentials
from speed.programs import clean_environment

LISTENS = re.compile(r'"listen":"([0-9.:]+)"')
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
FUNCTION = re.compile(r"^c?fn=\((\d+)\)(?: (.*))?$")
# A reallocation may take new memory, too. Rust's calls of the allocator, whichever that is.
ALLOCATES = re.compile(r"(?:^|::)__rust_(?:alloc|alloc_zeroed|realloc)$")
# One claim of this consumer is granted, and for a thousand seconds all others are refused.
LIMITED = "bench-2"
QUOTA = f'[consumers."{LIMITED}"]\nclaims_per_second = 1\n'
# A go has this number of calls or one batch, and the least of all goes counts: now and then threads meet in another way, a packet
# arrives in two parts, a table gets a page. Most goes of ten calls differ by 1 %, some by 10 %, and the least of eight by 0.5 %.
CALLS, GOES, BATCHES = 10, 8, 4
SMALL, LARGE, REFUSED = 20, 100, (100, 400)
# Seconds within which a server has started, and a command of callgrind is carried out.
START_MAX, CONTROL_MAX = 300, 60


class Observed:
    """A server under callgrind."""

    def __init__(self, binary, clock, *more):
        self.folder = tempfile.TemporaryDirectory(prefix="ledger-counts.")
        self.path = pathlib.Path(self.folder.name)
        self.dumps = 0
        # Threads take turns: without that one may wait for long, and the start with it.
        command = ["valgrind", "--quiet", "--tool=callgrind", "--fair-sched=yes", "--instr-atstart=no",
                   f"--callgrind-out-file={self.path}/out", binary, "serve", "--ephemeral", "--listen", "127.0.0.1:0",
                   "--http-listen", "off", "--observe-listen", "127.0.0.1:0", "--log", "error", "--threads", "1", *more]
        self.log = (self.path / "log").open("wb")
        environment = {**clean_environment(), "LD_PRELOAD": str(clock)}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True, process_group=0)
        # Nothing is read any more from a server that was ended.
        late = threading.Timer(START_MAX, self.process.kill)
        late.start()
        found = LISTENS.search(self.process.stdout.readline())
        late.cancel()
        if not found:
            said = (self.path / "log").read_text(errors="replace")
            self.stop()
            raise RuntimeError(f"the server does not listen under valgrind within {START_MAX} s:\n{said}")
        self.address = found[1]

    def begin(self):
        self._control("-i", "on")
        self._dump()

    def least(self, work, goes, prepare=lambda: None):
        """The fewest instructions and allocations with which the work is done. What prepares each go is not counted."""
        found = []
        for _ in range(goes):
            prepare()
            self._dump()
            work()
            found.append(self._dump())
        instructions, allocated = (min(values) for values in zip(*found))
        if not allocated:
            raise RuntimeError(f"callgrind saw no call of the allocator: no function fits {ALLOCATES.pattern}")
        return instructions, allocated

    def _control(self, *what):
        done = subprocess.run(["callgrind_control", *what, str(self.process.pid)], capture_output=True, text=True, check=False,
                              timeout=CONTROL_MAX)
        if done.returncode != 0 or "Error" in done.stdout + done.stderr:
            raise RuntimeError(f"callgrind_control {what[0]}: {(done.stdout + done.stderr).strip()}")

    def _dump(self):
        """What was counted since the last one."""
        self.dumps += 1
        self._control("-d")
        file = self.path / f"out.{self.dumps}"
        text = file.read_text()
        file.unlink()
        return int(TOTAL.search(text)[1]), allocations(text)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()


def allocations(text):
    """How often the allocator was called, in a file of callgrind: a name stands there once, and a number for it from then on."""
    names, called, found = {}, None, 0
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            number, name = match.groups()
            if name:
                names[number] = name
            if line.startswith("c"):
                called = names.get(number, "")
        elif line.startswith("calls=") and ALLOCATES.search(called):
            found += int(line[len("calls="):].split()[0])
    return found


class Counted:
    """The costs of items of one server."""

    def __init__(self, observed, client):
        self.observed, self.client = observed, client
        self.next = 0
        for _ in range(3):
            self.claims(5)
        observed.begin()
        self.claims(5)

    def numbers(self, count):
        self.next += count
        return range(self.next - count, self.next)

    def claims(self, count):
        for number in self.numbers(count):
            self.client.claim(number)

    def batch(self, count, consumer="bench-1"):
        """How many of a batch are refused."""
        return sum(answer.HasField("rejected") for answer in self.client.answers(self.numbers(count), consumer))

    def call(self):
        return [value / CALLS for value in self.observed.least(lambda: self.claims(CALLS), GOES)]

    def items(self):
        return self.one_more(SMALL, LARGE, lambda size: self.exactly(0, self.batch(size)))

    def refused_items(self):
        self.batch(1, LIMITED)
        return self.one_more(*REFUSED, lambda size: self.exactly(size, self.batch(size, LIMITED)))

    def completed_items(self):
        claimed = []

        def claim(size):
            claimed[:] = [numbers := self.numbers(size), self.client.granted(numbers)]

        return self.one_more(SMALL, LARGE, lambda _: self.client.complete(*claimed), claim)

    def one_more(self, small, large, work, prepare=lambda _: None):
        """What one item more of a batch costs."""
        few, many = (self.observed.least(lambda size=size: work(size), BATCHES, lambda size=size: prepare(size))
                     for size in (small, large))
        return [(more - less) / (large - small) for less, more in zip(few, many)]

    @staticmethod
    def exactly(wanted, refused):
        if refused != wanted:
            raise RuntimeError(f"{refused} claims of a batch were refused, and not {wanted}")


def slow_clock(folder):
    """The library, for the server to load first."""
    library = folder / "slow_clock.so"
    source = pathlib.Path(__file__).with_name("slow_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source], check=True)
    return library


@contextlib.contextmanager
def counted(binary, clock, *flags, **credentials):
    observed = Observed(binary, clock, *flags)
    try:
        with Client(observed.address, **credentials) as client:
            yield Counted(observed, client)
    finally:
        observed.stop()


def of_items(server):
    return {"unary claim": server.call(), "batch item": server.items(), "completed item": server.completed_items(),
            "refused item": server.refused_items()}


def costs(binary):
    """Instructions and allocations of an item, by name. What is counted does not depend on how long it takes: all servers run at
    the same time."""
    trust = Credentials(binary)
    quota = trust.folder / "quota.toml"
    quota.write_text(QUOTA)
    tls, _, _ = trust.of(["tls"])
    web_token, _, _ = trust.of(["web-token"])
    servers = [
        (of_items, ["--config", quota], {}),
        (lambda server: {"unary claim, TLS": server.call()}, tls, {"certificate": (trust.folder / "cert.pem").read_bytes()}),
        (lambda server: {"unary claim, web token": server.call()}, web_token, {"token": (trust.folder / "web-token").read_text()}),
    ]
    try:
        clock = slow_clock(trust.folder)

        def measured(count, flags, credentials):
            with counted(binary, clock, *flags, **credentials) as server:
                return count(server)

        with concurrent.futures.ThreadPoolExecutor(len(servers)) as threads:
            for done in [threads.submit(measured, *server) for server in servers]:
                yield from done.result().items()
    finally:
        trust.end()
