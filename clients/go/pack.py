"""Writes the module into a folder that Go takes for a proxy: python pack.py FOLDER

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
# Not part of the module: what is built, and folders with a module file of their own.
LEFT_OUT = {"build", "tests", "tools", "__pycache__"}
WRITTEN = "2026-01-01T00:00:00Z"  # the same for all, as the order is


def sources() -> list[tuple[str, pathlib.Path]]:
    """The files of the module, with their names in it."""
    found = [path for path in sorted(HERE.rglob("*")) if path.is_file() and path.suffix in (".go", ".mod", ".sum", ".md", ".sql")]
    kept = [path for path in found if not LEFT_OUT & set(path.relative_to(HERE).parts)]
    return [*((str(path.relative_to(HERE)), path) for path in kept), ("LICENSE", HERE.parents[1] / "LICENSE")]


def pack(folder: pathlib.Path) -> None:
    """Writes the module."""
    versions = folder / MODULE / "@v"
    versions.mkdir(parents=True, exist_ok=True)
    (versions / "list").write_text(f"{VERSION}\n", encoding="utf-8")
    (versions / f"{VERSION}.info").write_text(json.dumps({"Version": VERSION, "Time": WRITTEN}), encoding="utf-8")
    (versions / f"{VERSION}.mod").write_bytes((HERE / "go.mod").read_bytes())
    with zipfile.ZipFile(versions / f"{VERSION}.zip", "w", zipfile.ZIP_DEFLATED) as module:
        for name, path in sources():
            module.writestr(zipfile.ZipInfo(f"{MODULE}@{VERSION}/{name}"), path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    pack(pathlib.Path(sys.argv[1]))
