"""Values that an earlier version saved: read as what they were, or refused by name."""

import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parts import require_module
from stored.asking.questions import ASKED, KNOWN
from stored.files import DATA, assert_same, plain, unpack
from superarm import DataError, load
from superarm.saving import load_value
from superarm.saving.names import current_name

RTOL = 1e-8
"""Of the largest number of an answer. What was saved is read bit for bit; answers are computed from
it, and every processor rounds its own way: solves have condition numbers up to 1e5, those of
ensembles stop at 1e-10 of a posterior deviation."""

ON_DEVICE = "superarm.devices"


def members(folder: str) -> Iterator[str]:
    """Yield the names of all stored values, as group and name."""
    for archive in sorted((DATA / folder).glob("*.tar.gz")):
        with tarfile.open(archive) as content:
            names = sorted(content.getnames())
        group = archive.name.removesuffix(".tar.gz")
        yield from (f"{group}/{Path(n).stem}" for n in names if n.endswith(".superarm"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all stored values in it."""
    folder = tmp_path_factory.mktemp("stored")
    for archive in sorted(DATA.glob("*/*.tar.gz")):
        if archive.parent.name in {"saved", "removed"}:
            kind, group = archive.parent.name, archive.name.removesuffix(".tar.gz")
            unpack(archive, folder / kind / group)
    return folder


def names_in(path: Path) -> set[str]:
    """Return the classes and functions that a saved value is made of."""
    names: set[str] = set()

    def look(tree: Any) -> None:
        match tree:
            case {"name": str(name)}:
                names.add(name)
            case {"type": str(name), "fields": dict(parts)}:
                names.add(name)
                look(list(parts.values()))
            case {"dict": dict(parts)}:
                look(list(parts.values()))
            case {"list": list(parts)} | {"tuple": list(parts)} | list(parts):
                for part in parts:
                    look(part)

    with zipfile.ZipFile(path) as archive:
        look(json.loads(archive.read("state.json")))
    return names


def removed_from(path: Path) -> set[str]:
    """Return what a saved value needs that was removed since."""
    removed = set()
    for name in names_in(path):
        try:
            current_name(name, "")
        except DataError:
            removed.add(name)
    return removed


def read(path: Path, *, is_run: bool) -> tuple[Any, dict[str, Any]]:
    """Return a value, and what its question needs besides."""
    if not is_run:
        content = load_value(path, known=KNOWN)
        return content["value"], content["given"]
    run = load(path, known=KNOWN)
    assert run.t == 4
    assert run.world is not None
    given: dict[str, Any] = load_value(path.with_suffix(".given"), known=KNOWN)
    return run.agent, given | {"mind": run.mind}


@pytest.mark.parametrize("name", list(members("saved")))
def test_a_saved_value_is_what_it_was_or_what_it_needs_is_named(unpacked: Path, name: str) -> None:
    path = unpacked / "saved" / f"{name}.superarm"
    record = json.loads(path.with_suffix(".json").read_text())
    if any(part.startswith(ON_DEVICE) for part in names_in(path)):
        require_module("torch", "torch")
    if removed_from(path):
        with pytest.raises(DataError, match="which was removed in"):
            read(path, is_run=record["is_run"])
        return
    value, given = read(path, is_run=record["is_run"])
    answer = plain(ASKED[record["asked"]](value, **given))
    assert_same(answer, record["answer"], RTOL)


@pytest.mark.parametrize("name", list(members("removed")))
def test_what_was_removed_is_named(unpacked: Path, name: str) -> None:
    path = unpacked / "removed" / f"{name}.superarm"
    removed = removed_from(path)
    assert removed
    with pytest.raises(DataError, match="which was removed in") as raised:
        load_value(path)
    assert any(name in str(raised.value) for name in removed)
    assert str(path) in str(raised.value)
