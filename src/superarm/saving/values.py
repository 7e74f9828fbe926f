"""Any value to a file and back, without pickle: agents, beliefs, kernels, whatever they hold.

The file is a line with format, version and SHA-256, followed by a ZIP archive of ``state.json`` and
one ``.npy`` file per array. There is no pickle in it: reading it builds known dataclasses from
their fields and runs no code of the file.
"""

import hashlib
import json
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
        with zipfile.ZipFile(file) as archive:
            tree = json.loads(archive.read("state.json"))
            return Decoder(name, _Arrays(archive), known).decode(tree)


class _Arrays:
    """The arrays of an archive, read when asked for."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def __getitem__(self, key: str) -> AnyArray:
        with self._archive.open(f"{key}.npy") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        array.setflags(write=False)
        return array


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
