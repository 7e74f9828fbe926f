"""Arrays that take long to make, kept in files: made once, then read where they lie."""

import json
import logging
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from superarm.arrays import frozen
from superarm.saving.files import write_atomically

Arrays: TypeAlias = Mapping[str, Any]
"""Arrays by name."""

logger = logging.getLogger("superarm.service")

_FORMAT = 2
_AT_ONCE = 2**24


@dataclass(frozen=True)
class Kept:
    """A folder of what was made for one network and model.

    Large arrays are mapped, not read: processes of one machine share them, and of a start only the
    look at their checksums is left.

    Attributes:
        folder: made when something is written.
        mark: what it was made for; what was made for something else is made again.
    """

    folder: Path
    mark: str

    def found_or_made(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Return arrays from their files; they are made and written if these are not sound.

        Where they cannot be written the service does without, and says so.
        """
        found = self._found(name)
        if found is not None:
            return found
        made = make()
        try:
            self._write(name, made)
        except OSError as error:  # a full disk, a folder that may not be written
            logger.warning(
                "%s is not kept in %s, so that every start takes longer: %s",
                name,
                self.folder,
                error,
            )
        return made

    def _found(self, name: str) -> Arrays | None:
        """Return arrays that are complete, undamaged and of this mark."""
        try:
            known = json.loads(self._list(name).read_text(encoding="utf-8"))
            if known["format"] != _FORMAT or known["mark"] != self.mark:
                return None
            found = {}
            for key, value in dict(known["checksums"]).items():
                file = self._file(name, key)
                if checksum(file) != value:  # before anything of it is believed
                    return None
                found[key] = self._mapped(file)
        except (OSError, ValueError, EOFError, KeyError, TypeError):  # none yet, or damaged
            return None
        return found

    @staticmethod
    def _mapped(file: Path) -> Any:  # noqa: ANN401 - an array
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
        return frozen(mapped.view(np.ndarray))

    def _write(self, name: str, arrays: Arrays) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._list(name).unlink(missing_ok=True)
        checksums = {}
        try:
            for key, array in arrays.items():
                file = self._file(name, key)
                write_atomically(file, partial(_save, array=array))
                checksums[key] = checksum(file)
            told = json.dumps({"format": _FORMAT, "mark": self.mark, "checksums": checksums})
            write_atomically(self._list(name), lambda file: file.write(told.encode()))
        except OSError:
            for key in arrays:  # of no use without all others, and large
                self._file(name, key).unlink(missing_ok=True)
            raise

    def _list(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _file(self, name: str, key: str) -> Path:
        return self.folder / f"{name}-{key}.npy"


def _save(file: IO[bytes], array: Any) -> None:  # noqa: ANN401 - an array
    np.save(file, array, allow_pickle=False)


def checksum(file: Path) -> str:
    """Return a checksum against damage, not against those who mean harm: a second for 5 GB."""
    data, found = np.memmap(file, np.uint8, mode="r").data, 0
    for begin in range(0, len(data), _AT_ONCE):
        found = zlib.crc32(data[begin : begin + _AT_ONCE], found)
    return f"{len(data)} {found:08x}"
