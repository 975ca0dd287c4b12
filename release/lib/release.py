"""What is released: version, commit, instant, and the programs by architecture."""

import pathlib
import subprocess
import tomllib
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "idempotency-ledger"
SUMMARY = "The dedup authority that services share: claim, complete, fail and release messages, by gRPC and HTTP"


@dataclass(frozen=True)
class Architecture:
    """One processor, under the name that each ecosystem gives it."""

    rust: str
    debian: str
    npm: str
    oci: str
    # The oldest loader that pip asks for: the program is static, and needs none.
    wheel: str

    @property
    def target(self):
        return f"{self.rust}-unknown-linux-musl"


ARCHITECTURES = [
    Architecture("x86_64", "amd64", "x64", "amd64", "manylinux_2_5_x86_64.manylinux1_x86_64.musllinux_1_1_x86_64"),
    Architecture("aarch64", "arm64", "arm64", "arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"),
]


@dataclass
class Release:
    version: str
    commit: str
    epoch: int
    programs: dict  # Architecture -> bytes
    manual: dict  # name -> bytes
    completions: dict  # path below /usr/share -> bytes
    authorities: bytes  # certificates of public authorities, as PEM

    def common(self):
        """What each archive has beside the program."""
        return {"LICENSE": (ROOT / "LICENSE").read_bytes(), "README.md": (ROOT / "README.md").read_bytes()}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]


def commit():
    """The commit, and its instant in seconds since the Unix epoch: the time of every file."""
    return git("rev-parse", "HEAD"), int(git("log", "-1", "--format=%ct"))


def clean():
    return not git("status", "--porcelain")
