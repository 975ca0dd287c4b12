"""Compiles the subjects over a package of Java, and writes the arguments that they are started with.

    python build.py PACKAGE      makes PACKAGE/target/subject: classes, and the file `arguments` for `java @arguments NAME`

Maven is asked for the class path once, and the stubs are compiled once, into target/java-subject of the tree; a copy of the
package with a seeded bug takes only javac over what is written by hand. There is an archive of the JVM, too, of the classes
that are not the package's: without it the first call of a JVM took from 0.5 to 0.9 s on a busy machine, and the leases of the
scenarios have a second.
"""

from __future__ import annotations

import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
CLIENT = ROOT / "clients" / "java"
CACHE = ROOT / "target" / "java-subject"
STUBS = pathlib.Path("client") / "src" / "stubs" / "java"
WRITTEN = ["client/src/main/java", "servlet/src/main/java"]
RESOURCES = ["client/src/main/resources"]
# A subject lives for seconds: most of its time is the start of its JVM.
FLAGS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m",
         # The JVM's own warnings are not lines of the protocol.
         "-Xlog:disable", "-Xlog:all=warning:stderr"]


def digest(*files: pathlib.Path) -> str:
    """A name for the contents of files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def javac(out: pathlib.Path, classpath: str, sources: list[pathlib.Path]) -> None:
    """Compiles the sources of folders."""
    files = [str(file) for folder in sources for file in sorted(folder.glob("*.java") if folder == HERE else
                                                                folder.rglob("*.java"))]
    subprocess.run(["javac", "--release", "17", "-Xlint:none", "-XDsuppressNotes", "-proc:none", "-d", str(out), "-cp", classpath, *files],
                   check=True)


def once(name: str, make: object) -> pathlib.Path:
    """The thing of this name in the cache; `make` makes it where it is not there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = CACHE / name
        if not made.exists():
            fresh = CACHE / f"{name}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            make(fresh)  # type: ignore[operator]
            fresh.rename(made)
        return made


def resolved(out: pathlib.Path) -> None:
    """The class path of everything that others have written."""
    subprocess.run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:build-classpath",
                    f"-Dmdep.outputFile={out}"], check=True)


def foundation(out: pathlib.Path, libraries: str, stubs: pathlib.Path) -> None:
    """The stubs, and the archive of everything that a subject loads besides the package and itself."""
    javac(out / "classes", libraries, [stubs, HERE / "training"])
    shutil.make_archive(str(out / "stubs"), "zip", out / "classes")
    shutil.rmtree(out / "classes")
    (out / "stubs.zip").rename(out / "stubs.jar")


def archive(out: pathlib.Path, classpath: str) -> None:
    """The archive of the JVM for this class path."""
    done = subprocess.run(["java", *FLAGS, f"-XX:ArchiveClassesAtExit={out}", "-cp", classpath, "Training"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the training of the JVM has failed: {done.stderr}")


def main() -> None:
    package = pathlib.Path(sys.argv[1]).resolve()
    libraries = once(f"classpath-{digest(CLIENT / 'pom.xml', HERE / 'pom.xml')}", resolved).read_text().strip()
    stubs = package / STUBS
    sums = next(stubs.rglob("SUMS"))
    name = digest(CLIENT / "pom.xml", HERE / "pom.xml", sums, HERE / "training" / "Training.java")
    found = once(f"stubs-{name}", lambda out: foundation(out, libraries, stubs))
    below = f"{found / 'stubs.jar'}:{libraries}"
    archived = once(f"archive-{name}.jsa", lambda out: archive(out, below))
    target = package / "target" / "subject"
    shutil.rmtree(target, ignore_errors=True)
    classes = target / "classes"
    classes.mkdir(parents=True)
    for folder in RESOURCES:
        if (package / folder).exists():
            shutil.copytree(package / folder, classes, dirs_exist_ok=True)
    javac(classes, below, [package / folder for folder in WRITTEN] + [HERE])
    # The archive is for a class path that begins with what it was made with.
    arguments = [*FLAGS, f"-XX:SharedArchiveFile={archived}", "-cp", f"{below}:{classes}"]
    (target / "arguments").write_text("\n".join(f'"{each}"' for each in arguments) + "\n")


if __name__ == "__main__":
    main()
