"""Points of GPX tracks, read without keeping the tree of the file."""

from array import array
from functools import partial
from typing import BinaryIO
from xml.etree import ElementTree as ET

import numpy as np

from superarm.arrays import Matrix
from superarm.saving.compressed import CHUNK

_POINTS = frozenset({"trkpt", "rtept"})


def read_points(file: BinaryIO) -> tuple[Matrix, list[str | None]]:
    """Return longitudes and latitudes, shape (p, 2), and what each point says of its time.

    Args:
        file: of a GPX document; `ElementTree.ParseError` is raised if it is none.
    """
    points = _Points()
    parser = ET.XMLParser(target=points)  # noqa: S314 - the user's own file
    for chunk in iter(partial(file.read, CHUNK), b""):
        parser.feed(chunk)
    parser.close()
    return np.array(points.places).reshape(-1, 2), points.times


class _Points:
    """What a parser calls: it collects points and forgets everything else."""

    def __init__(self) -> None:
        self.places = array("d")  # longitude, latitude, longitude, ...
        self.times: list[str | None] = []
        self._inside: list[str] = []  # from the point inwards
        self._text: list[str] | None = None  # of a time that is being read

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        name = tag.rpartition("}")[2]
        if self._inside or name in _POINTS:
            self._inside.append(name)
        if self._inside == [name]:
            self.places.extend(float(attributes.get(key, "nan")) for key in ("lon", "lat"))
            self.times.append(None)
        elif self._inside[1:] == ["time"] and self.times[-1] is None:
            self._text = []

    def data(self, text: str) -> None:
        """Read text."""
        if self._text is not None:
            self._text.append(text)

    def end(self, _: str) -> None:
        """End an element."""
        if self._text is not None and self._inside[1:] == ["time"]:
            self.times[-1] = "".join(self._text)
            self._text = None
        if self._inside:
            self._inside.pop()
