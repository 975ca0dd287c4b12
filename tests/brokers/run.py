"""Messages of a real broker, a fifth of them twice, for consumers that are killed, stopped and paused: one effect each.

    python tests/brokers/run.py --binary target/debug/idempotency-ledger
    python tests/brokers/run.py --broker redis --consumer python --size 1000 --seed 7
    python tests/brokers/run.py --bugs        seeds each bug of bugs.toml, and sees a run fail
    python tests/brokers/run.py --rotate      one of them, another with every commit

Every consumer of tests/brokers/consumers is `LANGUAGE_BROKER.py`, or the folder `LANGUAGE/BROKER`, which `LANGUAGE/build PACKAGE` makes
into `PACKAGE/build/brokers/BROKER`; `BROKER-retries` is that of `LANGUAGE-retries`. `bridge` is the program that POSTs messages to a
handler in Python. Each message must have one effect in a sink that fences and in one that deduplicates; the dead letters must be the
poisonous messages, and one without an id; nothing may be left.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from typing import NamedTuple

from faults import HERE, ROOT, Run, one
from languages import Consumer, build, consumers, package_of, plain
from servers import BROKERS

SIZE = 100


class Chosen(NamedTuple):
    """One run."""

    broker: str
    consumers: list[Consumer]

    def made(self, binary: str, size: int, seed: int) -> bool:
        return one(Run, binary, BROKERS[self.broker], self.consumers, size, seed)


def chosen(options: argparse.Namespace) -> list[Chosen]:
    """The runs that are asked for."""
    found = [Chosen(broker, [consumer]) for (language, broker), consumer in sorted(consumers().items())
             if broker in (options.broker or BROKERS) and language in (options.consumer or [language])]
    if not options.rotate:
        return found
    commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [found[int(commits.stdout) % len(found)]]


def bugs(binary: str, options: argparse.Namespace) -> bool:
    """Seeds each bug into a copy of the package; true where each was seen."""
    unseen = []
    known = consumers()
    for bug in tomllib.loads((HERE / "bugs.toml").read_text(encoding="utf-8"))["bug"]:
        language, broker = bug.get("consumer", "python"), bug["broker"]
        if broker not in (options.broker or BROKERS) or language not in (options.consumer or [language]):
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
            print(f"{broker}, {language}: {bug['bug']}", flush=True)
            build(language, package)
            run = Chosen(broker, [known[language, broker]._replace(package=package)])
            if run.made(binary, options.size, options.seed):
                unseen.append(bug["bug"])
    for each in unseen:
        print(f"NOT SEEN: {each}")
    return not unseen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    parser.add_argument("--broker", action="append", choices=BROKERS, help="only this one; may be repeated")
    parser.add_argument("--consumer", action="append", help="only this language; may be repeated")
    parser.add_argument("--size", type=int, default=SIZE, help="messages, 10 to 100000; a fifth of them is published twice")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs of the adapters")
    parser.add_argument("--rotate", action="store_true", help="only one broker with one language: others with every commit")
    parser.add_argument("--needs", action="store_true", help="show the programs that the chosen brokers need")
    parser.add_argument("--languages", action="store_true", help="show the chosen languages")
    options = parser.parse_args()
    if not 10 <= options.size <= 100_000:
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
    results = [run.made(options.binary, options.size, options.seed) for run in runs]
    print(f"SUMMARY brokers: {len(results)} runs, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
