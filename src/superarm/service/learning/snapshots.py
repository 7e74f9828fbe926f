"""Snapshots of a belief, so that a restart need not read all trips: complete or not there."""

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from superarm.arrays import Vector
from superarm.beliefs import DenseGP, EnsembleGP
from superarm.beliefs.ensemble import EnsembleState
from superarm.errors import DataError
from superarm.roads.models.times import TimeModel, TimeSums, TravelTimes
from superarm.saving import load_value, save_value
from superarm.saving.files import sync_folder, write_atomically
from superarm.service.trips.history import Cursor

_KEPT = 2
_FORMAT = 2  # of the manifest
_DAMAGED = (DataError, OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError)
_BELIEF, _VISITS, _TIMES, _MANIFEST = "belief", "visits.npy", "times.npz", "manifest.json"


@dataclass(frozen=True, eq=False)
class Learned:
    """A belief and how far it has read."""

    belief: DenseGP | EnsembleGP
    visits: Vector
    trips: int
    cursor: Cursor
    times: TravelTimes


class Snapshots:
    """A folder of snapshots of one network and model."""

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        database: str,
        times: TimeModel,
        resumed: Callable[[EnsembleState], EnsembleGP],
    ) -> None:
        """Make the folder; leftovers of an interrupted write are removed.

        Args:
            folder: where.
            fingerprint: of network and model.
            database: the identity of the database whose trips were learned.
            times: what is believed of travel times before the first trip.
            resumed: makes a belief from what was kept of an ensemble.
        """
        self._times, self._resumed = times, resumed
        self._folder = folder
        self._fingerprint = f"{fingerprint}-{database}"
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".writing-*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def write(self, learned: Learned) -> Path:
        """Write a snapshot; it appears complete or not at all."""
        number = max((int(path.name) for path in self._complete()), default=0) + 1
        temporary = self._folder / f".writing-{secrets.token_hex(8)}"
        temporary.mkdir()
        try:
            belief = learned.belief
            kept = EnsembleState.of(belief) if isinstance(belief, EnsembleGP) else belief
            save_value(kept, temporary / _BELIEF)
            write_atomically(temporary / _VISITS, lambda file: np.save(file, learned.visits))
            times: dict[str, Any] = learned.times.seen.stored()
            write_atomically(temporary / _TIMES, lambda file: np.savez(file, **times))
            manifest = {
                "format": _FORMAT,
                "fingerprint": self._fingerprint,
                "cursor": asdict(learned.cursor),
                "trips": learned.trips,
                "visits_sha256": _sha256(temporary / _VISITS),
                "times_sha256": _sha256(temporary / _TIMES),
            }
            content = json.dumps(manifest | {"sha256": _sum_of(manifest)}).encode()
            write_atomically(temporary / _MANIFEST, lambda file: file.write(content))
            target = self._folder / f"{number:012d}"
            temporary.rename(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(self._folder)
        for old in self._complete()[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def newest(self) -> tuple[Learned | None, list[str]]:
        """Return the newest usable snapshot, and what is wrong with newer ones.

        Damaged ones are set aside under another name, never deleted.
        """
        problems: list[str] = []
        for path in reversed(self._complete()):
            try:
                return self._read(path), problems
            except _OtherModelError as error:
                problems.append(str(error))
            except _DAMAGED as error:
                aside = path.with_name(f"damaged-{path.name}-{secrets.token_hex(4)}")
                path.rename(aside)
                problems.append(f"set aside as {aside.name}: {error}")
        return None, problems

    def _read(self, path: Path) -> Learned:
        manifest = self._read_manifest(path)
        for name, known in ((_VISITS, "visits_sha256"), (_TIMES, "times_sha256")):
            if _sha256(path / name) != manifest[known]:
                msg = f"{path / name} is damaged: its checksum does not match"
                raise DataError(msg)
        belief = load_value(path / _BELIEF)
        if isinstance(belief, EnsembleState):
            belief = self._resumed(belief)
        if not isinstance(belief, (DenseGP, EnsembleGP)):
            msg = f"{path / _BELIEF} holds no belief about roads"
            raise DataError(msg)
        return Learned(
            belief,
            np.load(path / _VISITS, allow_pickle=False),
            int(manifest["trips"]),
            Cursor(**manifest["cursor"]),
            self._read_times(path / _TIMES),
        )

    def _read_manifest(self, path: Path) -> dict[str, Any]:
        """Return what a snapshot says of itself; a changed cursor would count trips twice."""
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(manifest, dict):
            msg = f"{path / _MANIFEST} is damaged: it is no JSON object"
            raise DataError(msg)
        told = manifest.pop("sha256", None)
        if told is None and "format" not in manifest:
            msg = f"snapshot {path.name} was written by an earlier version"
            raise _OtherModelError(msg)
        if told != _sum_of(manifest):
            msg = f"{path / _MANIFEST} is damaged: its checksum does not match"
            raise DataError(msg)
        if manifest["format"] != _FORMAT or manifest["fingerprint"] != self._fingerprint:
            msg = f"snapshot {path.name} is of another network, model, database or version"
            raise _OtherModelError(msg)
        return manifest

    def _read_times(self, path: Path) -> TravelTimes:
        with np.load(path, allow_pickle=False) as stored:
            sums = TimeSums.restored({name: stored[name] for name in stored.files})
        return TravelTimes.before(self._times).after(sums)

    def _complete(self) -> list[Path]:
        return sorted(path for path in self._folder.iterdir() if path.name.isdigit())


class _OtherModelError(Exception):
    pass


def _sum_of(manifest: dict[str, Any]) -> str:
    """Return a checksum of all that a manifest says."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
