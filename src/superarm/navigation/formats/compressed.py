"""Files that may be compressed, read with a limit on what they unpack to."""

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from superarm.errors import DataError

MOST_BYTES = 8 * 2**30
"""Unpacked files beyond this are refused."""

_CHUNK = 1 << 20


def unpack(source: Path, target: Path, most_bytes: int = MOST_BYTES) -> None:
    """Copy a file, unpacking gzip, or raise `DataError` if it is damaged or too large."""
    try:
        with source.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with source.open("rb") as raw, target.open("wb") as out:
            read = gzip.GzipFile(fileobj=raw).read if packed else raw.read
            _copy(source, read, out, most_bytes)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{source} is damaged: {error}"
        raise DataError(msg) from error


def _copy(source: Path, read: Callable[[int], bytes], out: IO[bytes], most_bytes: int) -> None:
    total = 0
    while chunk := read(_CHUNK):
        total += len(chunk)
        if total > most_bytes:
            msg = f"{source} unpacks to more than {most_bytes:,} bytes; refused"
            raise DataError(msg)
        out.write(chunk)


def require_file(path: Path) -> None:
    """Raise a plain error if there is no such file."""
    if not path.is_file():
        msg = f"there is no file {path}"
        raise FileNotFoundError(msg)
