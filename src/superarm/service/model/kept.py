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

_FORMAT = 1
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
            arrays = {key: self._mapped(name, key) for key in known["checksums"]}
        except (OSError, ValueError, EOFError, KeyError, TypeError):  # none yet, or damaged
            return None
        sound = all(checksum(arrays[key]) == value for key, value in known["checksums"].items())
        return arrays if sound else None

    def _mapped(self, name: str, key: str) -> Any:  # noqa: ANN401 - an array
        mapped = np.load(self._file(name, key), mmap_mode="r", allow_pickle=False)
        return frozen(mapped.view(np.ndarray))

    def _write(self, name: str, arrays: Arrays) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._list(name).unlink(missing_ok=True)
        for key, array in arrays.items():
            write_atomically(self._file(name, key), partial(_save, array=array))
        checksums = {key: checksum(array) for key, array in arrays.items()}
        told = json.dumps({"format": _FORMAT, "mark": self.mark, "checksums": checksums})
        write_atomically(self._list(name), lambda file: file.write(told.encode()))

    def _list(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _file(self, name: str, key: str) -> Path:
        return self.folder / f"{name}-{key}.npy"


def _save(file: IO[bytes], array: Any) -> None:  # noqa: ANN401 - an array
    np.save(file, array, allow_pickle=False)


def checksum(array: Any) -> str:  # noqa: ANN401 - an array
    """Return a checksum against damage, not against those who mean harm: a second for 5 GB."""
    plain, found = np.ascontiguousarray(array), 0
    data = plain.reshape(-1).view(np.uint8).data
    for begin in range(0, plain.nbytes, _AT_ONCE):
        found = zlib.crc32(data[begin : begin + _AT_ONCE], found)
    return f"{plain.dtype.str} {plain.shape} {found:08x}"
