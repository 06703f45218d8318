"""Files that are whole at every moment: written beside their place, then put there in one step."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def require_writable(path: Path) -> None:
    """Find out whether a file can be written, without changing it.

    Raises:
        OSError: It cannot.
    """
    place = _place(path)
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if is_replaceable(path):
        beside = _beside(place)
        os.close(_create(beside))
        beside.unlink()


def is_replaceable(path: Path) -> bool:
    """Whether something else can be put in the file's place: not where a device or a pipe is."""
    place = _place(path)
    return place.is_file() or not place.exists()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file; whoever reads it meanwhile, or after a crash, finds the old content or the new.

    A link stays, and what it points to is replaced; so do the permissions of a file that is there. A device or a pipe
    is written to.

    Raises:
        OSError: It could not be written; what was there is there still.
    """
    place = _place(path)
    if not is_replaceable(path):
        place.write_bytes(data)
        return
    beside = _beside(place)
    try:
        with os.fdopen(_create(beside), "wb") as stream:
            if place.exists():
                os.fchmod(stream.fileno(), place.stat().st_mode & 0o777)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # some file systems say only now that there is no room
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def _place(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _beside(place: Path) -> Path:
    # Not longer than any name may be, and not ending as results do.
    return place.with_name(f".cudabw-{secrets.token_hex(8)}.tmp")


def _create(path: Path) -> int:
    # Unlike the files of tempfile, with the permissions that every new file gets.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
