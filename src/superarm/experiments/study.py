"""A finished (or half finished) experiment, read back from its folder: curves, means, pairs."""

import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Matrix, Vector
from superarm.errors import DataError
from superarm.evaluation import bayesian_regret
from superarm.evaluation.pages import table
from superarm.experiments.columns import column_of
from superarm.experiments.config import POINTS, RANDOM_ROUTE, Experiment
from superarm.experiments.store import OtherFormatError, RunStore, StoredRun, read_run
from superarm.saving.parquet import write_columns

REGRET = "cumulative_regret"

RANDOM = "*"  # no name of a route
"""What stands for all random routes of a network together, in figures and tables."""


class Cell(NamedTuple):
    """One combination of network, route, world and method."""

    network: str
    route: str
    truth: str
    lengthscale: float
    traffic: str
    method: str

    @property
    def place(self) -> str:
        """Network and route as a title."""
        if self.network == POINTS:
            return "Points"
        route = "random routes" if self.route == RANDOM else self.route
        return f"{titled(self.network)} {route}"

    @property
    def world(self) -> tuple[str, float, str]:
        """Truth, lengthscale and traffic."""
        return self.truth, self.lengthscale, self.traffic

    @property
    def is_random(self) -> bool:
        """Whether the route is between random edges; users cannot name one so."""
        return RANDOM_ROUTE.fullmatch(self.route) is not None


def titled(name: str) -> str:
    """Return a name as a title begins with it; its other capitals stay."""
    return name[:1].upper() + name[1:]


@dataclass(frozen=True)
class Difference:
    """What one method had more than another in the same worlds.

    Attributes:
        mean: of the paired differences first - second.
        standard_error: of that mean.
        pairs: how many worlds.
        wins: in how many of them the first had less.
    """

    mean: float
    standard_error: float
    pairs: int
    wins: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Difference":
        """Return mean and standard error of differences; one alone has no error."""
        array = np.array(values)
        size = array.size
        error = float(array.std(ddof=1) / np.sqrt(size)) if size > 1 else float("nan")
        return cls(float(array.mean()), error, size, int((array < 0).sum()))


class Study:
    """The stored runs of one experiment: those it declares, read from its folder."""

    def __init__(self, folder: str | Path) -> None:
        """Read all manifests; damaged runs are left out and named in `notes`."""
        self.store = RunStore(folder)
        self.experiment: Experiment = self.store.read_experiment()
        self.notes: list[str] = []
        self.runs: list[StoredRun] = []
        declared = {spec.key: spec for spec in self.store.read_plan()}
        others = old = 0
        for place in self.store.stored_folders():
            try:
                run = read_run(place)
            except OtherFormatError:
                old += 1
                continue
            except DataError as error:
                self.notes.append(str(error))
                continue
            if declared.get(run.spec.key) == run.spec:
                self.runs.append(run)
            else:
                others += 1
        if old:
            self.notes.append(
                f"{old} stored runs are of another format of superarm and cannot be read; run the "
                "experiment again with another --output"
            )
        if others:
            self.notes.append(f"{others} stored runs are not part of the experiment any more")

    @cached_property
    def cells(self) -> dict[Cell, dict[int, StoredRun]]:
        """The runs of the experiment by cell and repeat, in the order the file declares."""
        found: dict[Cell, dict[int, StoredRun]] = defaultdict(dict)
        for run in self.runs:
            found[_cell(run)][run.spec.repeat] = run
        methods = list(self.experiment.methods)
        worlds = self.experiment.world

        def rank(cell: Cell) -> tuple[Any, ...]:
            return (
                cell.network,
                cell.route,
                worlds.truth.index(cell.truth) if cell.truth in worlds.truth else 99,
                cell.lengthscale,
                cell.traffic,
                methods.index(cell.method),
            )

        return {cell: found[cell] for cell in sorted(found, key=rank)}

    @cached_property
    def shown(self) -> dict[Cell, list[tuple[Cell, int]]]:
        """What figures and tables show: a cell, and the runs behind it by cell and repeat.

        Every named route is one; the random routes of a network are one together.
        """
        found: dict[Cell, list[tuple[Cell, int]]] = defaultdict(list)
        for cell, repeats in self.cells.items():
            where = cell._replace(route=RANDOM) if cell.is_random else cell
            found[where] += [(cell, repeat) for repeat in sorted(repeats)]
        return dict(found)

    @cached_property
    def _steps(self) -> dict[tuple[Cell, int], dict[str, Any]]:
        return {
            (cell, repeat): run.steps()
            for cell, repeats in self.cells.items()
            for repeat, run in repeats.items()
        }

    def steps(self, cell: Cell, repeat: int) -> dict[str, Any]:
        """Return the columns of one run."""
        return self._steps[cell, repeat]

    def column(self, cell: Cell, name: str) -> Matrix:
        """Return a quantity or column of all runs of a shown cell, shape (runs, T)."""
        runs = self.shown.get(cell) or [(cell, repeat) for repeat in sorted(self.cells[cell])]
        return np.array([self._value(*run, name) for run in runs], dtype=np.float64)

    def final(self, cell: Cell, name: str = REGRET) -> Vector:
        """Return the last value of a column, one per run."""
        return self.column(cell, name)[:, -1]

    def unit(self, cell: Cell) -> str:
        """Return the unit of regret and raw values as part of a label, with its brackets."""
        return "" if cell.network == POINTS else " (Wh)"

    def _value(self, cell: Cell, repeat: int, name: str) -> Vector:
        column = column_of(self.cells[cell][repeat].spec, name)
        if column is None:
            known = sorted(self._steps[cell, repeat])
            msg = f"there is no column {name!r}; {cell.place} has {', '.join(known)}"
            raise ValueError(msg)
        values: Vector = self._steps[cell, repeat][column]
        return values

    def paired(
        self,
        first: str,
        second: str,
        *,
        name: str = REGRET,
        where: Mapping[str, object] | None = None,
        average: bool = False,
    ) -> Difference:
        """Compare two methods over the worlds both have met.

        Settings of the world (lengthscale, truth, traffic) share their random numbers, so that the
        differences of one route and repeat are averaged before the standard error is taken.

        Args:
            first: a method.
            second: another.
            name: the column; its last value counts, or its mean over rounds.
            where: values that a cell must have, such as ``{"route": "A"}``.
            average: whether to take the mean over rounds instead of the last value.
        """
        self._require_comparable(first, second, name)
        self._require_keys(where or {})
        found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        for cell, values in self._pairs(first, second, name, average).items():
            if all(getattr(cell, key) == value for key, value in (where or {}).items()):
                for repeat, value in values.items():
                    found[cell.network, cell.route, repeat].append(value)
        if not found:
            msg = f"no world in which both {first} and {second} have been run"
            raise ValueError(msg)
        return Difference.of([float(np.mean(values)) for values in found.values()])

    def paired_by_cell(
        self, first: str, second: str, *, name: str = REGRET, average: bool = False
    ) -> dict[str, Difference]:
        """Compare two methods per route and kind of world, and over all of them."""
        overall = self.paired(first, second, name=name, average=average)
        found: dict[str, list[float]] = defaultdict(list)
        for cell, values in self._pairs(first, second, name, average).items():
            shown = cell._replace(route=RANDOM) if cell.is_random else cell
            where = f"{shown.place}, {cell.truth}, ℓ = {cell.lengthscale:g}, {cell.traffic}"
            found[where] += values.values()
        return {where: Difference.of(values) for where, values in found.items()} | {"all": overall}

    def _require_comparable(self, first: str, second: str, name: str) -> None:
        methods = self.experiment.methods
        for method in (first, second):
            if method not in methods:
                near = difflib.get_close_matches(method, methods, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                msg = f"there is no method {method!r}{hint}; there are {', '.join(methods)}"
                raise ValueError(msg)
        both = {methods[method].rectify for method in (first, second)}
        if len(both) > 1 and "regret" in name:
            msg = (
                f"the regrets of {first} and {second} are in different units, rectified energy and "
                "rectified dissipation; compare energy_wh"
            )
            raise ValueError(msg)

    @staticmethod
    def _require_keys(where: Mapping[str, object]) -> None:
        for key in where:
            if key not in Cell._fields:
                msg = f"cells have no {key!r}; they have {', '.join(Cell._fields)}"
                raise ValueError(msg)

    def _pairs(
        self,
        first: str,
        second: str,
        name: str,
        average: bool,  # noqa: FBT001 - passed on
    ) -> dict[Cell, dict[int, float]]:
        """Return the differences of all worlds by the first method's cell and repeat."""
        found: dict[Cell, dict[int, float]] = {}
        for cell, repeats in self.cells.items():
            other = cell._replace(method=second)
            if cell.method != first or other not in self.cells:
                continue
            for repeat in sorted(set(repeats) & set(self.cells[other])):
                mine, theirs = (self._value(c, repeat, name) for c in (cell, other))
                gap = mine.mean() - theirs.mean() if average else mine[-1] - theirs[-1]
                found.setdefault(cell, {})[repeat] = float(gap)
        return found

    def summary(self) -> dict[str, Any]:
        """Return mean and standard error per round of every shown cell, as columns of one table."""
        parts = [_summarised(self, cell) for cell, runs in self.shown.items() if len(runs) > 1]
        if not parts:
            msg = f"{self.store.folder} has no cell with two finished runs yet"
            raise DataError(msg)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def finals(self) -> dict[str, Any]:
        """Return one row per run: where it ended, and its means over rounds.

        From these rows every mean, paired difference, error and count of a study follows.
        """
        rows = [
            {
                **cell._asdict(),
                "repeat": repeat,
                "rounds": int(self._value(cell, repeat, "t")[-1]),
                "regret": float(self._value(cell, repeat, REGRET)[-1]),
                "raw_mean": float(self._value(cell, repeat, "raw").mean()),
                "best_raw_mean": float(self._value(cell, repeat, "best_raw").mean()),
                "distinct": int(self._value(cell, repeat, "distinct")[-1]),
                "ms_mean": float(self._value(cell, repeat, "ms").mean()),
            }
            for cell, repeats in self.cells.items()
            for repeat in sorted(repeats)
        ]
        if not rows:
            msg = f"{self.store.folder} has no finished run yet"
            raise DataError(msg)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def __repr__(self) -> str:
        """Return one line."""
        methods = len(self.experiment.methods)
        return f"Study({self.experiment.name!r}, {methods} methods, {len(self.runs)} finished runs)"

    def _repr_html_(self) -> str:
        heads = ("place", "world", "method", "runs", "final regret")
        rows = [
            (cell.place, f"{cell.truth}, ℓ = {cell.lengthscale:g}, {cell.traffic}", cell.method,
             str(len(runs)), f"{self.final(cell).mean():,.4g}{self.unit(cell)}")
            for cell, runs in self.shown.items()
        ]  # fmt: skip
        return table(heads, rows)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all runs."""
        return sum(float(run.manifest["cpu_s"]) for run in self.runs)


def write_summary(study: Study, path: Path) -> None:
    """Write `Study.summary` to a Parquet file."""
    _write(study.summary(), path)


def write_finals(study: Study, path: Path) -> None:
    """Write `Study.finals` to a Parquet file."""
    _write(study.finals(), path)


def _write(columns: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {name: values.tolist() for name, values in columns.items() if values.dtype.kind == "U"}
    write_columns(path, columns | texts)


def _summarised(study: Study, cell: Cell) -> dict[str, Any]:
    regret = bayesian_regret(study.column(cell, REGRET))
    size = regret.mean.size
    return {
        **{name: np.full(size, value) for name, value in cell._asdict().items()},
        "unit": np.full(size, "reward" if cell.network == POINTS else "Wh"),
        "t": np.arange(1, size + 1, dtype=np.int32),
        "repeats": np.full(size, regret.repeats, dtype=np.int16),
        "regret": regret.mean.astype(np.float32),
        "regret_se": regret.standard_error.astype(np.float32),
        "raw": study.column(cell, "raw").mean(axis=0).astype(np.float32),
        "distinct": study.column(cell, "distinct").mean(axis=0).astype(np.float32),
        "ms": np.median(study.column(cell, "ms"), axis=0).astype(np.float32),
    }


def _cell(run: StoredRun) -> Cell:
    spec = run.spec
    return Cell(
        spec.network, spec.route.name, spec.truth, spec.lengthscale, spec.conditions, spec.method
    )
