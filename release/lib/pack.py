"""Archives that are the same bytes whenever they are made: names in order, one instant, one owner, no name of the file."""

import gzip
import io
import tarfile
import time
import zipfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file, or a folder where `data` is None."""

    name: str
    data: bytes | None
    mode: int = 0o644
    owner: int = 0


def tar(entries, epoch):
    """An uncompressed tar archive, with each folder before what it holds."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in sorted(entries, key=lambda entry: entry.name):
            info = tarfile.TarInfo(entry.name)
            info.mtime, info.mode = epoch, entry.mode
            info.uid = info.gid = entry.owner
            if entry.data is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def compressed(data):
    """gzip, without the time and the name of a file."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def tar_gz(entries, epoch):
    return compressed(tar(entries, epoch))


def zipped(entries, epoch):
    """A zip archive; in the order given, since a wheel ends with its list of files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, time.gmtime(epoch)[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, so that the mode counts
            info.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(info, entry.data)
    return out.getvalue()


def ar(members, epoch):
    """The archive that a Debian package is."""
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += data + b"\n" * (len(data) % 2)
    return out
