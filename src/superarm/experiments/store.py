"""Stored runs: one directory each, complete or not there, in files that every tool can read.

``runs/<place>/<world>/<method>/<repeat>/`` holds ``manifest.json``, ``steps.parquet`` and
``visits.parquet``. A run is written beside its place and moved there as a whole, so that a
directory that exists is a finished run, whatever happens in between.
"""

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from superarm.errors import DataError
from superarm.experiments.columns import named
from superarm.experiments.config import Experiment
from superarm.experiments.execution import Record
from superarm.experiments.plan import RunSpec
from superarm.roads.network.network import RoadNetwork
from superarm.saving.files import sync_folder, write_atomically
from superarm.saving.parquet import read_columns, write_columns

FORMAT = 2

_HOST = re.sub(r"[^A-Za-z0-9.-]", "-", platform.node()) or "host"
_LIBRARIES = ("superarm", "numpy", "scipy", "numba", "pyarrow", "torch")


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run as it lies on disk."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def spec(self) -> RunSpec:
        """What the run was."""
        return RunSpec.model_validate(self.manifest["run"])

    def steps(self) -> dict[str, Any]:
        """Return the columns of all rounds."""
        return read_columns(self.folder / "steps.parquet")

    def visits(self, n_arms: int) -> Any:  # noqa: ANN401 - an array of counts
        """Return how often every arm was played (every edge driven), shape (n,)."""
        table = read_columns(self.folder / "visits.parquet")
        counts = np.zeros(n_arms)
        counts[table["position"]] = table["visits"]
        return counts


class OtherFormatError(DataError):
    """A stored run of another version of the format; it is whole, but cannot be read here."""


class RunStore:
    """The folder of one experiment."""

    def __init__(self, folder: str | Path) -> None:
        """Name the folder; it is made when something is written."""
        self.folder = Path(folder)

    def open(self) -> None:
        """Make the folder and see that it can be written to, before anything runs."""
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
            self._writing.mkdir(exist_ok=True)
            probe = self._writing / f"probe-{secrets.token_hex(8)}"
            write_atomically(probe, lambda file: file.write(b"yes"))
            probe.unlink(missing_ok=True)
        except OSError as error:
            msg = f"cannot write to {self.folder}: {error.strerror}; choose another --output"
            raise DataError(msg) from error
        for left in self._writing.iterdir():
            host, _, rest = left.name.partition("~")
            process = rest.partition("~")[0]
            if host == _HOST and process.isdigit() and not is_running(int(process)):
                shutil.rmtree(left, ignore_errors=True)  # of a process that was killed

    @property
    def _writing(self) -> Path:
        """Where runs are written before they are moved to their place."""
        return self.folder / "writing"

    def write_experiment(self, experiment: Experiment) -> None:
        """Store the experiment as it was declared, for figures and reports."""
        text = experiment.model_dump_json(indent=2, exclude_none=True).encode()
        write_atomically(self.folder / "experiment.json", lambda file: file.write(text))

    def read_experiment(self) -> Experiment:
        """Return the experiment stored here."""
        file = self.folder / "experiment.json"
        try:
            return Experiment.model_validate_json(file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            msg = f"{self.folder} holds no experiment; run one with --output {self.folder}"
            raise DataError(msg) from error
        except ValueError as error:
            msg = f"{file} is damaged: {error}; run the experiment again, finished runs are kept"
            raise DataError(msg) from error

    def write_plan(self, specs: Iterable[RunSpec]) -> None:
        """Store which runs the experiment consists of; others in the folder are none of it."""
        plan = {spec.key: spec.model_dump(mode="json", exclude_none=True) for spec in specs}
        text = json.dumps(plan, indent=1).encode()
        write_atomically(self.folder / "plan.json", lambda file: file.write(text))

    def read_plan(self) -> list[RunSpec]:
        """Return the runs the experiment consists of."""
        file = self.folder / "plan.json"
        try:
            plan = json.loads(file.read_text(encoding="utf-8"))
            return [RunSpec.model_validate(spec) for spec in plan.values()]
        except (OSError, ValueError, AttributeError) as error:
            msg = f"{file} is missing or damaged; run the experiment again, finished runs are kept"
            raise DataError(msg) from error

    def write_network(self, name: str, network: RoadNetwork) -> None:
        """Keep the network beside the runs, so that figures need nothing else."""
        file = self.folder / "networks" / f"{name}.npz"
        file.parent.mkdir(exist_ok=True)
        try:
            known = file.exists() and RoadNetwork.load(file).fingerprint() == network.fingerprint()
        except DataError:
            known = False  # it is only a copy
        if not known:
            network.save(file)

    def read_network(self, name: str) -> RoadNetwork:
        """Return a network kept beside the runs."""
        return RoadNetwork.load(self.folder / "networks" / f"{name}.npz")

    def write_routes(self, name: str, routes: Mapping[str, tuple[str, str]]) -> None:
        """Keep start and goal of a network's routes."""
        text = json.dumps(routes, indent=2).encode()
        write_atomically(self.folder / "networks" / f"{name}.json", lambda out: out.write(text))

    def read_routes(self, name: str) -> dict[str, tuple[str, str]]:
        """Return start and goal of a network's routes."""
        file = self.folder / "networks" / f"{name}.json"
        return {key: (ends[0], ends[1]) for key, ends in json.loads(file.read_text()).items()}

    def path(self, spec: RunSpec) -> Path:
        """Return where a run belongs."""
        return self.folder / "runs" / spec.key

    def write(self, spec: RunSpec, record: Record, network: RoadNetwork | None) -> Path:
        """Store a finished run; if another process has stored it meanwhile, keep that one."""
        self._place(spec, lambda folder: self._fill(folder, spec, record, network))
        return self.path(spec)

    def _place(self, spec: RunSpec, fill: Callable[[Path], object]) -> None:
        """Fill a folder beside the place of a run, then move it there as a whole."""
        target = self.path(spec)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._writing.mkdir(exist_ok=True)
        beside = self._writing / f"{_HOST}~{os.getpid()}~{secrets.token_hex(8)}"
        beside.mkdir()
        try:
            fill(beside)
            try:
                os.rename(beside, target)  # noqa: PTH104 - a directory, atomically
            except OSError:
                if not target.is_dir():
                    raise
                self._require_same(spec)  # another process was faster
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        sync_folder(target.parent)
        self._failure(spec).unlink(missing_ok=True)

    def _require_same(self, spec: RunSpec) -> None:
        there = self.read(spec)
        if there is None or there.spec != spec:
            msg = f"{self.path(spec)} was stored by another process with other settings meanwhile"
            raise DataError(msg)

    def _fill(
        self, folder: Path, spec: RunSpec, record: Record, network: RoadNetwork | None
    ) -> None:
        write_columns(folder / "steps.parquet", named(spec, record.columns))
        driven = np.flatnonzero(record.visits)
        visits = {
            "arm" if network is None else "edge": [
                str(i) for i in (driven if network is None else network.edge_ids[driven])
            ],
            "position": driven.astype(np.int32),
            "visits": record.visits[driven].astype(np.int32),
        }
        write_columns(folder / "visits.parquet", visits)
        manifest = {
            "format": FORMAT,
            "run": spec.model_dump(mode="json", exclude_none=True),
            "versions": versions(),
            "share_of_negative_costs": record.share_negative,
            "regret": "reward" if network is None else f"rectified {spec.settings.rectify}",
            "wall_s": record.wall_s,
            "cpu_s": record.cpu_s,
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "sha256": {name: _checksum(folder / f"{name}.parquet") for name in ("steps", "visits")},
        }
        text = json.dumps(manifest, indent=2).encode()
        write_atomically(folder / "manifest.json", lambda file: file.write(text))

    def read(self, spec: RunSpec) -> StoredRun | None:
        """Return a finished run, or nothing; raise `DataError` if it is damaged."""
        folder = self.path(spec)
        return read_run(folder) if folder.exists() else None

    def copy(self, spec: RunSpec, other: "RunStore") -> bool:
        """Copy the very same run from another experiment, if that has it whole."""
        try:
            stored = other.read(spec)
        except DataError:
            return False
        if stored is None or stored.spec != spec:
            return False
        self._place(spec, lambda folder: shutil.copytree(stored.folder, folder, dirs_exist_ok=True))
        return True

    def stored_folders(self) -> list[Path]:
        """Return the folders of all runs that lie here, whole or not."""
        return sorted(
            folder
            for folder in self.folder.glob("runs/*/*/*/*")
            if folder.is_dir() and not folder.name.startswith(".")
        )

    def set_aside(self, spec: RunSpec, why: str) -> Path:
        """Move a stored run away, so that it is run again; nothing is deleted."""
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        aside = self.folder / why / spec.key / stamp
        aside.parent.mkdir(parents=True, exist_ok=True)
        self.path(spec).rename(aside)
        return aside

    def write_failure(self, spec: RunSpec, trace: str) -> Path:
        """Record that a run raised, with its traceback."""
        file = self._failure(spec)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {"run": spec.model_dump(mode="json", exclude_none=True), "traceback": trace}, indent=2
        ).encode()
        write_atomically(file, lambda out: out.write(text))
        return file

    def failed(self, spec: RunSpec) -> bool:
        """Say whether the last attempt at a run raised."""
        return self._failure(spec).exists()

    def _failure(self, spec: RunSpec) -> Path:
        return self.folder / "failures" / f"{spec.key}.json"


def read_run(folder: Path) -> StoredRun:
    """Return a stored run after checking that it is whole; raise `DataError` if it is not."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        sums = {name: _checksum(folder / f"{name}.parquet") for name in ("steps", "visits")}
        if manifest["format"] != FORMAT:
            other = "a newer" if manifest["format"] > FORMAT else "an older"
            msg = (
                f"{folder} was written by {other} superarm (format {manifest['format']}, this one "
                f"reads {FORMAT}); choose another --output and run again"
            )
            raise OtherFormatError(msg)
        run = StoredRun(folder, manifest)
        run.spec  # noqa: B018 - raises if it cannot be read
        if manifest["sha256"] != sums:
            msg = f"{folder} is damaged: a checksum does not match"
            raise DataError(msg)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError) as error:
        msg = f"{folder} is damaged: {error}"
        raise DataError(msg) from error
    return run


def is_running(process: int) -> bool:
    """Say whether a process of this machine is alive; where that cannot be seen, that it is."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
