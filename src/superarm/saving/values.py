"""Any value to a file and back, without pickle: agents, beliefs, kernels, whatever they hold.

The file is a line with format, version and SHA-256, followed by a ZIP archive of ``state.json`` and
one ``.npy`` file per array. There is no pickle in it: reading it builds known dataclasses from
their fields and runs no code of the file.
"""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from superarm.errors import DataError
from superarm.saving.encoding import AnyArray, Decoder, Encoder
from superarm.saving.files import write_atomically

VERSION = 2
_MAGIC = "superarm-state"
_HEADER_BYTES = 128
_CHUNK = 1 << 20
_DAMAGED = (
    KeyError,
    ValueError,
    EOFError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    zipfile.BadZipFile,
)
"""What reading an archive raises that `save_value` has not written."""


def save_value(value: object, path: str | os.PathLike[str]) -> None:
    """Write a value to a file, which appears complete or not at all.

    Numbers, texts, arrays, tuples, lists, dictionaries with text keys, this package's values, and
    dataclasses and named functions of your own, of which `load_value` must then be told.
    """
    encoder = Encoder()
    tree = encoder.encode(value)
    Decoder("what was to be saved", encoder.arrays, encoder.named.values()).decode(tree)
    write_atomically(path, lambda file: _write(file, tree, encoder.arrays))


def load_value(path: str | os.PathLike[str], *, known: Iterable[object] = ()) -> Any:  # noqa: ANN401 - what was saved
    """Return the value of a file written by `save_value`.

    Args:
        path: the file.
        known: classes and functions of your own that the value uses.
    """
    name = os.fspath(path)
    with Path(path).open("rb") as file:
        _check_header(name, file)
        try:
            with zipfile.ZipFile(file) as archive:
                tree = json.loads(archive.read(_stored_whole(archive, "state.json")))
                return Decoder(name, _Arrays(archive), known).decode(tree)
        except _DAMAGED as error:
            msg = f"{name} is damaged: {_shown(error)}; use another copy"
            raise DataError(msg) from error


class _Arrays:
    """The arrays of an archive, read when asked for."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def __getitem__(self, key: str) -> AnyArray:
        member = _stored_whole(self._archive, f"{key}.npy")
        with self._archive.open(member) as file:
            _require_all_there(file, member.file_size)
            file.seek(0)
            array = np.lib.format.read_array(file, allow_pickle=False)
        array.setflags(write=False)
        return array


def _stored_whole(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """Return a member, which takes as many bytes of the file as it has: no small file is large."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        msg = f"{name!r} is compressed, which nothing is that was saved here"
        raise ValueError(msg)
    return member


def _require_all_there(file: IO[bytes], size: int) -> None:
    """Refuse an array whose header promises other than what follows, before room is made for it."""
    first = np.lib.format.read_magic(file) == (1, 0)
    # headers of version 3 are laid out as those of version 2
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    promised, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if promised != there:
        msg = f"an array of shape {shape} has {promised} bytes, and {there} are there"
        raise ValueError(msg)


def _shown(error: Exception) -> str:
    """Return what an error says, in a line."""
    if isinstance(error, RecursionError):
        return "it is nested more deeply than any saved value"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _write(file: IO[bytes], tree: object, arrays: dict[str, AnyArray]) -> None:
    file.write(b" " * _HEADER_BYTES)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("state.json", json.dumps(tree))
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    digest = _digest(file)
    file.seek(0)
    file.write(f"{_MAGIC} {VERSION} {digest}".encode().ljust(_HEADER_BYTES - 1) + b"\n")


def _check_header(name: str, file: IO[bytes]) -> None:
    words = file.read(_HEADER_BYTES).decode("ascii", errors="replace").split()
    if len(words) != 3 or words[0] != _MAGIC or not words[1].isdigit():  # noqa: PLR2004
        msg = f"{name} is no file of superarm: it does not start with {_MAGIC!r}, or is truncated"
        raise DataError(msg)
    if int(words[1]) != VERSION:
        other = "install a newer superarm" if int(words[1]) > VERSION else (
            "its beliefs kept less than today's need; learn again from the rewards themselves"
        )  # fmt: skip
        msg = (
            f"{name} has format version {words[1]}, this superarm reads and writes version "
            f"{VERSION}: {other}"
        )
        raise DataError(msg)
    if _digest(file) != words[2]:
        msg = f"{name} is damaged or truncated: its checksum does not match; use another copy"
        raise DataError(msg)


def _digest(file: IO[bytes]) -> str:
    file.seek(_HEADER_BYTES)
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
