"""Where stored values lie, and how numbers from them are compared with what was recorded."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"


def compress(path: Path, content: bytes) -> None:
    """Write a compressed file, without a name or a time inside."""
    path.write_bytes(gzip.compress(content, mtime=0))


def plain(value: Any) -> Any:
    """Return a value as numbers, texts, lists and dictionaries: dataclasses by their fields."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (FunctionType, type)):
        return value.__name__
    if isinstance(value, Mapping):
        return plain_parts(value)
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def plain_parts(parts: Mapping[Any, object]) -> dict[str, Any]:
    """Return the same of every part."""
    return {str(name): plain(part) for name, part in parts.items()}


def write_json(path: Path, value: object) -> None:
    """Write a value as compressed JSON."""
    compress(path, json.dumps(plain(value)).encode())


def pack(folder: Path, target: Path) -> None:
    """Write all files of a folder into one, without owners and times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    compress(target, buffer.getvalue())


def unpack(source: Path, folder: Path) -> Path:
    """Write the files of an archive into a folder, which is returned."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_json(path: Path) -> Any:
    """Return what `write_json` has written."""
    return json.loads(gzip.decompress(path.read_bytes()))


def assert_same(actual: Any, expected: Any, rtol: float, place: str = "") -> None:
    """Compare values part by part; numbers within `rtol` of the largest of their list.

    What is found may say more than what was recorded: classes may have got more fields.
    """
    if isinstance(expected, Mapping):
        assert expected.keys() <= actual.keys(), f"{place}: {expected.keys() - actual.keys()} lack"
        for name, part in expected.items():
            assert_same(actual[name], part, rtol, f"{place}/{name}")
    elif isinstance(expected, list) and not _is_numeric(expected):
        assert len(actual) == len(expected), place
        for number, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_same(left, right, rtol, f"{place}[{number}]")
    elif isinstance(expected, (float, list)):
        finite = np.asarray(expected, dtype=np.float64)[np.isfinite(expected)]
        scale = float(np.abs(finite).max(initial=0.0))
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale, err_msg=place)
    else:
        assert type(actual) is type(expected), f"{place}: {actual!r} instead of {expected!r}"
        assert actual == expected, f"{place}: {actual!r} instead of {expected!r}"


def _is_numeric(values: list[Any]) -> bool:
    """Say whether a list holds numbers alone, some of them no whole ones, in any shape."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return False
    return array.dtype.kind == "f"
