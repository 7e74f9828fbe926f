"""Run an experiment: read the networks, expand, skip what is finished, store what finishes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from superarm.errors import DataError
from superarm.experiments.build import data_folders, open_place, require_parts, routes_of
from superarm.experiments.config import Experiment
from superarm.experiments.engines import Engine, Failure, ThisProcess
from superarm.experiments.plan import RunSpec, expand, network_name
from superarm.experiments.store import Store
from superarm.navigation import RoadNetwork


@dataclass(frozen=True, eq=False)
class Plan:
    """An experiment made ready: its networks, its runs, and which of them are still to do."""

    experiment: Experiment
    store: Store
    networks: dict[str, RoadNetwork]
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
) -> Plan:
    """Check everything that can be checked before the first run.

    Args:
        experiment: what was declared.
        output: the folder of the experiment.
        beside: the folder that network files are relative to.
        data: the folder of named networks.
        replace: set stored runs of other settings aside instead of refusing them.
        reuse: folders of other experiments, whose runs are copied where they are the very same.
    """
    require_parts(experiment)
    networks, routes, runs = _expanded(experiment, beside, data)
    store = Store(output)
    store.open()
    notes: list[str] = []
    todo = [spec for spec in runs if not _is_finished(store, spec, notes, replace=replace)]
    others = [Store(folder) for folder in reuse]
    copied = {spec.key for spec in todo if any(store.copy(spec, other) for other in others)}
    if copied:
        notes.append(f"{len(copied)} runs were copied from {', '.join(map(str, reuse))}")
    todo = [spec for spec in todo if spec.key not in copied]
    store.write_experiment(experiment)
    for name, network in networks.items():
        store.write_network(network_name(name), network)
        store.write_routes(network_name(name), routes[name])
    return Plan(experiment, store, networks, runs, todo, notes)


def _expanded(
    experiment: Experiment, beside: Path | None, data: Path | None
) -> tuple[dict[str, RoadNetwork], dict[str, dict[str, tuple[str, str]]], list[RunSpec]]:
    """Return the networks, their routes and all runs of an experiment."""
    folders = data_folders(data)
    networks: dict[str, RoadNetwork] = {}
    routes: dict[str, dict[str, tuple[str, str]]] = {}
    for place in experiment.places:
        if place.network not in networks:
            networks[place.network] = open_place(place, beside or Path(), folders)
        found = routes_of(place, networks[place.network], experiment.seed, folders)
        routes.setdefault(place.network, {}).update(found)
    fingerprints = {name: network.fingerprint() for name, network in networks.items()}
    return networks, routes, expand(experiment, fingerprints, routes)


@dataclass(frozen=True)
class Progress:
    """How far one method of an experiment is; nothing is known of times before a first run."""

    method: str
    finished: int
    missing: int
    failed: int
    damaged: int
    cpu_s_left: float | None


def progress_of(
    experiment: Experiment,
    output: str | Path,
    *,
    beside: Path | None = None,
    data: Path | None = None,
) -> list[Progress]:
    """Look at the stored runs of an experiment without changing anything."""
    _, _, runs = _expanded(experiment, beside, data)
    store = Store(output)
    found = []
    for method in experiment.methods:
        times: list[float] = []
        failed = damaged = 0
        mine = [spec for spec in runs if spec.method == method]
        for spec in mine:
            try:
                stored = store.read(spec)
            except DataError:
                damaged += 1
                continue
            if stored is not None:
                times.append(float(stored.manifest["cpu_s"]))
            elif store.failed(spec):
                failed += 1
        left = len(mine) - len(times)
        spent = sum(times) / len(times) * left if times else (None if left else 0.0)
        found.append(Progress(method, len(times), left - failed - damaged, failed, damaged, spent))
    return found


def _is_finished(store: Store, spec: RunSpec, notes: list[str], *, replace: bool) -> bool:
    try:
        stored = store.read(spec)
    except DataError as error:
        aside = store.set_aside(spec, "damaged")
        notes.append(f"{error}; set aside at {aside}, it is run again")
        return False
    if stored is None:
        return False
    different = _difference(stored.spec, spec)
    if different is None:
        return True
    if replace:
        aside = store.set_aside(spec, "replaced")
        notes.append(f"{spec.key} had {different}; set aside at {aside}")
        return False
    msg = (
        f"{store.path(spec)} was run with {different}; choose another --output, rename the method, "
        "or pass --replace to set such runs aside and run them again"
    )
    raise DataError(msg)


def _difference(stored: RunSpec, wanted: RunSpec) -> str | None:
    before, now = stored.model_dump(), wanted.model_dump()
    for key in before:
        if before[key] != now[key]:
            return f"{key} = {before[key]!r} where now {now[key]!r} is asked for"
    return None


def run_plan(
    plan: Plan, engine: Engine, on_run: Callable[[RunSpec, bool], None] | None = None
) -> Tally:
    """Run what is left of a plan; every run is stored as soon as it finishes.

    Args:
        plan: from `prepare`.
        engine: where to run.
        on_run: called after every run with the run and whether it succeeded.
    """
    tally = Tally(skipped=len(plan.runs) - len(plan.todo))
    by_print = {network.fingerprint(): network for network in plan.networks.values()}
    for spec, outcome in engine.run(plan.todo, by_print):
        try:
            if isinstance(outcome, Failure):
                tally.failures.append(str(plan.store.write_failure(spec, outcome.trace)))
            else:
                plan.store.write(spec, outcome, by_print[spec.fingerprint])
                tally.finished += 1
        except OSError as error:
            msg = (
                f"could not store {spec.key}: {error.strerror}. Make room and run again: "
                f"{tally.finished + tally.skipped} of {len(plan.runs)} runs are stored and kept"
            )
            raise DataError(msg) from error
        if on_run is not None:
            on_run(spec, not isinstance(outcome, Failure))
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
