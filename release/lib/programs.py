"""The static programs: built with the musl standard library, and zig as the C compiler and the linker of both processors."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

from .release import ARCHITECTURES, NAME, ROOT

WORK = ROOT / "target" / "release-tools"
BUILT = ROOT / "target" / "release-build"
REQUIREMENTS = ROOT / "release" / "requirements.txt"


def say(text):
    print(text, file=sys.stderr, flush=True)


def tools():
    """A Python environment with the compiler, by the versions and the contents that are pinned."""
    # jemalloc is built by make; programs of the build itself are compiled by cc.
    needed = "source tests/lib/say.sh; source tests/lib/tools.sh; need git python3 venv make cc"
    if subprocess.run(["bash", "-euc", needed], cwd=ROOT, check=False).returncode != 0:
        raise SystemExit("release/build: the reason stands above")
    python = WORK / "bin" / "python"
    stamp = WORK / "requirements.txt"
    if not stamp.exists() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        say("installing zig and cargo-zigbuild")
        subprocess.run([sys.executable, "-m", "venv", "--clear", WORK], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", REQUIREMENTS],
                       check=True)
        stamp.write_bytes(REQUIREMENTS.read_bytes())
    return python


def authorities(python):
    code = "import certifi, sys; sys.stdout.buffer.write(open(certifi.where(), 'rb').read())"
    return subprocess.run([python, "-c", code], capture_output=True, check=True).stdout


def environment(architecture, commit, epoch):
    """Nothing of this machine's folders gets into the program."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    folders = [(BUILT, "/built"), (ROOT, "/source"), (home, "/cargo"), (sysroot, "/rust"), (WORK, "/tools")]
    prefixes = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in folders)
    target = architecture.target.replace("-", "_")
    made = {
        **os.environ,
        "PATH": f"{WORK / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(BUILT),
        "CARGO_INCREMENTAL": "0",
        "LEDGER_BUILD_COMMIT": commit,
        "SOURCE_DATE_EPOCH": str(epoch),
        "RUSTFLAGS": " ".join(f"--remap-path-prefix={path}={name}" for path, name in folders),
        f"CFLAGS_{target}": prefixes,
    }
    if architecture.rust == "aarch64":
        # Kernels of this processor may have pages of 64 KiB: with a smaller size than the kernel's the allocator ends the
        # process at its start. The larger size works with each.
        made["JEMALLOC_SYS_WITH_LG_PAGE"] = "16"
    return made


def is_installed(target):
    """True where the Rust has the target's standard library, with rustup or without."""
    shown = subprocess.run(["rustc", "--print", "target-libdir", "--target", target], capture_output=True, text=True, check=False)
    return shown.returncode == 0 and any(pathlib.Path(shown.stdout.strip()).glob("libstd-*.rlib"))


def build(commit, epoch):
    """The program of each architecture."""
    missing = [one.target for one in ARCHITECTURES if not is_installed(one.target)]
    if missing:
        say(f"adding the standard libraries {', '.join(missing)}")
        if shutil.which("rustup") is None or subprocess.run(["rustup", "target", "add", *missing], check=False).returncode != 0:
            raise SystemExit(f"release/build: run `rustup target add {' '.join(missing)}`; a Rust without rustup cannot add them")
    found = {}
    for architecture in ARCHITECTURES:
        say(f"building {architecture.target}; the first time takes minutes")
        command = ["cargo", "zigbuild", "--release", "--locked", "--target", architecture.target, "--bin", NAME]
        if subprocess.run(command, cwd=ROOT, env=environment(architecture, commit, epoch), check=False).returncode != 0:
            raise SystemExit(f"release/build: {architecture.target} cannot be built; the reason stands above")
        found[architecture] = (BUILT / architecture.target / "release" / NAME).read_bytes()
    return found


def native():
    """The program that runs on this machine."""
    for architecture in ARCHITECTURES:
        if architecture.rust == platform.machine():
            return BUILT / architecture.target / "release" / NAME
    raise SystemExit(f"release/build: no program is built for this machine's {platform.machine()}")
