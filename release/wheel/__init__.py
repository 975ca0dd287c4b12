"""Where the program of this package is: `idempotency-ledger`, the server and its command line in one."""

from __future__ import annotations

import os
import sysconfig

__all__ = ["program"]

_NAME = "idempotency-ledger"


def program() -> str:
    """The path of the program that was installed with this module.

    Raises FileNotFoundError if it is at none of the places where pip installs scripts.
    """
    schemes = [None, "posix_user"]
    folders = [sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts") for scheme in schemes]
    for folder in folders:
        path = os.path.join(folder, _NAME)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"{_NAME} is in none of {', '.join(folders)}: install the package again, with its scripts")
