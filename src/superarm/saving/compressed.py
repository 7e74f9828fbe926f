"""Files that may be compressed, read with a limit on what they unpack to."""

import bz2
import gzip
import io
import shutil
import zlib
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from superarm.errors import DataError

MOST_BYTES = 8 * 2**30
"""Files that unpack to more are refused, unless the caller allows it."""

MOST_TABLE_BYTES = 512 * 2**20
"""The limit for tables and tracks of points, whose rows take ten times as much in memory."""

CHUNK = 1 << 20
"""How much is unpacked at once."""


MORE = "allow more with most_bytes if you trust it"
"""What to do about a file that unpacks to too much, beside splitting it."""

MORE_OF_TABLES = "allow more with most_bytes, or --most-mb of the command, if you trust it"
"""The same of tables and tracks."""


def open_packed(path: Path, most_bytes: int = MOST_BYTES, more: str = MORE) -> BinaryIO:
    """Open a file for reading, unpacking gzip and bzip2 on the way.

    Reading raises `DataError` where the file is damaged or unpacks to more than allowed.

    Args:
        path: the file; its first bytes say how it is packed.
        most_bytes: the limit on unpacked bytes, also of files that are not packed.
        more: what its error says about allowing more.
    """
    require_file(path)
    return io.BufferedReader(_Unpacked(path, most_bytes, more), CHUNK)


def open_table(path: Path, most_bytes: int = MOST_TABLE_BYTES) -> TextIO:
    """Open a CSV file for reading, as `open_packed` does.

    Args:
        path: the file, in UTF-8, with or without the mark by which Excel begins it.
        most_bytes: the limit on unpacked bytes.
    """
    packed = open_packed(path, most_bytes, MORE_OF_TABLES)
    return io.TextIOWrapper(packed, encoding="utf-8-sig", newline="")


def unpack(source: Path, target: Path, most_bytes: int = MOST_BYTES) -> None:
    """Copy a file, unpacking it, or raise `DataError` if it is damaged or too large."""
    with open_packed(source, most_bytes) as packed, target.open("wb") as out:
        shutil.copyfileobj(packed, out, CHUNK)


def require_small(path: Path, most_bytes: int = MOST_BYTES, more: str = MORE) -> None:
    """Raise `DataError` if a file unpacks to more than allowed; that takes no memory.

    Unpacking is some twenty times as fast as making values of what is unpacked.

    Args:
        path: the file.
        most_bytes: the limit on unpacked bytes.
        more: what the error says about allowing more.
    """
    with open_packed(path, most_bytes, more) as file:
        while file.read(CHUNK):
            pass


def require_unpacked(
    path: Path, unpacked_bytes: int, most_bytes: int = MOST_BYTES, more: str = MORE
) -> None:
    """Raise `DataError` if a file unpacks to more bytes than allowed."""
    if unpacked_bytes > most_bytes:
        msg = (
            f"{path} unpacks to more than {most_bytes:,} bytes and is refused; split it, or {more}"
        )
        raise DataError(msg)


def require_file(path: Path, advice: str = "check the path") -> None:
    """Raise a plain error if there is no such file."""
    if not path.is_file():
        msg = f"there is no file {path}; {advice}"
        raise FileNotFoundError(msg)


class _Unpacked(io.RawIOBase):
    """What a file unpacks to, counted while it is read."""

    def __init__(self, path: Path, most_bytes: int, more: str) -> None:
        """Open the file and look at how it is packed."""
        super().__init__()
        self._path, self._most_bytes, self._more, self._total = path, most_bytes, more, 0
        self._file = path.open("rb")
        head = self._file.peek(3)[:3]
        self._content: Any = self._file
        if head[:2] == b"\x1f\x8b":
            self._content = gzip.GzipFile(fileobj=self._file)
        elif head == b"BZh":
            self._content = bz2.BZ2File(self._file)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        """Unpack into a buffer, within the limit."""
        try:
            count: int = self._content.readinto(buffer)
        except (OSError, EOFError, zlib.error) as error:
            msg = f"{self._path} is damaged: {error}"
            raise DataError(msg) from error
        self._total += count
        require_unpacked(self._path, self._total, self._most_bytes, self._more)
        return count

    def close(self) -> None:
        """Close the file as well."""
        if not self.closed:
            self._content.close()
            self._file.close()
        super().close()
