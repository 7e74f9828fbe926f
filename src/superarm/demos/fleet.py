"""A fleet in SUMO that drives by a running service: it asks over HTTP, drives, and reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import numpy as np

from superarm.arrays import Matrix, Rows
from superarm.client import Client, ServiceError
from superarm.errors import InfeasibleError
from superarm.simulation import Day, Drive, SumoWorld, Trip, planner

Report = Literal["totals", "spans", "edges"]

RIVALS = ("physics", "fastest")
"""Routes that learn nothing, which the same trips are driven on as well."""

_SPAN = 10
_FEWEST = 2


@dataclass(eq=False)
class ServicePlanner:
    """Asks the service for routes and reports drives to it.

    Args:
        world: where it is driven.
        client: of the service.
        report: whole trips, spans of ten edges, or every edge with the speeds between them.
        begin: when the first day began; reports carry times after it.
        mode: of routes, see ``POST /v1/routes``.
    """

    world: SumoWorld
    client: Client
    report: Report = "totals"
    begin: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    mode: str = "explore"

    def __post_init__(self) -> None:
        """Begin with nothing asked."""
        if self.report not in get_args(Report):
            msg = f"report must be one of {get_args(Report)}, got {self.report!r}"
            raise ValueError(msg)
        self.day = 0
        self.expected_wh: dict[str, tuple[float, float, float]] = {}
        self.refused: list[str] = []
        self._tokens: dict[str, str] = {}

    def route(self, trip: Trip) -> Rows:
        """Ask for a route."""
        ids = self.world.network.edge_ids
        try:
            answer = self.client.route(str(ids[trip.start]), str(ids[trip.goal]), mode=self.mode)
        except ServiceError as error:
            msg = f"the service gives no route: {error}"
            raise InfeasibleError(msg) from error
        places = self.world.network.positions(answer["edges"])
        if None in places:
            missing = answer["edges"][places.index(None)]
            msg = f"the service routes over edge {missing!r}, which the simulated city lacks"
            raise InfeasibleError(msg)
        self._tokens[trip.name] = answer["route_id"]
        self.expected_wh[trip.name] = (
            float(answer["energy_wh"]),
            float(answer["energy_low_wh"]),
            float(answer["energy_high_wh"]),
        )
        return np.array(places, dtype=np.intp)

    def arrived(self, drive: Drive) -> None:
        """Report a drive; one that is refused is counted, and the fleet drives on."""
        name = drive.trip.name
        when = self.begin + timedelta(days=self.day - 1, seconds=float(drive.entered_s[-1]))
        try:
            self.client.report(
                f"sumo-{self.begin.timestamp():.0f}-{name}",
                when,
                route_id=self._tokens.pop(name),
                **measured(drive, self.report),
            )
        except ServiceError as error:
            self.refused.append(f"{name}: {error}")


def measured(drive: Drive, report: Report) -> dict[str, object]:
    """Return what is told of a drive."""
    energies, took = drive.energy_wh, np.maximum(np.diff(drive.entered_s), 0.0)
    if report == "totals":
        return {"total_energy_wh": drive.total_wh, "duration_s": float(took.sum())}
    speeds = np.maximum(drive.speed_ms, 0.0).tolist()
    if report == "edges":
        return {
            "edge_energy_wh": energies.tolist(),
            "speeds_ms": speeds,
            "edge_duration_s": took.tolist(),
        }
    spans = [
        {
            "first": first,
            "last": min(first + _SPAN, energies.size) - 1,
            "energy_wh": float(energies[first : first + _SPAN].sum()),
            "duration_s": float(took[first : first + _SPAN].sum()),
        }
        for first in range(0, energies.size, _SPAN)
    ]
    return {"spans": spans, "speeds_ms": speeds}


@dataclass(frozen=True)
class FleetDay:
    """How a day of the fleet went.

    Attributes:
        number: of the day.
        arrived: how many trips.
        failed: how many did not.
        energy_wh: per trip.
        expected_wh: what the service had said.
        covered: share of trips within the 90 % interval it had given.
        time_s: per trip.
        refused: reports that were not taken.
        problem: why the first of the failed ones failed.
        saved: by rival, what each trip saved that arrived both ways: Wh and seconds, shape (m, 2);
            negative where it took more.
    """

    number: int
    arrived: int
    failed: int
    energy_wh: float
    expected_wh: float
    covered: float
    time_s: float
    refused: int
    problem: str = ""
    saved: dict[str, Matrix] = field(default_factory=dict)


@dataclass(frozen=True)
class Saved:
    """What trips saved against a rival, measured; negative where they took more.

    Attributes:
        trips: how many were driven both ways.
        energy_wh: per trip.
        energy_error: its standard error; not a number of fewer than two trips.
        time_s: per trip.
        time_error: its standard error.
    """

    trips: int
    energy_wh: float
    energy_error: float
    time_s: float
    time_error: float


def saved_against(rival: str, days: Sequence[FleetDay]) -> Saved:
    """Return what the trips of some days saved against a rival, the same trips in the same traffic.

    Args:
        rival: one of `RIVALS` that was driven.
        days: as `drive_fleet` returns them.
    """
    parts = [day.saved[rival] for day in days if rival in day.saved]
    trips = np.concatenate(parts) if parts else np.empty((0, 2))
    none = np.full(2, np.nan)
    mean = trips.mean(axis=0) if len(trips) else none
    error = trips.std(axis=0, ddof=1) / np.sqrt(len(trips)) if len(trips) >= _FEWEST else none
    return Saved(len(trips), float(mean[0]), float(error[0]), float(mean[1]), float(error[1]))


def describe_difference(rival: str, saved: Saved) -> str:
    """Return what trips took beside a rival's in words, so that a loss reads as a loss.

    >>> describe_difference("physics", Saved(40, -2.0, 0.8, 12.0, 3.0))
    'against physics routes, measured over 40 trips driven both ways: 2.0 ± 0.8 Wh more energy and \
0.20 ± 0.05 min less time per trip'
    """
    if saved.trips == 0:
        return f"against {rival} routes: no trip was driven both ways"
    energy = _less_or_more(saved.energy_wh, saved.energy_error, "Wh", "energy", 1)
    time = _less_or_more(saved.time_s / 60, saved.time_error / 60, "min", "time", 2)
    trips = f"{saved.trips} trip{'s' if saved.trips > 1 else ''}"
    return (
        f"against {rival} routes, measured over {trips} driven both ways: "
        f"{energy} and {time} per trip"
    )


def _less_or_more(saved: float, error: float, unit: str, noun: str, digits: int) -> str:
    size = f"{abs(saved):.{digits}f}"
    margin = "" if np.isnan(error) else f" ± {error:.{digits}f}"  # it takes two trips
    if float(size) == 0.0:
        return f"the same {noun}" + (f" ({margin.strip()} {unit})" if margin else "")
    return f"{size}{margin} {unit} {'less' if saved > 0 else 'more'} {noun}"


def drive_fleet(  # noqa: PLR0913 - a fleet has these parts
    asking: ServicePlanner,
    *,
    days: int,
    vehicles: int,
    seconds: float = 3600.0,
    seed: int = 0,
    rivals: Sequence[str] = (),
    done: Callable[[FleetDay], None] | None = None,
) -> list[FleetDay]:
    """Let a fleet drive for some days, and return how each went.

    Args:
        asking: who asks the service.
        days: how many.
        vehicles: trips a day.
        seconds: of every day in which trips depart.
        seed: of the trips.
        rivals: some of `RIVALS`: methods that drive the same trips, each in a simulation of its
            own with the same traffic, so that what the service saves or loses is measured.
        done: called after every day.
    """
    world, found = asking.world, []
    beside = [
        (name, planner(name, world.network, world.vehicle, np.random.default_rng(seed)))
        for name in rivals
    ]
    for number in range(1, days + 1):
        asking.day, before = number, len(asking.refused)
        trips = world.trips(number, vehicles, 0.0, seconds, seed)
        day = world.day(number, trips, asking)
        one = _summed(number, day, asking, len(asking.refused) - before)
        saved = {name: _saved(day, world.day(number, trips, rival)) for name, rival in beside}
        found.append(replace(one, saved=saved))
        if done is not None:
            done(found[-1])
    return found


def _saved(day: Day, rival: Day) -> Matrix:
    """Return energy and time that trips saved, of those that arrived both ways, shape (m, 2)."""
    theirs = {drive.trip.name: drive for drive in rival.drives}
    rows = [
        (other.total_wh - drive.total_wh, other.total_s - drive.total_s)
        for drive in day.drives
        if (other := theirs.get(drive.trip.name)) is not None
    ]
    return np.array(rows).reshape(-1, 2)


def _summed(number: int, day: Day, planner: ServicePlanner, refused: int) -> FleetDay:
    drives = day.drives
    problem = day.failed[0].reason if day.failed else ""
    if not drives:
        none = float("nan")
        return FleetDay(number, 0, len(day.failed), none, none, none, none, refused, problem)
    expected = np.array([planner.expected_wh[drive.trip.name] for drive in drives])
    used = np.array([drive.total_wh for drive in drives])
    inside = (expected[:, 1] <= used) & (used <= expected[:, 2])
    return FleetDay(
        number,
        len(drives),
        len(day.failed),
        float(used.mean()),
        float(expected[:, 0].mean()),
        float(inside.mean()),
        float(np.mean([drive.total_s for drive in drives])),
        refused,
        problem,
    )
