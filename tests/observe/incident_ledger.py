"""The ledger of the incidents: a server with tokens and rights, nine consumers, a clock that can be set ahead, and operators
who type commands on a terminal of 80 columns."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import threading
import time
import uuid

import grpc
from running import free_port, wait_for
from stubs import pb, rpc

COLUMNS, ROWS = 80, 50
PROGRAM = "idempotency-ledger"
WORKERS, OPERATORS = "workers", ("alice", "bob")
CONSUMERS = ("fraud-checks", "invoices", "loyalty-points", "newsletter", "payments", "refunds", "search-index", "shipping-labels",
             "stock-levels")
CONFIG = """
purge_every = "100ms"
[consumers.invoices]
max_attempts = 2
backoff = { initial = "0s", max = "0s" }
[consumers.shipping-labels]
lease = "15m"
"""
# What the healthy consumers have in one round.
ROUND = 5
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def key(consumer, message):
    return pb.EntryKey(consumer=consumer, source="shop", id=message)


class Screen:
    """What a command has shown on the terminal."""

    def __init__(self, command, code, text):
        self.command, self.code, self.text = command, code, text

    def words(self):
        """As one line, so that a text that wraps is found."""
        return " ".join(self.text.split())

    def too_wide(self):
        """The lines that the terminal wraps, except commands to be pasted, which have no line break."""
        return [line for line in self.text.splitlines() if len(line) > COLUMNS and not line.startswith(f"  {PROGRAM} ")]


class Ledger:
    """The server and its clients."""

    def __init__(self, running, binary, show=False):
        self.show, self.lock = show, threading.RLock()
        self.running, self.binary = running, pathlib.Path(binary).resolve()
        self.tokens = {}
        self.clock = running.path / "clock"
        self.clock.write_bytes(struct.pack("q", 0))
        library = running.path / "shifted_clock.so"
        source = pathlib.Path(__file__).with_name("shifted_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source], check=True)
        self.environment = {"LD_PRELOAD": str(library), "LEDGER_CLOCK": str(self.clock), "PATH": os.defpath, "TERM": "xterm",
                            "XDG_CONFIG_HOME": str(running.path / "no-contexts")}
        self.configure()
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def configure(self):
        lines = ["[tokens]"]
        for name in (WORKERS, *OPERATORS):
            made = subprocess.run([self.binary, "rights", "token", name], capture_output=True, text=True, check=True)
            self.tokens[name] = made.stdout.strip()
            lines.append(next(line for line in made.stderr.splitlines() if line.startswith(name)))
        self.path("tokens.toml").write_text("\n".join(lines) + "\n")
        rights = {WORKERS: ["claim", "settle", "store"], **{name: ["read", "admin"] for name in OPERATORS}}
        self.path("rights.toml").write_text("".join(
            f'[[rights]]\nprincipal = "token:{name}"\nconsumers = ["*"]\nmay = {may}\n'.replace("'", '"') for name, may in rights.items()))
        self.path("ledger.toml").write_text(CONFIG)

    def path(self, name):
        return self.running.path / name

    def start(self):
        self.server = self.running.start(
            "server", self.binary, "serve", "--listen", self.address, "--database-url", f"sqlite://{self.path('ledger.db')}",
            "--config", self.path("ledger.toml"), "--tokens-file", self.path("tokens.toml"), "--rights-file", self.path("rights.toml"),
            environment=self.environment)
        asked = [self.binary, "health", "--address", self.address]

        def healthy():
            assert self.server.poll() is None, self.running.log("server")
            return subprocess.run(asked, capture_output=True).returncode == 0

        wait_for("the server is healthy", healthy)
        self.channel = grpc.insecure_channel(self.address)
        self.client = rpc.LedgerServiceStub(self.channel)

    def killed(self):
        self.server.kill()
        self.server.wait()
        self.channel.close()

    def passes(self, seconds):
        """Time passes for the server and for the operators, while no traffic is in flight."""
        with self.lock, self.clock.open("r+b") as file:
            ahead, = struct.unpack("q", file.read(8))
            file.seek(0)
            file.write(struct.pack("q", ahead + seconds))

    # What workers do.

    def calls(self, name, request):
        metadata = [("authorization", f"Bearer {self.tokens[WORKERS]}")]
        return getattr(self.client, name)(request, timeout=10, metadata=metadata)

    def claim(self, consumer, message, owner):
        return self.calls("Claim", pb.ClaimRequest(key=key(consumer, message), claim_id=str(uuid.uuid4()), owner=owner))

    def token(self, consumer, message, owner):
        answer = self.claim(consumer, message, owner)
        assert answer.WhichOneof("verdict") == "acquired", f"{consumer} {message}: {answer}"
        return answer.acquired.token

    def complete(self, consumer, message, token):
        self.calls("Complete", pb.CompleteRequest(key=key(consumer, message), token=token))

    def many(self, consumer, messages, owner, settlement):
        """Claims all messages, and settles each by the settlement of its key and token."""
        claims = [pb.ClaimRequest(key=key(consumer, message), claim_id=str(uuid.uuid4()), owner=owner) for message in messages]
        answers = self.calls("BatchClaim", pb.BatchClaimRequest(requests=claims)).responses
        refused = [answer for answer in answers if answer.WhichOneof("verdict") != "acquired"]
        assert not refused, f"{len(refused)} claims of {consumer} are not granted: {refused[0]}"
        settlements = [settlement(claim.key, answer.acquired.token) for claim, answer in zip(claims, answers)]
        results = self.calls("BatchSettle", pb.BatchSettleRequest(settlements=settlements)).results
        rejected = [result for result in results if result.WhichOneof("outcome") == "rejected"]
        assert not rejected, f"{len(rejected)} settlements of {consumer} are refused: {rejected[0]}"

    def all_done(self, consumer, messages, owner):
        self.many(consumer, messages, owner, lambda key, token: pb.Settlement(complete=pb.CompleteRequest(key=key, token=token)))

    def all_fail(self, consumer, messages, owner, error):
        self.many(consumer, messages, owner, lambda key, token: pb.Settlement(
            fail=pb.FailRequest(key=key, token=token, error=error(key.id))))

    def done(self, consumer, message, owner):
        self.complete(consumer, message, self.token(consumer, message, owner))

    def claim_next(self, consumer, owner, number):
        return self.calls("ClaimNext", pb.ClaimNextRequest(consumer=consumer, claim_id=str(uuid.uuid4()), owner=owner, max=number)).messages

    def refused(self, consumer, message, reason):
        try:
            self.claim(consumer, message, "w")
        except grpc.RpcError as error:
            assert reason in str(dict(error.trailing_metadata())), error
        else:
            raise AssertionError(f"a claim of {consumer} was not refused with {reason}")

    # What operators do.

    def types(self, operator, line):
        """The line in a shell on a terminal, with `idempotency-ledger` before it."""
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        name = self.path(f"bin/{PROGRAM}")
        name.parent.mkdir(exist_ok=True)
        if not name.exists():
            name.symlink_to(self.binary)
        environment = {**self.environment, "NO_COLOR": "1", "IDEMPOTENCY_LEDGER_ENDPOINT": self.address,
                       "IDEMPOTENCY_LEDGER_TOKEN": self.tokens[operator], "PATH": f"{name.parent}:{os.defpath}"}
        process = subprocess.Popen(["sh", "-c", f"{PROGRAM} {line}"], stdin=subprocess.DEVNULL, stdout=end, stderr=end, env=environment)
        os.close(end)
        seen = b""
        # The end of a terminal without a process is an error.
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 4096):
                seen += part
        os.close(terminal)
        text = ESCAPES.sub("", seen.decode()).replace("\r\n", "\n")
        if self.show:
            print(f"$ {PROGRAM} {line}\n{text}", flush=True)
        return Screen(line, process.wait(timeout=30), text)


class Traffic:
    """Messages of all consumers except the one that has the incident: claimed and completed, round after round."""

    def __init__(self, ledger):
        self.ledger, self.sick = ledger, None
        self.rounds, self.problems = 0, []
        self.lock, self.ends = ledger.lock, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ends.is_set():
            with self.lock:
                try:
                    self.round()
                except (grpc.RpcError, AssertionError) as error:
                    self.problems.append(f"while {self.sick} has its incident: {error}")
                    return
            time.sleep(0.05)

    def round(self):
        for consumer in CONSUMERS:
            if consumer != self.sick:
                self.ledger.all_done(consumer, [f"order-{self.rounds}-{number}" for number in range(ROUND)], f"{consumer}-1")
        self.rounds += 1

    @contextlib.contextmanager
    def during(self, consumer):
        """The consumer has its incident, and no other traffic; the other eight have theirs."""
        with self.lock:
            self.sick = consumer
        before = self.rounds
        yield
        wait_for(f"the eight others go on during the incident of {consumer}", lambda: self.rounds > before + 1 or self.problems)
        with self.lock:
            self.sick = None

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
