"""docs/tutorial-kafka.md as it stands: its programs are written to files, its commands run with a real Kafka and a real ledger.

    python tests/brokers/tutorial.py --binary target/debug/idempotency-ledger
    python tests/brokers/tutorial.py --language java
    python tests/brokers/tutorial.py --bugs      seeds each bug of BUGS into the page, and sees it fail

A block that follows `<!-- file: NAME -->` is a file, one that follows `<!-- run: NAME -->` is run by bash, and must print the text
that follows it. The package is that of this tree, as a user would have installed it: `mvn` prints the class path to it, and `timeout`
stops a consumer once its group has committed all messages, since a fixed time is too short for some machines and too long for others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python")]
from running import Running  # noqa: E402
from servers import Kafka  # noqa: E402

PAGE = ROOT / "docs" / "tutorial-kafka.md"
BLOCK = re.compile(
    r"<!-- (file|run): ([^:\n]+?)(?:: exit code (\d+))? -->\n```(?:python|java|xml|sh)\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.S)
FENCE = re.compile(r"^```(?:python|java|xml|sh)$", re.M)
LANGUAGES = ("python", "java")
MOST = 180  # seconds that a command may take
MESSAGES = 3
# What must stand in the commands of each language: without them the page would show something else.
STEPS = ["send", "twice, killed", "twice, again", "once, killed", "once, again", "once, all again"]
AGAIN = "payments-again"

MVN = """#!/bin/sh
[ "$*" = "-q dependency:build-classpath -Dmdep.outputFile=classpath" ] || { echo "mvn $*: not a command of the page" >&2; exit 1; }
cat CLASSPATH >classpath
"""
PYTHON = """#!/bin/sh
exec INTERPRETER "$@"
"""
TIMEOUT = """#!/bin/sh
exec INTERPRETER PROGRAM --timeout "$@"
"""


@dataclass(frozen=True)
class Bug:
    """A change of the page that one of its outputs must show."""

    language: str
    bug: str
    old: str
    new: str


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


def blocks(part: str) -> list[tuple[str, str, int, str, str | None]]:
    """Each block: kind, name, exit code, text, and what it prints if the page shows it."""
    found = [(kind, name, int(code or 0), text, printed or None) for kind, name, code, text, printed in BLOCK.findall(part)]
    assert len(found) == len(FENCE.findall(part)), "a block of code is neither a file nor run"
    names = [name for kind, name, *_ in found if kind == "run"]
    assert names == STEPS, f"the commands are {names}, and must be {STEPS}"
    shown = [name for kind, name, _, _, printed in found if kind == "run" and printed]
    assert shown == STEPS, "the page shows what each command prints"
    return found


def installed(running: Running, language: str, address: str, kafka: Kafka) -> tuple[pathlib.Path, dict[str, str]]:
    """An empty folder, and the environment of a user's shell in which the package is installed."""
    folder, shims = running.path / "user", running.path / "shims"
    folder.mkdir()
    shims.mkdir()
    if language == "java":
        package = ROOT / "clients" / "java"
        subprocess.run([HERE / "consumers" / "java" / "build", package], check=True)
        program = MVN.replace("CLASSPATH", str(package / "build" / "brokers" / "classpath"))
        (shims / "mvn").write_text(program)
    else:
        (shims / "python").write_text(PYTHON.replace("INTERPRETER", sys.executable))
    (shims / "timeout").write_text(TIMEOUT.replace("INTERPRETER", sys.executable).replace("PROGRAM", __file__))
    for shim in shims.iterdir():
        shim.chmod(0o755)
    path = os.pathsep.join([str(shims), *filter(None, [java_home()]), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "clients" / "python" / "src"),
                   "LEDGER_ENDPOINT": address, "KAFKA": kafka.url}
    if language == "java":  # Four JVMs begin one after the other: with an archive of its classes each needs half the time.
        environment["JAVA_TOOL_OPTIONS"] = (package / "build" / "brokers" / "options").read_text()
    return folder, environment


def java_home() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin" if home else ""


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
    ends, group = time.monotonic() + MOST - 60, os.environ.get("GROUP", "payments")
    while child.poll() is None and time.monotonic() < ends and committed(os.environ["KAFKA"], group) < MESSAGES:
        time.sleep(0.5)
    child.terminate()
    return child.wait()


def typed(commands: str, folder: pathlib.Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Runs commands as a user types them: the exit code, the output and the errors. What they have started ends with them."""
    shell = subprocess.Popen(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
    try:
        output, errors = shell.communicate(timeout=MOST)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    # A shell whose last command is killed has become that command.
    return 128 - shell.returncode if shell.returncode < 0 else shell.returncode, output, errors


def walk(binary: str, language: str, page: str) -> None:
    """Does what the page says. Raises `AssertionError` where something else is printed."""
    found = blocks(section(page, language))
    with Running() as running:
        kafka = Own(running)
        _, address = running.serve(binary, None)
        folder, environment = installed(running, language, address, kafka)
        for kind, name, _, text, _ in found:
            if kind == "file":
                (folder / name).write_text(text, encoding="utf-8")
            if name == "pom.xml":
                checked_pom(text)
        for kind, name, code, text, printed in found:
            if kind != "run":
                continue
            ended, output, errors = typed(text, folder, environment)
            said = f"{output}{errors[-3000:]}"
            assert ended == code, f"{name}: the exit code is {ended}, and must be {code}: {said}"
            assert output == printed, f"{name} prints\n{said}\nand the page shows\n{printed}"
        again = committed(kafka.url, AGAIN)
        assert again == MESSAGES, f"{again} messages were delivered to the other group and committed, and must be {MESSAGES}"


def one(binary: str, language: str, page: str) -> bool:
    """Prints a line; returns whether the page does what it says."""
    began = time.monotonic()
    try:
        walk(binary, language, page)
        wrong = ""
    except (AssertionError, subprocess.TimeoutExpired) as error:
        wrong = str(error)
    print(f"tutorial {language:<8} {'FAILED' if wrong else 'ok':<7} {time.monotonic() - began:.1f} s", flush=True)
    if wrong:
        print(f"  {wrong}", flush=True)
    return not wrong


def bugs(binary: str, languages: list[str], page: str) -> bool:
    """Seeds each bug into the page; true where each was seen."""
    unseen = []
    for bug in BUGS:
        if bug.language not in languages:
            continue
        assert page.count(bug.old) == 1, f"{bug.language}, {bug.bug}: the page has its place {page.count(bug.old)} times"
        changed = page.replace(bug.old, bug.new)
        for mark, (old, new) in IMPORTS.items():
            changed = changed.replace(old, new) if mark in bug.new else changed
        print(f"{bug.language}: {bug.bug}", flush=True)
        if one(binary, bug.language, changed):
            unseen.append(f"{bug.language}: {bug.bug}")
    for each in unseen:
        print(f"NOT SEEN: {each}")
    return not unseen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    parser.add_argument("--language", action="append", choices=LANGUAGES, help="only this one; may be repeated")
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs of the page")
    options = parser.parse_args()
    languages = options.language or list(LANGUAGES)
    page = PAGE.read_text(encoding="utf-8")
    if options.bugs:
        return 0 if bugs(options.binary, languages, page) else 1
    results = [one(options.binary, language, page) for language in languages]
    print(f"SUMMARY tutorial: {len(results)} walks, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(timeout(*sys.argv[2:]) if sys.argv[1:2] == ["--timeout"] else main())
