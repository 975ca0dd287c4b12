"""The Debian package: the program, the systemd units, manual pages and completions."""

import hashlib
from pathlib import PurePosixPath

from . import pack
from .release import NAME, ROOT, SUMMARY

SYSTEMD = ROOT / "deploy" / "systemd"
UNITS = [f"{NAME}.service", f"{NAME}-backup.service", f"{NAME}-backup.timer"]
SETTINGS = f"etc/{NAME}/environment"

# Nobody can publish a package under this address: RELEASING.md says where to set the real one.
MAINTAINER = "The idempotency-ledger project <maintainers@idempotency-ledger.invalid>"
CONTROL = """Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Section: net
Priority: optional
Description: {summary}
 A server that brokers' consumers and HTTP services ask before an effect, so that a redelivered message has one effect.
 It keeps its ledger in Postgres, or in an SQLite file of its own. The package enables no service: first read
 /etc/{name}/environment, then `systemctl enable --now {name}`.
"""
POSTINST = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""
# A removal stops the server, which drains; an upgrade restarts it where it runs.
PRERM = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now {name}.service {name}-backup.timer; fi
"""
POSTRM = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""
UPGRADED = """if [ "$1" = configure ] && [ -n "$2" ] && [ -d /run/systemd/system ]; then systemctl try-restart {name}.service; fi
"""


def unit(name):
    """The unit of deploy/, for a program that a package installs."""
    text = (SYSTEMD / name).read_text()
    return text.replace("/usr/local/bin/", "/usr/bin/").encode()


def files(release, architecture):
    found = {
        f"usr/bin/{NAME}": (release.programs[architecture], 0o755),
        SETTINGS: ((SYSTEMD / "environment.example").read_bytes(), 0o600),
        f"usr/share/doc/{NAME}/copyright": ((ROOT / "LICENSE").read_bytes(), 0o644),
        f"usr/share/doc/{NAME}/credentials.conf": ((SYSTEMD / "credentials.conf").read_bytes(), 0o644),
    }
    found.update({f"usr/lib/systemd/system/{name}": (unit(name), 0o644) for name in UNITS})
    found.update({f"usr/share/man/man1/{name}.gz": (pack.compressed(page), 0o644) for name, page in release.manual.items()})
    found.update({f"usr/share/{path}": (text, 0o644) for path, text in release.completions.items()})
    return found


def folders(names):
    """Each folder above these files."""
    return {str(parent) for name in names for parent in PurePosixPath(name).parents if str(parent) != "."}


def package(release, architecture):
    """The name of the file, and its bytes."""
    found = files(release, architecture)
    entries = [pack.Entry(f"./{name}", data, mode) for name, (data, mode) in found.items()]
    entries += [pack.Entry(f"./{name}/", None, 0o755) for name in folders(found)] + [pack.Entry("./", None, 0o755)]
    size = -(-sum(len(data) for data, _ in found.values()) // 1024)
    control = CONTROL.format(name=NAME, maintainer=MAINTAINER, version=release.version, architecture=architecture.debian, size=size, summary=SUMMARY)
    sums = "".join(f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name}\n" for name, (data, _) in sorted(found.items()))
    scripts = {"postinst": POSTINST + UPGRADED.format(name=NAME), "prerm": PRERM.format(name=NAME), "postrm": POSTRM}
    about = [pack.Entry("./", None, 0o755), pack.Entry("./control", control.encode()), pack.Entry("./md5sums", sums.encode()),
             pack.Entry("./conffiles", f"/{SETTINGS}\n".encode())]
    about += [pack.Entry(f"./{name}", text.encode(), 0o755) for name, text in scripts.items()]
    members = [("debian-binary", b"2.0\n"), ("control.tar.gz", pack.tar_gz(about, release.epoch)),
               ("data.tar.gz", pack.tar_gz(entries, release.epoch))]
    return f"{NAME}_{release.version}_{architecture.debian}.deb", pack.ar(members, release.epoch)
