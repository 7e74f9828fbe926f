"""Limits on what an OpenStreetMap file may unpack to, checked before osmium reads it.

Osmium keeps a whole object of a text file, or a whole block of .osm.pbf, in memory. A small packed
file may hold objects of gigabytes. So files are looked through before, in bounded memory: text for
objects that do not end, and blocks for what they take once all texts are written out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import decompressobj
from zlib import error as ZlibError  # noqa: N812 - an exception

import numpy as np

from superarm.arrays import Rows
from superarm.errors import DataError
from superarm.saving.compressed import CHUNK, MOST_BYTES, open_packed, require_unpacked

MOST_PBF_BYTES = MOST_BYTES // 8
"""The limit on unpacked .osm.pbf, which says the same in an eighth of the bytes."""

MOST_OBJECT_BYTES = 16 * 2**20
"""Text of one node, way or relation; the largest of OpenStreetMap have some 2 MB."""

MOST_BLOCK_BYTES = 64 * 2**20
"""Memory of one block of .osm.pbf, estimated generously; those of real maps take up to 14 MiB.

Osmium has some twenty blocks in memory at once.
"""

MOST_WAY_NODES = 20_000
"""Nodes of one way; OpenStreetMap itself allows 2,000."""

MOST_ROAD_NODES = 20_000_000
"""Nodes of all roads of a file together; two million edges have some five million."""

_OBJECTS = (b"<node", b"<way", b"<relation")
_HEADER_BYTES, _BLOB_BYTES = 64 * 2**10, 32 * 2**20  # limits of the format itself
_KIND, _SIZE = 1, 3  # fields of a header
_RAW, _ZLIB = 1, 3  # fields of a blob
_STRINGS, _GROUP = 1, 2  # fields of a block
_NODE, _DENSE, _WAY, _RELATION = 1, 2, 3, 4  # fields of a group
_TEXTS = {_NODE: (2, 3), _DENSE: (10,), _WAY: (2, 3), _RELATION: (2, 3, 8)}  # keys, values, roles
_REFERENCES = {_WAY: 8, _RELATION: 9}
_MOST_FIELDS = 1_000_000  # of one block; each takes a microsecond here
_MOST_TIMES = 32  # all blocks in memory as a multiple of their bytes; real maps have 15 to 17
_OBJECT_BYTES, _TEXT_BYTES, _REFERENCE_BYTES = 64, 16, 16  # memory, generously


def require_bounded(source: Path, most_bytes: int | None = None) -> None:
    """Raise `DataError` if reading a file would take unreasonable time or memory.

    Args:
        source: an OpenStreetMap file.
        most_bytes: the limit on unpacked bytes.
    """
    if source.name.lower().endswith(".pbf"):
        _require_blocks(source, MOST_PBF_BYTES if most_bytes is None else most_bytes)
    else:
        _require_objects(source, MOST_BYTES if most_bytes is None else most_bytes)


def _require_objects(source: Path, most_bytes: int) -> None:
    """Check text: "<" cannot stand in values, so that every "<way" begins a way."""
    begin = offset = 0  # where the last object began, and where the next chunk begins
    tail = b""  # of the chunk before, since a name may be cut in two
    seen = commented = False
    with open_packed(source, most_bytes) as file:
        while chunk := file.read(CHUNK):
            text, base = tail + chunk, offset - len(tail)
            offset += len(chunk)
            starts = [at for name in _OBJECTS if (at := text.find(name)) >= 0]
            if (base + min(starts) if starts else offset) - begin > MOST_OBJECT_BYTES:
                msg = (
                    f"{source} has one object or gap of more than {MOST_OBJECT_BYTES:,} bytes, "
                    "which no map has; get another extract, or write it anew with osmium cat"
                )
                raise DataError(msg)
            if starts:
                begin = base + max(text.rfind(name) for name in _OBJECTS)
            # "<way" in a comment, in CDATA or in an instruction begins no way, and would hide one
            first = 0 if seen else min(starts, default=len(text))
            seen = seen or bool(starts)
            commented = commented or b"<!" in text[first:] or b"<?" in text[first:]
            if commented and offset > MOST_OBJECT_BYTES:
                msg = (
                    f"{source} has comments between its objects, which files of more than "
                    f"{MOST_OBJECT_BYTES:,} bytes must not have; write it anew with osmium cat"
                )
                raise DataError(msg)
            tail = text[-len(_OBJECTS[-1]) :]


class _TooLargeError(Exception):
    """A block takes more memory than allowed."""


@dataclass
class _Memory:
    """What one block may still take."""

    left: int = MOST_BLOCK_BYTES
    fields_left: int = _MOST_FIELDS

    def take(self, size: int) -> None:
        """Charge some bytes."""
        self.left -= size
        if self.left < 0:
            raise _TooLargeError

    def fields(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield the fields of a message, and count them."""
        for field in _fields(data):
            self.fields_left -= 1
            if self.fields_left < 0:
                raise _TooLargeError
            yield field


def _require_blocks(source: Path, most_bytes: int) -> None:
    """Check .osm.pbf: what its blocks unpack to together, and what each takes in memory."""
    total = taken = 0
    try:
        for kind, block in _blocks(source):
            total += len(block)
            require_unpacked(source, max(total, taken // _MOST_TIMES), most_bytes)
            if kind == b"OSMData":
                memory = _Memory()
                _measure(block, memory)
                taken += MOST_BLOCK_BYTES - memory.left
    except _TooLargeError as error:
        msg = (
            f"{source} has one block that takes more than {MOST_BLOCK_BYTES:,} bytes of memory, "
            "which no map has; get another extract, or write it anew with osmium cat"
        )
        raise DataError(msg) from error
    except (IndexError, ValueError, ZlibError) as error:
        msg = f"{source} could not be read: {error}; it is damaged, or not an .osm.pbf file"
        raise DataError(msg) from error


def _blocks(source: Path) -> Iterator[tuple[bytes, memoryview]]:
    """Yield blocks, unpacked, and of which kind they are."""
    with source.open("rb") as file:
        while size := file.read(4):  # of a header, which tells the size of the blob behind it
            header = dict(_fields(_exactly(file.read, int.from_bytes(size, "big"), _HEADER_BYTES)))
            length, _ = _varint(header.get(_SIZE, memoryview(b"\0")), 0)
            blob = dict(_fields(_exactly(file.read, length, _BLOB_BYTES)))
            if _RAW not in blob and _ZLIB not in blob:
                msg = (
                    f"{source} is not packed by zlib, so that its size is not known; write it anew "
                    "with osmium cat"
                )
                raise DataError(msg)
            yield bytes(header.get(_KIND, b"")), blob.get(_RAW) or _unpacked(blob[_ZLIB])


def _unpacked(packed: memoryview) -> memoryview:
    unpacker = decompressobj()
    content = unpacker.decompress(packed, _BLOB_BYTES)
    if not unpacker.eof:
        msg = f"a block is cut short, or unpacks to more than {_BLOB_BYTES:,} bytes"
        raise ValueError(msg)
    return memoryview(content)


def _measure(block: memoryview, memory: _Memory) -> None:
    """Charge what a block takes: its objects, their references, and texts wherever they are used.

    A block holds every text once, and objects name texts by number.
    """
    lengths: Rows = np.zeros(1, dtype=np.intp)
    texts: list[memoryview] = []
    objects = 0
    for number, part in memory.fields(block):
        if number == _STRINGS:
            lengths = np.array([len(text) for _, text in memory.fields(part)], dtype=np.intp)
        for kind, message in memory.fields(part) if number == _GROUP else ():
            objects += 1
            for field, content in memory.fields(message):
                if field in _TEXTS.get(kind, ()):
                    texts.append(content)
                elif field == _REFERENCES.get(kind):
                    memory.take(_REFERENCE_BYTES * len(content))
                elif (kind, field) == (_DENSE, 1):  # one message of many nodes: here are their ids
                    objects += len(content)
    # every object repeats the name of its user, which may be the longest text
    memory.take(objects * (_OBJECT_BYTES + int(lengths.max(initial=0))))
    used = b"".join(texts)
    memory.take(_TEXT_BYTES * len(used))
    memory.take(int(lengths[np.clip(_varints(used), 0, lengths.size - 1)].sum()))


def _exactly(read: Callable[[int], bytes], size: int, most: int) -> memoryview:
    content = read(size) if size <= most else b""
    if not size or len(content) < size:
        msg = f"a part of {size:,} bytes is missing or too large"
        raise ValueError(msg)
    return memoryview(content)


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the numbers and contents of the fields of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        begin, wire = at, key & 7
        if wire == 0:  # a number
            _, at = _varint(data, at)
        elif wire == 2:  # noqa: PLR2004 - a text or a message, behind its length
            size, begin = _varint(data, at)
            at = begin + size
        elif wire in {1, 5}:  # eight or four bytes
            at += 8 if wire == 1 else 4
        else:
            msg = f"there are no fields of type {wire}"
            raise ValueError(msg)
        if at > len(data):
            msg = "a field is longer than the message around it"
            raise ValueError(msg)
        yield key >> 3, data[begin:at]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number, seven bits in each byte, and where the next field begins."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:  # noqa: PLR2004 - the last one
            return number, at
    msg = "a number has more than ten bytes"
    raise ValueError(msg)


def _varints(data: bytes) -> Rows:
    """Return all numbers of a packed field."""
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw < 128)  # noqa: PLR2004 - the last byte of each
    if not ends.size:
        return np.empty(0, dtype=np.intp)
    starts = np.append(0, ends[:-1] + 1)
    within = np.arange(ends[-1] + 1) - np.repeat(starts, ends - starts + 1)
    parts = (raw[: ends[-1] + 1] & 127).astype(np.intp) << np.minimum(7 * within, 56)
    return np.add.reduceat(parts, starts)
