"""Writes values of every stored format, with what they say: run to add new ones, never others.

    PYTHONPATH=tests python tests/stored/write.py

Everything under ``data`` was written at commit 7ac0679 (version 0.1.0) by these modules, which
follow the library as it moves on. Files that are there are left as they are: they stand for what
users have. Removed values were written likewise by a module that is not here any more.
"""

import importlib
import inspect
import json
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import superarm
from stored.asking.questions import ASKED
from stored.files import DATA, pack, plain
from stored.writing import agents, choosing, learning, records, roads
from stored.writing.fixture import Fixture
from stored.writing.learner import write_learner
from stored.writing.service import Writing, write_database
from stored.writing.studies import write_roads, write_studies
from superarm import save
from superarm.saving import save_value
from superarm.saving.encoding import Encoder


def saved_values() -> Iterator[Fixture]:
    """Return every value that `superarm.saving` can keep."""
    for module in (learning, choosing, roads, records, agents):
        for make in module.FIXTURES:
            yield from make()


def write_saved(folder: Path, fixtures: Iterable[Fixture]) -> None:
    """Write values and what they say, one archive for every group that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[Fixture]] = {}
    for fixture in fixtures:
        groups.setdefault(fixture.name.partition("/")[0], []).append(fixture)
    for group, members in groups.items():
        target = folder / f"{group}.tar.gz"
        if not target.exists():
            with tempfile.TemporaryDirectory() as temporary:
                for number, fixture in enumerate(members):
                    _write_value(Path(temporary), fixture, number)
                pack(Path(temporary), target)


def _write_value(folder: Path, fixture: Fixture, number: int) -> None:
    path = folder / f"{fixture.name.partition('/')[2]}.superarm"
    given = dict(fixture.given)
    if fixture.is_run:
        streams = [_generator(number), _generator(number + 1)]
        save(fixture.value, path, t=4, world=streams[0], mind=streams[1])
        save_value(given, path.with_suffix(".given"))
        given["mind"] = streams[1]
    else:
        save_value({"value": fixture.value, "given": given}, path)
    answer = ASKED[fixture.asked](fixture.value, **given)
    record = {"asked": fixture.asked, "is_run": fixture.is_run, "answer": plain(answer)}
    path.with_suffix(".json").write_text(json.dumps(record))


def _generator(number: int) -> np.random.Generator:
    kinds = (np.random.PCG64, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM)
    return np.random.Generator(kinds[number % len(kinds)](number))


def write_service(folder: Path) -> None:
    """Write a service's database and what its learner keeps."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        writing = Writing(Path(temporary))
        writing.fill()
        writing.fleet.network.save(folder / "network.npz")
        write_learner(writing, folder)
        write_database(writing, folder)


def not_stored(fixtures: Iterable[Fixture]) -> list[str]:
    """Return the public classes that no value holds; most of them cannot be saved."""
    held: set[str] = set()
    for fixture in fixtures:
        encoder = Encoder()
        encoder.encode([fixture.value, fixture.given])
        held |= encoder.named.keys()
    return sorted(_public_classes() - held)


def _public_classes() -> set[str]:
    names = set()
    for module in pkgutil.walk_packages(superarm.__path__, "superarm."):
        if "__main__" in module.name or "migrations" in module.name:
            continue
        package = importlib.import_module(module.name)
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if inspect.isclass(thing):
                names.add(f"{thing.__module__}:{thing.__qualname__}")
    return names


def main() -> None:
    """Write what is not there yet, and say which public classes nothing stored holds."""
    write_saved(DATA / "saved", saved_values())
    for name, write in (
        ("service", write_service),
        ("roads", write_roads),
        ("studies", write_studies),
    ):
        folder = DATA / name
        if folder.exists():
            continue
        try:
            write(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    for name in not_stored(saved_values()):
        sys.stdout.write(f"not stored: {name}\n")


if __name__ == "__main__":
    main()
