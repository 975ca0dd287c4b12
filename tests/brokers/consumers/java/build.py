"""Compiles the consumers over a package of Java: PACKAGE/build/brokers/NAME starts the consumer of the folder NAME; the files
`classpath` and `options` there are for other programs over the package.

    python build.py PACKAGE

As for the subjects of tests/conformance, whose build.py this uses: Maven is asked for the class path once, the stubs are compiled
once, and there is an archive of the JVM. Runs kill consumers every second or two: a JVM that starts slowly would process nothing.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(ROOT / "tests" / "conformance" / "subjects" / "java"))
from build import CLIENT, FLAGS, STUBS, digest, javac, once  # noqa: E402

WRITTEN = [f"{module}/src/main/java" for module in ("client", "brokers", "kafka", "rabbitmq", "redis")]
JVM = [*FLAGS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def resolved(out: pathlib.Path) -> None:
    """The class path of everything that others have written."""
    subprocess.run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:build-classpath",
                    f"-Dmdep.outputFile={out}"], check=True)


def foundation(out: pathlib.Path, libraries: str, package: pathlib.Path) -> None:
    """The stubs as a jar, since the archive of a JVM has no classes of folders, and the archive of what a consumer loads."""
    javac(out / "classes", libraries, [package / STUBS, HERE / "training"])
    shutil.make_archive(str(out / "stubs"), "zip", out / "classes")
    shutil.rmtree(out / "classes")
    (out / "stubs.zip").rename(out / "stubs.jar")


def archive(out: pathlib.Path, below: str) -> None:
    """The archive of the JVM for this class path."""
    done = subprocess.run(["java", *JVM, f"-XX:ArchiveClassesAtExit={out}", "-cp", below, "training.Training"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the training of the JVM has failed: {done.stderr}")


def main() -> None:
    package = pathlib.Path(sys.argv[1]).resolve()
    libraries = once(f"brokers-classpath-{digest(CLIENT / 'pom.xml', HERE / 'pom.xml')}", resolved).read_text().strip()
    sums = next((package / STUBS).rglob("SUMS"))
    name = digest(CLIENT / "pom.xml", HERE / "pom.xml", sums, HERE / "training" / "Training.java")
    found = once(f"brokers-stubs-{name}", lambda file: foundation(file, libraries, package))
    below = f"{found / 'stubs.jar'}:{libraries}"
    # The archive is for a class path that begins with what it was made with.
    archived = once(f"brokers-archive-{name}.jsa", lambda file: archive(file, below))
    out = package / "build" / "brokers"
    shutil.rmtree(out, ignore_errors=True)
    classes = out / "classes"
    classes.mkdir(parents=True)
    javac(classes, below, [package / folder for folder in WRITTEN] +
          [folder for folder in HERE.iterdir() if folder.is_dir() and folder.name != "training"])
    (out / "classpath").write_text(f"{below}:{classes}")
    (out / "options").write_text(" ".join([*JVM, f"-XX:SharedArchiveFile={archived}"]))
    for folder in HERE.iterdir():
        if (folder / "Main.java").exists():
            program = out / folder.name
            main_class = f"{folder.name.replace('-', '')}.Main"
            options = " ".join(f"'{each}'" for each in (*JVM, f"-XX:SharedArchiveFile={archived}", "-cp", f"{below}:{classes}"))
            program.write_text(f'#!/bin/sh\nexec java {options} {main_class} "$@"\n')
            program.chmod(0o755)


if __name__ == "__main__":
    main()
