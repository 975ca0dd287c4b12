"""Writes an archive again, with its files in order and one instant for all, SOURCE_DATE_EPOCH: python repack.py FILE.tar.gz"""

import os
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import pack  # noqa: E402


def main():
    file = pathlib.Path(sys.argv[1])
    with tarfile.open(file) as archive:
        members = [pack.Entry(member.name, archive.extractfile(member).read(), 0o644) for member in archive if member.isfile()]
    file.write_bytes(pack.tar_gz(members, int(os.environ["SOURCE_DATE_EPOCH"])))


if __name__ == "__main__":
    main()
