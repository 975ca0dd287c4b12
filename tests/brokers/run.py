"""Messages of a real broker, a fifth of them twice, for consumers that are killed, stopped and paused: one effect each.

    python tests/brokers/run.py --binary target/debug/idempotency-ledger
    python tests/brokers/run.py --broker redis --consumer python --size 1000 --seed 7
    python tests/brokers/run.py --bugs        seeds each bug of bugs.toml, and sees a run fail
    python tests/brokers/run.py --rotate      one of them, another with every commit

Every consumer of tests/brokers/consumers is `LANGUAGE_BROKER.py`, or the folder `LANGUAGE/BROKER`, which `LANGUAGE/build PACKAGE` makes
into `PACKAGE/build/brokers/BROKER`; `BROKER-retries` is that of `LANGUAGE-retries`. `bridge` is the program that POSTs messages to a
handler in Python. Each message must have one effect in a sink that
fences and in one that deduplicates; the dead letters must be the poisonous messages, and one without an id; nothing may be left.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "clients" / "python" / "src")]
from running import Running, wait_for  # noqa: E402
from servers import BROKERS  # noqa: E402
from sinks import Sinks  # noqa: E402

import grpc  # noqa: E402
from idempotency_ledger._proto import admin_pb2, admin_pb2_grpc, ledger_pb2 as pb  # noqa: E402

POLICIES = """
[policy]
lease = "1s"
reclaim_grace = "200ms"
max_attempts = 20
backoff = { initial = "100ms", max = "500ms" }
"""
# A poisonous message uses up its attempts: fewer of them would park messages whose consumers were killed too often.
CONSUMERS, POISON = 3, 2
PATIENCE = 60  # seconds without another message that is finished: then some never will be
RESTART = 100  # messages: in runs of as many the broker is killed, too, where it can be started again
# The package of each language, which a seeded bug copies.
PACKAGES = {language: ROOT / "clients" / language for language in ("python", "go", "typescript", "java")}
PACKAGES["bridge"] = PACKAGES["go"]
# Seconds that a consumer of a language needs until it processes: one that is killed sooner has processed nothing.
STARTS = {"java": 2.0}

FINAL = {"payment": pb.ENTRY_STATE_COMPLETED, "poison": pb.ENTRY_STATE_PARKED}


def package_of(language: str) -> pathlib.Path:
    """The package of a language or of a variant of it, such as `go-retries`."""
    return PACKAGES[language.partition("-")[0]]


class Run:
    """One broker with the consumers of one language."""

    def __init__(self, running: Running, broker, address: str, language: str, program: list[str], package: pathlib.Path,
                 dice: random.Random) -> None:
        self.running, self.broker, self.address, self.dice = running, broker, address, dice
        self.program = [part.replace("{package}", str(package)) for part in program]
        self.sinks = Sinks(running.path / "sinks.db")
        self.admin = admin_pb2_grpc.AdminServiceStub(grpc.insecure_channel(address))
        self.every = max(broker.every, STARTS.get(language.partition("-")[0], 0))
        self.kills = self.stops = self.pauses = self.restarts = 0
        self.environment = {**os.environ, "LEDGER_PACKAGE": str(package), "PYTHONPATH": os.pathsep.join(
            map(str, (package / "src", ROOT / "examples/consumer", HERE / "consumers")))}
        self.workers = [self.worker() for _ in range(CONSUMERS)]

    def worker(self) -> subprocess.Popen:
        return self.running.start(
            "consumer", *self.program, "--broker", self.broker.url, "--ledger", self.address,
            "--sinks", self.running.path / "sinks.db", environment=self.environment)

    def harm(self, kill: bool = False) -> None:
        """Kills, stops or pauses a consumer, and starts another one for it unless it goes on. `kill`: it is killed."""
        place = self.dice.randrange(CONSUMERS)
        victim = self.workers[place]
        assert victim.poll() is None, f"a consumer ended by itself with {victim.returncode}: {self.said()}"
        what = 0 if kill else self.dice.random()
        if what < 0.6:
            victim.kill()
            victim.wait()
            self.kills += 1
        elif what < 0.8:
            self.stop(victim)
            self.stops += 1
        else:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(1.5)  # longer than lease and grace: others get what it holds
            victim.send_signal(signal.SIGCONT)
            self.pauses += 1
            return
        self.workers[place] = self.worker()

    def stop(self, worker: subprocess.Popen) -> None:
        """Asks a consumer to stop once it can be asked, and sees that it ends in good order."""
        wait_for("a consumer consumes", lambda: f"{worker.pid} consumes" in self.running.log("consumer"))
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(20)
        assert code == 0, f"a consumer that was asked to stop ended with {code}: {self.said()}"

    def begun(self) -> int:
        """The number of effects that have begun, repeats included."""
        return self.sinks.database.execute("SELECT count(*) FROM plain").fetchone()[0]

    def said(self) -> str:
        return self.running.log("consumer")[-3000:]

    def unfinished(self, messages: dict[str, str]) -> list[str]:
        def state(id: str) -> int:
            key = pb.EntryKey(consumer="payments", source="shop", id=id)
            try:
                return self.admin.GetEntry(admin_pb2.GetEntryRequest(key=key), timeout=5).entry.state
            except grpc.RpcError:
                return pb.ENTRY_STATE_UNSPECIFIED

        return [id for id, kind in messages.items() if state(id) != FINAL[kind]]

    def play(self, size: int) -> dict[str, str]:
        """Publishes, and harms consumers until nearly everything is done; then lets them finish."""
        messages = {f"order-{number}": "payment" for number in range(size)}
        messages.update({f"poison-{number}": "poison" for number in range(POISON)})
        events = [{"specversion": "1.0", "id": id, "source": "shop", "type": kind} for id, kind in messages.items()]
        # The very same body: a producer repeats itself.
        events += self.dice.sample(events[:size], size // 5)
        events.append({"type": "payment"})  # It has no id.
        self.dice.shuffle(events)
        self.publish(events)
        left, changed = messages, time.monotonic()
        while now := self.unfinished(left):
            changed = time.monotonic() if len(now) < len(left) else changed
            assert time.monotonic() < changed + PATIENCE, f"unfinished: {sorted(left)[:10]}: {self.said()}"
            left = {id: messages[id] for id in now}
            if sum(kind == "payment" for kind in left.values()) > size // 10:
                time.sleep(self.every)
                self.harm()
            else:
                time.sleep(0.5)
        time.sleep(1)
        for worker in self.workers:
            self.stop(worker)
        return messages

    def publish(self, events: list[dict[str, str]]) -> None:
        """Publishes; in portions where the broker gives partitions to consumers, a killed one in the middle of each."""
        portions = [events[number::self.broker.portions] for number in range(self.broker.portions)]
        for portion in portions[:-1]:
            before = self.begun()
            self.broker.publish(portion)
            wait_for("an effect begins", lambda: self.begun() > before, seconds=60, every=0.02)
            self.harm(kill=True)
        if self.broker.restarts and len(events) >= RESTART:
            self.broker.kill()
            self.broker.start()
            self.restarts += 1
        self.broker.publish(portions[-1])

    def finish(self) -> None:
        """What was in flight when consumers were asked to stop is acknowledged by one that starts again."""
        last = self.worker()
        wait_for("everything is acknowledged", lambda: self.broker.left() == 0, seconds=60, every=0.5)
        self.stop(last)
        assert self.broker.left() == 0, "messages are left"

    def wrong(self, messages: dict[str, str]) -> list[str]:
        """What is not as it must be."""
        found = []
        for id, kind in messages.items():
            counts = {sink: self.sinks.count(sink, id) for sink in Sinks.NAMES}
            right = counts["fenced"] == counts["deduplicating"] == 1 <= counts["plain"] if kind == "payment" else not any(
                counts.values())
            found += [] if right else [f"{id} has the effects {counts}"]
        dead = set(self.broker.dead())
        wanted = {id for id, kind in messages.items() if kind == "poison"} | {None}
        return found + ([] if dead == wanted else [f"the dead letters are {dead}, and must be {wanted}"])


def one(binary: str, broker: str, language: str, program: list[str], size: int, seed: int, package: pathlib.Path) -> bool:
    """Runs one broker with one language; prints a line, and returns whether all was right."""
    began = time.monotonic()
    with Running() as running:
        policies = running.path / "policies.toml"
        policies.write_text(POLICIES)
        _, address = running.serve(binary, None, "--config", policies)
        run = Run(running, BROKERS[broker](running), address, language, program, package, random.Random(seed))
        try:
            messages = run.play(size)
            run.finish()
            wrong = run.wrong(messages)
        except AssertionError as error:
            wrong = [str(error)]
        repeated = sum(run.sinks.count("plain", id) > 1 for id in messages) if not wrong else 0
        print(f"{broker:<10} {language:<12} {'ok' if not wrong else 'FAILED':<7} {size} messages, {run.kills} kills, {run.stops} stops, "
              f"{run.pauses} pauses, {run.restarts} restarts of the broker, {repeated} effects repeated and fenced, seed {seed}, "
              f"{time.monotonic() - began:.1f} s", flush=True)
        for each in wrong[:5]:
            print(f"  {each}", flush=True)
        return not wrong


def bugs(binary: str, chosen: dict[tuple[str, str], list[str]], size: int, seed: int) -> bool:
    """Seeds each bug into a copy of the package; true where each was seen."""
    unseen = []
    for bug in tomllib.loads((HERE / "bugs.toml").read_text(encoding="utf-8"))["bug"]:
        language = bug.get("consumer", "python")
        if (language, bug["broker"]) not in chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="ledger-brokers-") as folder:
            package = pathlib.Path(folder, "package")
            left_out = shutil.ignore_patterns("build", "dist", "node_modules", "target")
            shutil.copytree(package_of(language), package, ignore=left_out)
            file = package / bug["file"]
            text = file.read_text(encoding="utf-8")
            if text.count(bug["from"]) != 1:
                raise SystemExit(f"{bug['bug']}: {bug['file']} has its place {text.count(bug['from'])} times, not once")
            file.write_text(text.replace(bug["from"], bug["to"]), encoding="utf-8")
            print(f"{bug['broker']}, {language}: {bug['bug']}", flush=True)
            build(language, package)
            if one(binary, bug["broker"], language, chosen[language, bug["broker"]], size, seed, package):
                unseen.append(bug["bug"])
    for each in unseen:
        print(f"NOT SEEN: {each}")
    return not unseen


def build(language: str, package: pathlib.Path) -> None:
    """Builds the consumers of a language over its package, or a copy; those of Python need nothing."""
    program = HERE / "consumers" / language.partition("-")[0] / "build"
    if program.exists():
        subprocess.run([program, package], check=True)


def consumers() -> dict[tuple[str, str], list[str]]:
    """The program of each language and broker."""
    found = {}
    for folder in sorted((HERE / "consumers").glob("*/*")):
        broker, dash, variant = folder.name.partition("-")
        if broker in BROKERS:
            found[folder.parent.name + dash + variant, broker] = [f"{{package}}/build/brokers/{folder.name}"]
    for file in sorted((HERE / "consumers").glob("*_*.py")):
        language, broker = file.stem.split("_", 1)
        found[language, broker] = [sys.executable, str(file)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    parser.add_argument("--broker", action="append", choices=BROKERS, help="only this one; may be repeated")
    parser.add_argument("--consumer", action="append", help="only this language; may be repeated")
    parser.add_argument("--size", type=int, default=100, help="messages, 10 to 100000; a fifth of them is published twice")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs of the adapters")
    parser.add_argument("--rotate", action="store_true", help="only one broker with one language: others with every commit")
    parser.add_argument("--needs", action="store_true", help="show the programs that the chosen brokers need")
    parser.add_argument("--languages", action="store_true", help="show the chosen languages")
    options = parser.parse_args()
    if not 10 <= options.size <= 100_000:
        parser.error("--size: must be 10 to 100000")
    chosen = {names: program for names, program in consumers().items()
              if names[1] in (options.broker or BROKERS) and names[0] in (options.consumer or [names[0]])}
    if options.rotate:
        commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = sorted(chosen)[int(commits.stdout) % len(chosen)]
        chosen = {names: chosen[names]}
    if options.languages:
        print("\n".join(sorted({language.partition("-")[0] for language, _ in chosen})))
        return 0
    needs = sorted({program for _, broker in chosen for program in BROKERS[broker].needs})
    if options.needs:
        print("\n".join(needs))
        return 0
    if missing := [program for program in needs if not shutil.which(program)]:
        sys.exit(f"missing: {' '.join(missing)}; `tests/prove brokers` names the packages, and installs them as root")
    if options.bugs:
        return 0 if bugs(options.binary, chosen, options.size, options.seed) else 1
    for language in sorted({language.partition("-")[0] for language, _ in chosen}):
        build(language, package_of(language))
    results = [one(options.binary, broker, language, program, options.size, options.seed, package_of(language))
               for (language, broker), program in chosen.items()]
    print(f"SUMMARY brokers: {len(results)} runs, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
