"""docs/tutorial-kafka.md as it stands: its programs are written to files, its commands run with a real Kafka and a real ledger.

    python tests/brokers/tutorial.py --binary target/debug/idempotency-ledger
    python tests/brokers/tutorial.py --language java
    python tests/brokers/tutorial.py --bugs      seeds each bug of BUGS into the page, and sees it fail

What a block is: tests/brokers/page.py. `mvn` prints the class path of this tree's package to the page, and `timeout` stops a
consumer once its group has committed all messages.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python")]
import page as pages  # noqa: E402
from page import Bug  # noqa: E402
from running import Running  # noqa: E402
from servers import Kafka  # noqa: E402

PAGE = ROOT / "docs" / "tutorial-kafka.md"
LANGUAGES = ("python", "java")
MESSAGES = 3
# What must stand in the commands of each language: without them the page would show something else.
STEPS = ["send", "twice, killed", "twice, again", "once, killed", "once, again", "once, all again"]
AGAIN = "payments-again"

MVN = """#!/bin/sh
[ "$*" = "-q dependency:build-classpath -Dmdep.outputFile=classpath" ] || { echo "mvn $*: not a command of the page" >&2; exit 1; }
cat CLASSPATH >classpath
"""
BUGS = [
    Bug("python", "the provider is not given the key", "decode(), claim.idempotency_key)", "decode())"),
    Bug("python", "the charge is made before the claim", '"orders", pay, consumer=group).run(stop)',
        '"orders", lambda *_: b"", consumer=group,\n'
        "        named=lambda topic, message: charge(message.value().decode()) or kafka_named(topic, message)).run(stop)\n"),
    Bug("python", "each group is another consumer of the ledger", 'Ledger("payments", lease=5)',
        'Ledger(group["group.id"], lease=5)'),
    Bug("java", "the provider is not given the key", "Provider.charge(order, claim.idempotencyKey())",
        "Provider.charge(order, null)"),
    Bug("java", "the charge is made before the claim", "          .run(stop::requested);",
        """          .named(
              (topic, message) -> {
                try {
                  Provider.charge(new String(message.value(), StandardCharsets.UTF_8), null);
                } catch (Exception e) {
                  throw new IllegalStateException(e);
                }
                return TopicConsumer.nameOf(topic, message);
              })
          .run(stop::requested);"""),
    Bug("java", "each group is another consumer of the ledger", 'Ledger.builder("payments")',
        'Ledger.builder((String) config.get("group.id"))'),
]
# What a bug needs besides, and does no harm.
IMPORTS = {"named=": ("from provider import charge\n\n\ndef pay", "from provider import charge\n"
                      "from idempotency_ledger.brokers.kafka import named as kafka_named\n\n\ndef pay")}


class Own(Kafka):
    """A Kafka without topics."""

    partitions: dict[str, int] = {}


def section(page: str, language: str) -> str:
    """The part of the page for a language."""
    heading = f"## In {language.capitalize()}\n"
    assert page.count(heading) == 1, f"{PAGE.name} has no part for {language}"
    return page.split(heading)[1].split("\n## ")[0]


def installed(running: Running, language: str, address: str, kafka: Kafka) -> tuple[pathlib.Path, dict[str, str]]:
    """An empty folder, and the environment of a user's shell in which the package is installed."""
    shims = {}
    package = ROOT / "clients" / "java"
    if language == "java":
        subprocess.run([HERE / "consumers" / "java" / "build", package], check=True)
        shims["mvn"] = MVN.replace("CLASSPATH", str(package / "build" / "brokers" / "classpath"))
    folder, environment = pages.shell(running.path, __file__, shims)
    environment |= {"LEDGER_ENDPOINT": address, "KAFKA": kafka.url}
    if language == "java":
        if "JAVA_HOME" in os.environ:
            environment["PATH"] = f"{os.environ['JAVA_HOME']}/bin{os.pathsep}{environment['PATH']}"
            environment["PATH"] = f"{running.path / 'shims'}{os.pathsep}{environment['PATH']}"
        # Four JVMs begin one after the other: with an archive of its classes each needs half the time.
        environment["JAVA_TOOL_OPTIONS"] = (package / "build" / "brokers" / "options").read_text()
    return folder, environment


def checked_pom(text: str) -> None:
    """The dependency of the page is an artifact of this tree, of its version."""
    ours = (ROOT / "clients" / "java" / "kafka" / "pom.xml").read_text(encoding="utf-8")
    dependency = re.search(r"<dependency>(.*?)</dependency>", text, re.S)
    assert dependency, "the pom has no dependency"
    for line in dependency[1].split():
        assert line in ours, f"the pom has {line}, and the artifact has not"


def committed(url: str, group: str) -> int:
    """How many messages of the page's topic a group has committed."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": url, "group.id": group, "log_level": 3})
    offset = consumer.committed([TopicPartition("orders", 0)], timeout=30)[0].offset
    consumer.close()
    return max(0, offset)


def timeout(option: str, seconds: str, *command: str) -> int:
    """The program `timeout` of the page: SIGTERM once the group has committed all messages, with whatever number of seconds."""
    assert option == "--preserve-status" and seconds.isdigit(), f"timeout {option} {seconds}: not a command of the page"
    child = subprocess.Popen(command)
    ends, group = time.monotonic() + pages.MOST - 60, os.environ.get("GROUP", "payments")
    while child.poll() is None and time.monotonic() < ends and committed(os.environ["KAFKA"], group) < MESSAGES:
        time.sleep(0.5)
    child.terminate()
    return child.wait()


def walk(binary: str, language: str, page: str) -> None:
    """Does what the page says. Raises `AssertionError` where something else is printed."""
    found = pages.blocks(section(page, language), STEPS)
    for block in found:
        if block.name == "pom.xml":
            checked_pom(block.text)
    with Running() as running:
        kafka = Own(running)
        _, address = running.serve(binary, None)
        pages.follow(found, *installed(running, language, address, kafka))
        again = committed(kafka.url, AGAIN)
        assert again == MESSAGES, f"{again} messages were delivered to the other group and committed, and must be {MESSAGES}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    parser.add_argument("--language", action="append", choices=LANGUAGES, help="only this one; may be repeated")
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs of the page")
    options = parser.parse_args()
    languages = options.language or list(LANGUAGES)
    page = PAGE.read_text(encoding="utf-8")
    if options.bugs:
        chosen = [bug for bug in BUGS if bug.part in languages]
        return 0 if pages.seen(chosen, page, IMPORTS, lambda language, changed: walk(options.binary, language, changed)) else 1
    results = [pages.one(each, lambda each=each: walk(options.binary, each, page)) for each in languages]
    print(f"SUMMARY tutorial: {len(results)} walks, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(timeout(*sys.argv[2:]) if sys.argv[1:2] == ["--timeout"] else main())
