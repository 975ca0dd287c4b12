"""Writes the modules, the client, the adapters for brokers and the bridge, into a folder that Go takes for a proxy: python pack.py FOLDER

The same sources give the same bytes. GOPROXY=file:///FOLDER,… and GONOSUMDB=idempotency-ledger.internal then install it.
"""

from __future__ import annotations

import json
import pathlib
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MODULE = "idempotency-ledger.internal/ledger"
VERSION = "v0.1.0"
# Not part of a module: what is built, and modules of this tree alone.
LEFT_OUT = {"build", "tests", "tools", "__pycache__"}
WRITTEN = "2026-01-01T00:00:00Z"  # the same for all, as the order is


def modules() -> list[pathlib.Path]:
    """The folders of the modules: this one, and those below it that have a separate module file."""
    return [HERE, *(file.parent for file in sorted(HERE.glob("*/go.mod")) if file.parent.name not in LEFT_OUT)]


def sources(folder: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """The files of the module in the folder, with their names in it."""
    others = {other.name for other in modules()} if folder == HERE else set()
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in (".go", ".mod", ".sum", ".md", ".sql")]
    kept = [path for path in found if not (LEFT_OUT | others) & set(path.relative_to(folder).parts)]
    return [*((str(path.relative_to(folder)), path) for path in kept), ("LICENSE", HERE.parents[1] / "LICENSE")]


def pack(folder: pathlib.Path) -> None:
    """Writes the modules."""
    for module in modules():
        name = MODULE if module == HERE else f"{MODULE}/{module.name}"
        versions = folder / name / "@v"
        versions.mkdir(parents=True, exist_ok=True)
        (versions / "list").write_text(f"{VERSION}\n", encoding="utf-8")
        (versions / f"{VERSION}.info").write_text(json.dumps({"Version": VERSION, "Time": WRITTEN}), encoding="utf-8")
        (versions / f"{VERSION}.mod").write_bytes((module / "go.mod").read_bytes())
        with zipfile.ZipFile(versions / f"{VERSION}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            for path, file in sources(module):
                packed.writestr(zipfile.ZipInfo(f"{name}@{VERSION}/{path}"), file.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    pack(pathlib.Path(sys.argv[1]))
