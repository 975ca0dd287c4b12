"""Formats what is written by hand with google-java-format, or says what is not formatted.

    python format.py          writes the files
    python format.py --check  fails where a file would be changed

Maven brings the formatter, once, into target/tools. 1.28.0 is the last version that runs on Java 17.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1] / "tests"
CONFORMANCE = TESTS / "conformance"
VERSION = "1.28.0"
TOOLS = HERE / "target" / "tools"
JAR = TOOLS / f"google-java-format-{VERSION}-all-deps.jar"


def sources() -> list[pathlib.Path]:
    """The hand-written files, with the subjects of the scenarios and the consumers of the brokers' tests."""
    ours = [file for file in HERE.rglob("*.java") if not {"stubs", "target"} & set(file.relative_to(HERE).parts)]
    folders = (CONFORMANCE / "subjects" / "java", CONFORMANCE / "examples" / "java", TESTS / "brokers" / "consumers" / "java")
    return sorted([*ours, *(file for folder in folders for file in folder.rglob("*.java"))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not formatted")
    check = parser.parse_args().check
    if not JAR.exists():
        subprocess.run(["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy",
                        f"-Dartifact=com.google.googlejavaformat:google-java-format:{VERSION}:jar:all-deps",
                        f"-DoutputDirectory={TOOLS}"], cwd=HERE, check=True)
    flags = ["--dry-run", "--set-exit-if-changed"] if check else ["--replace"]
    return subprocess.run(["java", "-jar", str(JAR), *flags, *map(str, sources())]).returncode


if __name__ == "__main__":
    sys.exit(main())
