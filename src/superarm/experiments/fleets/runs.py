"""One world and one method: simulate all days, write down every trip; and many of them."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.errors import DataError
from superarm.evaluation.comparison import stream
from superarm.experiments.config import Strict
from superarm.experiments.engines import Engine, Failure, ThisProcess, Work
from superarm.experiments.fleets.config import LATER_S, Driven, FleetStudy, Part
from superarm.experiments.places import data_folders, network_file
from superarm.roads.network.city import generate_city
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.motion import mechanical_difference
from superarm.roads.vehicle import Vehicle
from superarm.saving.parquet import read_columns, require_parquet, write_columns
from superarm.simulation import Drive, NightPlanner, Settings, SumoWorld, Traffic, Trip, planner
from superarm.simulation.planners import Predicted
from superarm.simulation.process import require_extra

Columns = dict[str, Any]


class FleetSpec(Strict):
    """Everything that one run depends on; `content` is a checksum of its network file."""

    study: str
    seed: int
    network: str
    edges: int
    city: int
    days: int
    parts: tuple[Part, ...]
    equilibrium: int
    world: int
    method: str
    content: str = ""
    vehicle: Driven = Driven()

    @property
    def key(self) -> str:
        """Where the run is stored."""
        return f"{self.method}/{self.world:03d}"

    @property
    def fingerprint(self) -> str:
        """Which network: its file or its size."""
        return f"{self.network}:{self.edges}:{self.city}"


@dataclass(frozen=True, eq=False)
class FleetRecord:
    """What a run leaves: one row per trip.

    Attributes:
        columns: world, day, part, trip, energy and time used and predicted, why it failed.
        cpu_s: of the method, reading the network included; simulation is another process.
        wall_s: of all.
    """

    columns: Columns
    cpu_s: float
    wall_s: float


def specs_of(study: FleetStudy, data: Path | None = None) -> list[FleetSpec]:
    """Return all runs of a study, world by world: what is half done is a fair comparison.

    Args:
        study: what was declared.
        data: the folder of named networks.
    """
    file, content = study.network, ""
    if file != "city":
        file = str(network_file(file, data_folders(data)))
        content = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    return [
        FleetSpec(
            content=content,
            study=study.name,
            seed=study.seed,
            network=file,
            edges=study.edges,
            city=study.city,
            days=study.days,
            parts=study.parts,
            equilibrium=study.equilibrium,
            world=world,
            method=method,
            vehicle=study.vehicle,
        )
        for world in range(study.worlds)
        for method in study.methods
    ]


def drive(spec: FleetSpec, network: RoadNetwork | None) -> FleetRecord:
    """Simulate one world with one method; the outcome depends on the spec alone."""
    del network  # SUMO reads its own file
    begin, cpu = time.perf_counter(), time.process_time()
    seed = _seed(spec)
    with threadpool_limits(1), world_of(spec) as world:
        hours = tuple((part.begin_s, part.end_s, part.cars) for part in spec.parts if part.cars)
        if hours:
            world.traffic = _traffic(world, hours, seed, spec)
        mind = stream(spec.seed, spec.world, f"mind {spec.method}")
        begins = tuple(part.begin_s for part in spec.parts)
        chosen = planner(spec.method, world.network, world.vehicle, mind, begins)
        rows: list[tuple[Any, ...]] = []
        for day in range(1, spec.days + 1):
            trips = _trips(spec, world, day, seed)
            done = world.day(day, [trip for _, trip in trips], chosen)
            drives = {one.trip.name: one for one in done.drives}
            reasons = {one.name: one.reason for one in done.failed}
            for part, trip in trips:
                known = chosen.predictions.pop(trip.name, Predicted())
                found = drives.get(trip.name)
                facts = (spec.world, day, part, trip.name)
                rows.append(
                    (
                        *facts,
                        *_measured(found, world.network, chosen),
                        *_told_of(known),
                        reasons.get(trip.name, ""),
                    )
                )
            chosen.night()
    names = (
        "world", "day", "part", "trip", "energy_wh", "time_s", "length_m", "route", "costs",
        "expected_wh", "expected_wh_std", "expected_s", "expected_s_std", "failed",
    )  # fmt: skip
    columns = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return FleetRecord(columns, time.process_time() - cpu, time.perf_counter() - begin)


def world_of(spec: FleetSpec) -> SumoWorld:
    """Return the world of a run, without other cars."""
    source = _city(spec.edges, spec.city) if spec.network == "city" else Path(spec.network)
    vehicle = Vehicle(**spec.vehicle.model_dump())
    return SumoWorld(source, vehicle=vehicle, settings=Settings(seed=_seed(spec)))


def _traffic(
    world: SumoWorld, hours: tuple[tuple[float, float, float], ...], seed: int, spec: FleetSpec
) -> Traffic:
    """Return the other cars of a world; its methods follow each other, so that one is kept."""
    key = (spec.fingerprint, spec.content, hours, seed, spec.equilibrium)
    if key not in _KEPT:
        made = Traffic.random(world.file, hours, seed=seed, equilibrium=spec.equilibrium)
        _KEPT.clear()
        _KEPT[key] = made
    return _KEPT[key]


_KEPT: dict[tuple[object, ...], Traffic] = {}


def _seed(spec: FleetSpec) -> int:
    return int(stream(spec.seed, spec.world, "sumo").integers(1 << 31))


def _measured(
    found: Drive | None, network: RoadNetwork, chosen: NightPlanner
) -> tuple[float, float, float, bytes, bytes]:
    """Return energy, time, length, and the route with the dissipation of its edges."""
    if found is None:
        return np.nan, np.nan, np.nan, b"", b""
    costs = found.energy_wh - mechanical_difference(
        network, chosen.vehicle, found.edges, found.speed_ms
    )
    return (
        found.total_wh,
        found.total_s,
        float(network.length_m[found.edges].sum()),
        found.edges.astype("<i4").tobytes(),
        costs.astype("<f4").tobytes(),
    )


def _told_of(known: Predicted) -> tuple[float, float, float, float]:
    """Return what was expected, with deviations."""
    return (
        known.energy_wh,
        float(np.sqrt(known.energy_variance)),
        known.time_s,
        float(np.sqrt(known.time_variance)),
    )


def _trips(spec: FleetSpec, world: SumoWorld, day: int, seed: int) -> list[tuple[str, Trip]]:
    """Return the trips of a day with the names of their parts."""
    found = []
    for number, part in enumerate(spec.parts):
        some = world.trips(
            day * 100 + number, part.trips, part.begin_s + LATER_S * part.cars, part.end_s, seed
        )
        found += [(part.name, trip) for trip in some]
    return found


@lru_cache(maxsize=1)
def _city(edges: int, number: int) -> RoadNetwork:
    return generate_city(number, edges).largest_component()


def run_fleet_study(
    study: FleetStudy,
    folder: Path,
    *,
    engine: Engine | None = None,
    data: Path | None = None,
    advance: Callable[[FleetSpec, str], None] | None = None,
) -> list[str]:
    """Run what is left of a study; finished runs are kept, failures are returned.

    Args:
        study: what was declared.
        folder: where runs are stored, one Parquet file each.
        engine: where they execute; here, one after the other, by default.
        data: the folder of named networks.
        advance: called after every run.
    """
    require_extra()
    require_parquet()
    specs = specs_of(study, data)
    folder.mkdir(parents=True, exist_ok=True)
    todo = [spec for spec in specs if not _finished(folder, spec)]
    networks: dict[str, RoadNetwork | None] = {spec.fingerprint: None for spec in specs}
    failures = []
    for spec, outcome in (engine or ThisProcess()).run(todo, networks, Work(drive)):
        if isinstance(outcome, Failure):
            failures.append(f"{spec.key}: {outcome.trace}")
        else:
            path = path_of(folder, spec)
            path.parent.mkdir(parents=True, exist_ok=True)
            size = len(outcome.columns["world"])
            facts = {
                "method": [spec.method] * size,
                "cpu_s": [outcome.cpu_s] * size,
                "wall_s": [outcome.wall_s] * size,
                "spec": [_told(spec)] * size,
            }
            write_columns(path, outcome.columns | facts)
        if advance is not None:
            advance(spec, "failed" if isinstance(outcome, Failure) else "finished")
    return failures


def path_of(folder: Path, spec: FleetSpec) -> Path:
    """Return where a run is stored."""
    return folder / "runs" / f"{spec.key}.parquet"


def finished_worlds(folder: Path, method: str) -> int:
    """Return how many worlds of a method are stored."""
    return len(list((folder / "runs" / method).glob("*.parquet")))


def _told(spec: FleetSpec) -> str:
    """Return what a run depends on, without where its network file lies."""
    named = spec.model_copy(update={"network": Path(spec.network).name})
    usual = {"vehicle"} if spec.vehicle == Driven() else set()  # as runs before it was declared
    return named.model_dump_json(exclude=usual)


def _finished(folder: Path, spec: FleetSpec) -> bool:
    path = path_of(folder, spec)
    if not path.is_file():
        return False
    stored = str(read_columns(path)["spec"][0])
    if stored != _told(spec):
        msg = f"{path} was run with other settings; choose another folder or remove it"
        raise DataError(msg)
    return True
