"""A copy of the tree in which seeded bugs are made one after the other, and what is built from it."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TARGET = ROOT / "target"


def say(text):
    print(text, file=sys.stderr, flush=True)


class Copy:
    """A copy of the tree with a separate target folder, so that no mutant's program is ever taken for the real one."""

    def __init__(self, number):
        self.path = TARGET / f"mutants-{number}"
        self.built = TARGET / f"mutants-built-{number}"
        self.program = self.built / "debug" / "idempotency-ledger"
        self._lock()
        self._copy_tree()
        self._reuse_what_is_built()

    def _lock(self):
        """Ends this run if another one uses the copy: each would build what the other has changed."""
        TARGET.mkdir(exist_ok=True)
        self.lock = open(f"{self.path}.lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run of mutants or mutations uses {self.path}: wait until it ends")

    def _copy_tree(self):
        """Writes only files that differ: the others keep their times, so that cargo does not build them again."""
        files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = {name for name in files.stdout.splitlines() if (ROOT / name).is_file()}
        # Do not copy the caches of Python scripts: half of a cache would be worse than no cache.
        for kept in list(self.path.rglob("__pycache__")):
            shutil.rmtree(kept)
        for path in self.path.rglob("*"):
            if not path.is_dir() and str(path.relative_to(self.path)) not in names:
                path.unlink()
        for name in names:
            path = self.path / name
            if not path.exists() or path.read_bytes() != (ROOT / name).read_bytes():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, path)

    def _reuse_what_is_built(self):
        """Copies the built dependencies, which no mutant changes."""
        if self.built.exists() or not (TARGET / "debug").exists():
            return
        (self.built / "debug").mkdir(parents=True)
        for part in [".fingerprint", "build", "deps"]:
            # Another build may run there meanwhile: files that cannot be copied are built again.
            subprocess.run(["cp", "-a", "--reflink=auto", TARGET / "debug" / part, self.built / "debug" / part], stderr=subprocess.DEVNULL)

    def environment(self):
        # Incremental: little changes from one mutant to the next. Threads as in `tests/run`, since most tests wait.
        return {"RUST_TEST_THREADS": str((os.cpu_count() or 1) + 3),
                "IDEMPOTENCY_LEDGER_TEST_ENVOY": str(TARGET / "venv/bin/envoy"),
                "IDEMPOTENCY_LEDGER_TEST_PYTHON": str(TARGET / "venv/bin/python"), **os.environ,
                "CARGO_TARGET_DIR": str(self.built), "CARGO_MANIFEST_DIR": str(self.path), "CARGO_INCREMENTAL": "1",
                "RUST_BACKTRACE": "0"}

    def cargo(self, *arguments):
        return subprocess.run(["cargo", *arguments], cwd=self.path, env=self.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def change(self, mutant):
        """Makes the mutant; returns the texts that undo it."""
        before = {}
        for name, old, new in mutant.changes:
            path = self.path / name
            text = path.read_text()
            before.setdefault(path, text)
            path.write_text(text.replace(old, new))
        return before

    def broken(self, mutants):
        """Returns the mutants that do not compile, with the compiler's output. Compiles all together; if that fails, each half."""
        before = {}
        for mutant in mutants:
            before = {**self.change(mutant), **before}
        try:
            features = "shuttle" if mutants[0].suite == "interleavings" else "crash-points"
            # With the test profile, for which the lint step has checked the dependencies already.
            checked = self.cargo("check", "--lib", "--profile", "test", "--locked", "--quiet", "--features", features)
        finally:
            undo(before)
        if checked.returncode == 0:
            return []
        if len(mutants) == 1:
            return [f"mutant {mutants[0].number} does not compile:\n{checked.stderr}"]
        half = len(mutants) // 2
        return self.broken(mutants[:half]) + self.broken(mutants[half:])


def undo(before):
    for path, text in before.items():
        path.write_text(text)
