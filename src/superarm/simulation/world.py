"""A world that nobody here wrote: SUMO drives the routes that are chosen, and says what they took.

`SumoWorld.day` is the fleet's form: many vehicles a day, each of which asks for its route in the
second it departs and reports once it has arrived, late and out of order. `observe` and `pull` are
those of any environment, with one trip per round, alone among the other cars.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Rows, Vector
from superarm.errors import InfeasibleError
from superarm.oracles import Paths
from superarm.roads.models.priors import RoadModel
from superarm.roads.network.formats import read_sumo
from superarm.roads.network.network import RoadNetwork
from superarm.roads.vehicle import Vehicle
from superarm.simulation.drives import Drive, Trip, drive_of
from superarm.simulation.export import write_sumo
from superarm.simulation.process import (
    Arrived,
    DayDone,
    Event,
    Failed,
    Settings,
    SimulationError,
    Simulator,
    as_log,
)
from superarm.simulation.traffic import FixedTraffic, Traffic

_TRIES = 10_000
NEAREST_M, FARTHEST_M = 2000.0, 8000.0
"""How far apart the ends of random trips are, as the crow flies."""


class Planner(Protocol):
    """Who gives routes, and may learn from drives."""

    def route(self, trip: Trip) -> Rows:
        """Return the edges of a route for a trip that departs now."""
        ...

    def arrived(self, drive: Drive) -> None:
        """Hear of a drive."""
        ...


@dataclass(frozen=True, eq=False)
class Day:
    """What became of the trips of a day.

    Attributes:
        drives: those that arrived, in the order of arrival.
        failed: those that did not, and why.
        steps: how many steps were simulated.
        jammed: how many vehicles SUMO took out of jams.
        others: how many other cars departed.
        refused: how many other cars SUMO did not take, since their routes do not fit the network.
    """

    drives: tuple[Drive, ...]
    failed: tuple[Failed, ...]
    steps: int
    jammed: int
    others: int
    refused: int = 0


@dataclass(eq=False)
class SumoWorld:
    """Roads, other cars and a vehicle in SUMO; use it as a context, or close it.

    Args:
        source: a SUMO network file, or a network of our own, which is exported.
        traffic: other cars; none, if not given.
        vehicle: what is driven and measured.
        settings: how to simulate, its seed among it.
        warm_up_s: for how long other cars drive before the first trip of a day departs.
        model: of `network`; says what rewards are, minus what it learns of every edge instead of
            minus its energy, and gives the arms. Set it once the network is read.
    """

    source: RoadNetwork | str | Path
    traffic: Traffic | FixedTraffic = field(default_factory=Traffic.none)
    vehicle: Vehicle = field(default_factory=Vehicle)
    settings: Settings = field(default_factory=Settings)
    warm_up_s: float = 300.0
    model: RoadModel | None = None

    def __post_init__(self) -> None:
        """Export the network if it is ours; read it if it is SUMO's."""
        self._folder: Any = None
        self._simulator: Simulator | None = None
        self._rounds: dict[int, Trip] = {}
        try:
            self.file = self._exported()
            self.network = read_sumo(self.file).largest_component()
        except BaseException:
            self.close()
            raise

    def _exported(self) -> Path:
        if not isinstance(self.source, RoadNetwork):
            return Path(self.source).resolve()
        self._folder = tempfile.TemporaryDirectory(prefix="superarm-world-")
        return write_sumo(self.source, Path(self._folder.name) / "city.net.xml")

    def trips(
        self, number: int, count: int, first_s: float, last_s: float, seed: int = 0
    ) -> list[Trip]:
        """Return random trips of a day, the same for everybody who asks with the same seed."""
        rng = np.random.default_rng([seed, number, 55])
        departs = np.sort(rng.uniform(first_s, last_s, count))
        ends = [self._ends(rng) for _ in range(count)]
        return [
            Trip(f"{number}.{i}", start, goal, float(when))
            for i, ((start, goal), when) in enumerate(zip(ends, departs, strict=True))
        ]

    def _ends(self, rng: np.random.Generator) -> tuple[int, int]:
        net = self.network
        middle = (net.junction_xy_m[net.from_junction] + net.junction_xy_m[net.to_junction]) / 2
        size = float(np.hypot(*np.ptp(middle, axis=0)))
        near, far = min(NEAREST_M, size / 4), min(FARTHEST_M, size)
        for _ in range(_TRIES):
            start, goal = rng.integers(net.n_edges, size=2)
            gap = float(np.hypot(*(middle[start] - middle[goal])))
            if near <= gap <= far and start != goal:
                return int(start), int(goal)
        msg = f"{net.name} has no two edges that are {near:.0f} to {far:.0f} m apart"
        raise InfeasibleError(msg)

    def day(self, number: int, trips: Sequence[Trip], planner: Planner) -> Day:
        """Simulate one day; a crash of the simulator fails its trips, and the next day goes on.

        Args:
            number: of the day; decides about the other cars.
            trips: who departs when.
            planner: is asked for routes at departure and told of drives at arrival.
        """
        sheet = _DaySheet(self.network, {trip.name: trip for trip in trips}, planner)
        if len(sheet.wanted) < len(trips):
            msg = "two trips of a day have the same name"
            raise ValueError(msg)
        first = min((trip.departs_s for trip in trips), default=0.0)
        others = [car for car in self.traffic.day(number) if car[0] >= first - self.warm_up_s]
        begin = min([first, *(car[0] for car in others[:1])])
        departs = [(trip.name, trip.departs_s) for trip in trips]
        cars = [(when, list(route)) for when, route in others]
        try:
            for event in self.started().day(begin, departs, cars, sheet.routes_for):
                sheet.note(event)
        except SimulationError as error:
            self.close(keep_files=True)
            if not sheet.routes:  # it never came to a trip
                raise
            sheet.give_up(str(error))
        except BaseException:  # a planner's: the simulator waits for routes that never come
            self.close(keep_files=True)
            raise
        return sheet.day()

    def observe(self, t: int, rng: np.random.Generator) -> Round[Paths]:
        """Return all edges and the routes of a random trip."""
        start, goal = self._ends(rng)
        self._rounds = {t: Trip(f"r{t}", start, goal, 12 * 3600.0)}
        net = self.network
        routes = Paths.on_turns(net.n_edges, net.turns, start, goal)
        if self.model is None:
            return Round(t, Arms(np.arange(net.n_edges), net.contexts), routes)
        if self.model.network is not net:
            msg = "the model is of another network: make it with RoadModel(world.network, ...)"
            raise ValueError(msg)
        return Round(t, self.model.arms, routes)

    def pull(
        self, available: Round[Paths], super_arm: SuperArm, rng: np.random.Generator
    ) -> Vector:
        """Drive the route and return minus the energy of every edge of it, or what is learned."""
        trip = self._rounds[available.t]
        chosen = plan_by(lambda _: super_arm)
        for _ in range(2):  # a simulator that has died is started again once
            found = self.day(int(rng.integers(1 << 30)), [trip], chosen)
            if found.drives:
                drive = found.drives[0]
                return -(drive.energy_wh if self.model is None else self.model.measured_of(drive))
        msg = f"the trip could not be driven: {found.failed[0].reason}"
        raise SimulationError(msg)

    def started(self) -> Simulator:
        """Return the simulator, started if it does not run."""
        if self._simulator is None or not self._simulator.is_alive:
            self._simulator = Simulator(self.file, self.vehicle, self.settings)
            self._simulator.start()
        return self._simulator

    def close(self, *, keep_files: bool = False) -> None:
        """End the simulator, and forget the exported network."""
        if self._simulator is not None:
            self._simulator.stop()
            self._simulator = None
        if self._folder is not None and not keep_files:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


@dataclass(eq=False)
class _DaySheet:
    """What is written down of a day."""

    network: RoadNetwork
    wanted: dict[str, Trip]
    planner: Planner
    routes: dict[str, Rows] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    drives: list[Drive] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    done: DayDone = field(default_factory=lambda: DayDone(0, 0, 0))

    def routes_for(self, names: list[str], clock: float) -> list[list[str]]:
        """Ask the planner for routes of those that depart now."""
        del clock
        for name in names:
            try:
                route = np.asarray(self.planner.route(self.wanted[name]), dtype=np.intp)
            except InfeasibleError as error:  # the others drive all the same
                route, self.without[name] = np.empty(0, dtype=np.intp), str(error)
            self.routes[name] = route
        return [self.network.edge_ids[self.routes[name]].tolist() for name in names]

    def note(self, event: Event) -> None:
        """Write an event down; tell the planner of drives."""
        if isinstance(event, DayDone):
            self.done = event
            return
        found: Drive | Failed = (
            event
            if isinstance(event, Failed)
            else _drive(event, self.wanted[event.name], self.routes[event.name])
        )
        if isinstance(found, Failed):
            reason = self.without.get(found.name, found.reason)
            self.failed.append(Failed(found.name, reason))
        else:
            self.drives.append(found)
            self.planner.arrived(found)

    def give_up(self, reason: str) -> None:
        """Fail the trips that have not arrived."""
        known = {drive.trip.name for drive in self.drives} | {one.name for one in self.failed}
        self.failed += [Failed(name, reason) for name in self.wanted if name not in known]

    def day(self) -> Day:
        """Return what became of it."""
        done = self.done
        if done.refused and not done.others:
            msg = (
                f"SUMO took none of {done.refused} other cars: their routes are of another network"
            )
            raise SimulationError(msg)
        drives, failed = tuple(self.drives), tuple(self.failed)
        return Day(drives, failed, done.steps, done.jammed, done.others, done.refused)


def _drive(event: Arrived, trip: Trip, route: Rows) -> Drive | Failed:
    if len(event.entered_m) != route.size:
        return Failed(trip.name, f"its log knows {len(event.entered_m)} of {route.size} edges")
    return drive_of(trip, route, np.array(event.entered_m), as_log(event.log))


def plan_by(route: Callable[[Trip], Rows]) -> Planner:
    """Return a planner that routes by a function and never learns."""

    class _Routed:
        def route(self, trip: Trip) -> Rows:
            return route(trip)

        def arrived(self, drive: Drive) -> None:
            del drive

    return _Routed()
