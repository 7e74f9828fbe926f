"""Run an experiment: read the networks, expand, skip what is finished, store what finishes."""

import errno
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from superarm.errors import DataError, SuperarmError
from superarm.experiments.build import require_parts
from superarm.experiments.config import POINT_ROUTE, POINTS, Experiment
from superarm.experiments.engines import Engine, Failure, ThisProcess, Work
from superarm.experiments.execution import execute
from superarm.experiments.places import data_folders, open_place, routes_of
from superarm.experiments.plan import RunSpec, expand, network_name
from superarm.experiments.store import OtherFormatError, RunStore
from superarm.roads.network.network import RoadNetwork


@dataclass(frozen=True, eq=False)
class RunPlan:
    """An experiment made ready: its networks, its runs, and which of them are still to do."""

    experiment: Experiment
    store: RunStore
    networks: dict[str, RoadNetwork | None]
    runs: list[RunSpec]
    todo: list[RunSpec]
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Tally:
    """How an experiment went."""

    finished: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


def prepare(  # noqa: PLR0913 - what a user may choose
    experiment: Experiment,
    output: str | Path,
    *,
    beside: Path | None = None,
    data: Path | None = None,
    replace: bool = False,
    reuse: Sequence[Path] = (),
) -> RunPlan:
    """Check everything that can be checked before the first run.

    Args:
        experiment: what was declared.
        output: the folder of the experiment.
        beside: the folder that network files are relative to.
        data: the folder of named networks.
        replace: set stored runs of other settings aside instead of refusing them.
        reuse: folders of other experiments, whose runs are copied where they are the very same.
    """
    require_parts(experiment, beside)
    networks, routes, runs = _expanded(experiment, beside, data)
    others = [RunStore(folder) for folder in reuse]
    for other in others:
        if not (other.folder / "runs").is_dir():
            msg = f"--reuse {other.folder}: there are no runs of an experiment"
            raise DataError(msg)
    store = RunStore(output)
    states = {spec.key: _state(store, spec) for spec in runs}
    different = [state for state in states.values() if isinstance(state, Different)]
    if different and not replace:
        raise DataError(different[0].told)
    store.open()
    notes: list[str] = []
    for spec in runs:
        _make_room(store, spec, states[spec.key], notes)
    todo = [spec for spec in runs if states[spec.key] != "finished"]
    copied = {spec.key for spec in todo if any(store.copy(spec, other) for other in others)}
    if others:
        notes.append(f"{len(copied)} runs were copied from {', '.join(map(str, reuse))}")
    store.write_experiment(experiment)
    store.write_plan(runs)
    for name, network in networks.items():
        if network is None:
            continue
        store.write_network(network_name(name), network)
        store.write_routes(network_name(name), routes[name])
    left = [spec for spec in todo if spec.key not in copied]
    return RunPlan(experiment, store, networks, runs, left, notes)


def _make_room(store: RunStore, spec: RunSpec, state: "RunState", notes: list[str]) -> None:
    """Move a stored run away that cannot be kept."""
    if isinstance(state, Different):
        notes.append(f"{spec.key} had {state.what}; {store.set_aside(spec, 'replaced')}")
    elif isinstance(state, Damaged):
        aside = store.set_aside(spec, "damaged")
        notes.append(f"{state.what}; set aside at {aside}, it is run again")


def _expanded(
    experiment: Experiment, beside: Path | None, data: Path | None
) -> tuple[dict[str, RoadNetwork | None], dict[str, dict[str, tuple[str, str]]], list[RunSpec]]:
    """Return the networks, their routes and all runs of an experiment."""
    folders = data_folders(data)
    networks: dict[str, RoadNetwork | None] = {}
    fingerprints: dict[str, str] = {}
    routes: dict[str, dict[str, tuple[str, str]]] = {}
    for place in experiment.places:
        if place.points is not None:
            networks[place.network] = None
            text = place.points.model_dump_json().encode()
            fingerprints[place.network] = hashlib.sha256(text).hexdigest()
            routes[place.network] = {POINT_ROUTE: ("", "")}
            continue
        network = networks.get(place.network)
        if network is None:
            network = open_place(place, beside or Path(), folders)
            networks[place.network] = network
            fingerprints[place.network] = network.fingerprint()
        found = routes_of(place, network, experiment.seed, folders)
        known = routes.setdefault(place.network, {})
        for name, ends in found.items():
            if known.setdefault(name, ends) != ends:
                msg = f"route {name} of {place.network} is declared twice with different ends"
                raise DataError(msg)
    reserved = [name for name in networks if name != POINTS and network_name(name) == POINTS]
    if reserved:
        msg = (
            f"{reserved[0]}: {POINTS!r} stands for points without roads; give the file another name"
        )
        raise DataError(msg)
    names = [network_name(network).casefold() for network in networks]
    if len(set(names)) < len(names):
        msg = (
            f"networks are stored by the names of their files, which must differ: {list(networks)}"
        )
        raise DataError(msg)
    return networks, routes, expand(experiment, fingerprints, routes)


@dataclass(frozen=True)
class Different:
    """A stored run of other settings."""

    what: str
    told: str


@dataclass(frozen=True)
class Damaged:
    """A stored run that cannot be read."""

    what: str


RunState: TypeAlias = Literal["finished", "missing"] | Different | Damaged


def _state(store: RunStore, spec: RunSpec) -> RunState:
    """Look at a stored run without changing anything."""
    try:
        stored = store.read(spec)
    except OtherFormatError:
        raise  # nothing is wrong with it: it is not ours to set aside
    except DataError as error:
        return Damaged(str(error))
    if stored is None:
        return "missing"
    changes = list(_changes(stored.spec.model_dump(), spec.model_dump()))
    if changes:
        what = "; ".join(changes)
        told = (
            f"{store.path(spec)} was run with {what}; choose another --output, rename the "
            "method, or pass --replace to set such runs aside and run them again"
        )
        return Different(what, told)
    return "finished"


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield what differs between two settings, key by key."""
    for key in before:
        old, new = before[key], now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{path}{key}.")
        elif old != new:
            yield f"{path}{key} = {old!r} where now {new!r} is asked for"


@dataclass(frozen=True)
class MethodProgress:
    """How far one method of an experiment is; nothing is known of times before a first run."""

    method: str
    finished: int
    missing: int
    failed: int
    damaged: int
    different: int
    cpu_s_left: float | None


def progress_of(
    experiment: Experiment,
    output: str | Path,
    *,
    beside: Path | None = None,
    data: Path | None = None,
) -> list[MethodProgress]:
    """Look at the stored runs of an experiment without changing anything."""
    _, _, runs = _expanded(experiment, beside, data)
    store = RunStore(output)
    found = []
    for method in experiment.methods:
        mine = [spec for spec in runs if spec.method == method]
        states = {spec.key: _state(store, spec) for spec in mine}
        times = [
            float(stored.manifest["cpu_s"])
            for spec in mine
            if states[spec.key] == "finished" and (stored := store.read(spec)) is not None
        ]
        failed = sum(states[spec.key] == "missing" and store.failed(spec) for spec in mine)
        damaged = sum(isinstance(state, Damaged) for state in states.values())
        different = sum(isinstance(state, Different) for state in states.values())
        left = len(mine) - len(times)
        spent = sum(times) / len(times) * left if times else (None if left else 0.0)
        missing = left - failed - damaged - different
        found.append(MethodProgress(method, len(times), missing, failed, damaged, different, spent))
    return found


def run_plan(
    plan: RunPlan, engine: Engine, on_run: Callable[[RunSpec, bool], None] | None = None
) -> Tally:
    """Run what is left of a plan; every run is stored as soon as it finishes.

    Args:
        plan: from `prepare`.
        engine: where to run.
        on_run: called after every run with the run and whether it succeeded.
    """
    tally = Tally(skipped=len(plan.runs) - len(plan.todo))
    known = {spec.fingerprint: spec for spec in plan.runs}
    by_name = {network_name(name): network for name, network in plan.networks.items()}
    by_print = {mark: by_name[spec.network] for mark, spec in known.items()}
    for spec, outcome in engine.run(plan.todo, by_print, Work(execute)):
        try:
            if isinstance(outcome, Failure):
                tally.failures.append(str(plan.store.write_failure(spec, outcome.trace)))
            else:
                plan.store.write(spec, outcome, by_print[spec.fingerprint])
                tally.finished += 1
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            msg = (
                f"could not store {spec.key}: {error.strerror}. "
                f"{'Make room and run' if full else 'Run'} again: "
                f"{tally.finished + tally.skipped} of {len(plan.runs)} runs are stored and kept"
            )
            raise DataError(msg) from error
        if on_run is not None:
            on_run(spec, not isinstance(outcome, Failure))
    lost = len(plan.todo) - tally.finished - len(tally.failures)
    if lost:
        msg = f"{lost} runs were not executed; run again, finished runs are kept"
        raise SuperarmError(msg)
    return tally


def run_experiment(
    experiment: Experiment, output: str | Path, *, engine: Engine | None = None
) -> Tally:
    """Run an experiment in one call; see `prepare` and `run_plan` for the parts."""
    return run_plan(prepare(experiment, output), engine or ThisProcess())


def methods_of(runs: Iterable[RunSpec]) -> dict[str, int]:
    """Return how many runs every method has."""
    counts: dict[str, int] = {}
    for spec in runs:
        counts[spec.method] = counts.get(spec.method, 0) + 1
    return counts
