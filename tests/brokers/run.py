"""Messages of a real broker, a fifth of them twice, for consumers that are killed, stopped and paused: one effect each.

    python tests/brokers/run.py --binary target/debug/idempotency-ledger
    python tests/brokers/run.py --broker redis --consumer python --size 1000 --seed 7
    python tests/brokers/run.py --one-topic   consumers of all languages in one group: Kafka, NATS and RabbitMQ
    python tests/brokers/run.py --rolling     consumers are replaced one after the other, and none is killed
    python tests/brokers/run.py --bugs        seeds each bug of bugs.toml, and sees a run fail
    python tests/brokers/run.py --rotate      one run of any of these kinds, another with every commit

Every consumer of tests/brokers/consumers is `LANGUAGE_BROKER.py`, or the folder `LANGUAGE/BROKER`, which `LANGUAGE/build PACKAGE` makes
into `PACKAGE/build/brokers/BROKER`; `BROKER-retries` is that of `LANGUAGE-retries`. `bridge` is the program that POSTs messages to a
handler in Python, and the package for Rust has no adapter: its consumer does by itself what adapters do. Each message must have one
effect in a sink that fences and in one that deduplicates; the dead letters must be the poisonous messages, and one without an id;
nothing may be left.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

from bugs import all_bugs, language_of, misfits, seed
from faults import ROOT, Run, one
from languages import Consumer, build, consumers, package_of, plain
from one_topic import OneTopic
from rolling import Rolling
from servers import BROKERS

KINDS: dict[str, type[Run]] = {"": Run, "one-topic": OneTopic, "rolling": Rolling}
ONE_TOPIC = ("kafka", "nats", "rabbitmq")
SIZE, ROLLING_SIZE = 100, 600
# The broker whose groups divide a topic has the large run.
ONE_TOPIC_SIZES = {"kafka": 100_000, "nats": 10_000, "rabbitmq": 10_000}
ROTATED = 3  # languages of a rotated run with several: each of them is built


class Chosen(NamedTuple):
    """One run."""

    kind: str
    broker: str
    consumers: list[Consumer]

    def made(self, binary: str, size: int | None, seed: int) -> bool:
        sizes = {"": SIZE, "one-topic": ONE_TOPIC_SIZES.get(self.broker, SIZE), "rolling": ROLLING_SIZE}
        size = size or sizes[self.kind]
        return one(KINDS[self.kind], binary, BROKERS[self.broker], self.consumers, size, seed)


def chosen(options: argparse.Namespace) -> list[Chosen]:
    """The runs that are asked for."""
    found = {(language, broker): consumer for (language, broker), consumer in consumers().items()
             if broker in (options.broker or BROKERS) and language in (options.consumer or [language])}
    ordered = sorted(found.items())
    alone = [Chosen("", broker, [consumer]) for (_, broker), consumer in ordered]
    together = {each: [consumer for (language, broker), consumer in ordered if broker == each and language == plain(language)]
                for each in ONE_TOPIC}
    runs = {"": alone, "one-topic": [Chosen("one-topic", broker, several) for broker, several in together.items() if several],
            "rolling": [each._replace(kind="rolling") for each in alone]}
    if not options.rotate:
        return runs[options.kind]
    commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    number = int(commits.stdout)
    everything = runs[options.kind] if options.kind else [run for kind in runs.values() for run in kind]
    found_one = everything[number % len(everything)]
    turned = [found_one.consumers[(number + each) % len(found_one.consumers)] for each in range(ROTATED)]
    return [found_one._replace(consumers=sorted(turned)) if found_one.kind == "one-topic" else found_one]


def bugs(binary: str, options: argparse.Namespace) -> bool:
    """Seeds each bug into a copy of the package; true where each was seen."""
    if found := misfits():
        sys.exit("\n".join(found))
    unseen = []
    known = consumers()
    for bug in all_bugs():
        language, broker, kind = language_of(bug), bug["broker"], bug.get("run", "")
        if broker not in (options.broker or BROKERS) or language not in (options.consumer or [language]):
            continue
        if options.kind and kind != options.kind:
            continue
        with tempfile.TemporaryDirectory(prefix="ledger-brokers-") as folder:
            package = pathlib.Path(folder, "package")
            left_out = shutil.ignore_patterns("build", "dist", "node_modules", "target")
            shutil.copytree(package_of(language), package, ignore=left_out)
            seed(bug, package)
            print(f"{broker}, {language}: {bug['bug']}", flush=True)
            build(language, package)
            run = [known[language, broker]._replace(package=package)]
            if "with" in bug:
                build(bug["with"], package_of(bug["with"]))
                run.append(known[bug["with"], broker])
            if Chosen(kind, broker, run).made(binary, options.size or (ROLLING_SIZE if kind == "rolling" else SIZE), options.seed):
                unseen.append(bug["bug"])
    for each in unseen:
        print(f"NOT SEEN: {each}")
    return not unseen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    parser.add_argument("--broker", action="append", choices=BROKERS, help="only this one; may be repeated")
    parser.add_argument("--consumer", action="append", help="only this language; may be repeated")
    parser.add_argument("--size", type=int, help="messages, 10 to 100000; a fifth of them is published twice [default: 100; with "
                        "--one-topic 100000 on Kafka, 10000 on other brokers; with --rolling 600, and a round of restarts for 200]")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--one-topic", dest="kind", action="store_const", const="one-topic", default="",
                        help="consumers of all languages in one group")
    parser.add_argument("--rolling", dest="kind", action="store_const", const="rolling",
                        help="consumers are replaced one after the other, and none is killed")
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs of the adapters")
    parser.add_argument("--rotate", action="store_true", help="only one run of any kind: others with every commit")
    parser.add_argument("--needs", action="store_true", help="show the programs that the chosen brokers need")
    parser.add_argument("--languages", action="store_true", help="show the chosen languages")
    options = parser.parse_args()
    if options.size is not None and not 10 <= options.size <= 100_000:
        parser.error("--size: must be 10 to 100000")
    runs = chosen(options)
    languages = sorted({plain(consumer.language) for run in runs for consumer in run.consumers})
    if options.languages:
        print("\n".join(languages))
        return 0
    needs = sorted({program for run in runs for program in BROKERS[run.broker].needs})
    if options.needs:
        print("\n".join(needs))
        return 0
    if missing := [program for program in needs if not shutil.which(program)]:
        sys.exit(f"missing: {' '.join(missing)}; `tests/prove brokers` names the packages, and installs them as root")
    if options.bugs:
        return 0 if bugs(options.binary, options) else 1
    for language in languages:
        build(language, package_of(language))
    headers = [KINDS[kind].header for kind in sorted({run.kind for run in runs})]
    if headers and all(headers):
        print(*headers, sep="\n", flush=True)
    results = [run.made(options.binary, options.size, options.seed) for run in runs]
    print(f"SUMMARY brokers: {len(results)} runs, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
