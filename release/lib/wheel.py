"""Wheels that carry the program: `pipx run idempotency-ledger serve`, and a module that says where the program is."""

import base64
import hashlib

from . import pack
from .release import NAME, ROOT, SUMMARY

MODULE = "idempotency_ledger_server"
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >=3.9
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{description}"""
WHEEL = """Wheel-Version: 1.0
Generator: release/build
Root-Is-Purelib: false
{tags}"""


def package(release, architecture):
    """The name of the file, and its bytes. The program is a script of the wheel: pip puts it on the PATH."""
    name = NAME.replace("-", "_")
    tag = f"py3-none-{architecture.wheel}"
    about = f"{name}-{release.version}.dist-info"
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in architecture.wheel.split("."))
    readme = (ROOT / "release" / "wheel" / "README.md").read_text()
    files = [
        pack.Entry(f"{MODULE}/__init__.py", (ROOT / "release" / "wheel" / "__init__.py").read_bytes()),
        pack.Entry(f"{MODULE}/py.typed", b""),
        pack.Entry(f"{name}-{release.version}.data/scripts/{NAME}", release.programs[architecture], 0o755),
        pack.Entry(f"{about}/METADATA",
                   METADATA.format(name=NAME, version=release.version, summary=SUMMARY, description=readme).encode()),
        pack.Entry(f"{about}/WHEEL", WHEEL.format(tags=tags).encode()),
        pack.Entry(f"{about}/LICENSE", release.common()["LICENSE"]),
    ]
    record = "".join(f"{entry.name},sha256={digest(entry.data)},{len(entry.data)}\n" for entry in files)
    record += f"{about}/RECORD,,\n"
    files.append(pack.Entry(f"{about}/RECORD", record.encode()))
    return f"{name}-{release.version}-{tag}.whl", pack.zipped(files, release.epoch)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
