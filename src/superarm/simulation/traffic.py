"""Other cars: the same for every method that is compared."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from superarm.errors import DataError
from superarm.saving.compressed import open_packed
from superarm.simulation.export import run_script, run_tool
from superarm.simulation.process import SimulationError

_HOUR_S = 3600.0

Route = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Traffic:
    """A pool of routes that other cars drive, and how many of them depart when.

    Every day draws its cars from the pool by the seed and the number of the day alone, so that all
    methods meet the same demand.

    Attributes:
        pool: routes as edge ids.
        hours: (first second, last second, cars per second) of parts of the day; none elsewhere.
        seed: draws the days.
    """

    pool: tuple[Route, ...]
    hours: tuple[tuple[float, float, float], ...]
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse hours that make no sense."""
        for begin, end, rate in self.hours:
            if not (0 <= begin < end and 0 <= rate < np.inf):
                msg = f"hours must be (begin, end, cars per second), got {(begin, end, rate)}"
                raise ValueError(msg)
        if self.hours and not self.pool:
            msg = "there are no routes for other cars: make some with Traffic.random"
            raise ValueError(msg)

    @classmethod
    def none(cls) -> "Traffic":
        """Return empty roads."""
        return cls((), ())

    @classmethod
    def random(  # noqa: PLR0913 - what SUMO's tools want to know
        cls,
        network: str | os.PathLike[str],
        hours: Sequence[tuple[float, float, float]],
        *,
        seed: int = 0,
        fringe: float = 5.0,
        spread: float = 1.5,
        equilibrium: int = 0,
        pool: int = 2000,
    ) -> "Traffic":
        """Return random traffic made by SUMO's own tools.

        Args:
            network: a SUMO network.
            hours: when how many cars depart; see the class.
            seed: of everything.
            fringe: by how much likelier trips begin and end at the edge of the map.
            spread: every route is the fastest under times multiplied at random by up to this.
            equilibrium: how many rounds of SUMO's user assignment (``duaIterate``) to run, in which
                cars choose again by the times they met; each simulates the whole demand.
            pool: how many routes to make.
        """
        network = Path(network).resolve()  # tools run in a folder of their own
        with tempfile.TemporaryDirectory(prefix="superarm-traffic-") as name:
            folder = Path(name)
            trips, routes = folder / "trips.xml", folder / "routes.rou.xml"
            rate = max((hour[2] for hour in hours), default=1.0) or 1.0
            script = ["-n", str(network), "-o", str(trips), "--seed", str(seed), "--validate"]
            script += ["--fringe-factor", str(fringe), "-b", "0", "-e", str(pool / rate)]
            script += ["--insertion-rate", str(rate * _HOUR_S), "--vehicle-class", "passenger"]
            run_script("randomTrips.py", script, folder)
            if equilibrium:
                more = ["-n", str(network), "-t", str(trips), "-l", str(equilibrium)]
                run_script(
                    "assign/duaIterate.py", [*more, "--no-warnings", "--disable-summary"], folder
                )
                last = sorted(folder.glob(f"{equilibrium - 1:03d}/*.rou.xml*"))
                if not last:
                    msg = "SUMO's user assignment has left no routes"
                    raise SimulationError(msg)
                found = _routes(last[0])
            else:
                arguments = ["-n", str(network), "-r", str(trips), "-o", str(routes)]
                arguments += ["--seed", str(seed), "--weights.random-factor", str(spread)]
                run_tool("duarouter", [*arguments, "--ignore-errors"])
                found = _routes(routes)
        return cls(tuple(route for _, route in found), tuple(hours), seed)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "FixedTraffic":
        """Return the demand of a SUMO route file (``.rou.xml``), the same every day."""
        return FixedTraffic(tuple(_routes(Path(path))))

    def day(self, number: int) -> list[tuple[float, Route]]:
        """Return departure and route of every other car of a day."""
        rng = np.random.default_rng([self.seed, number, 77])
        cars: list[tuple[float, Route]] = []
        for begin, end, rate in self.hours:
            count = int(rng.poisson(rate * (end - begin)))
            departs = np.sort(rng.uniform(begin, end, count))
            chosen = rng.integers(len(self.pool), size=count)
            cars += [(float(t), self.pool[i]) for t, i in zip(departs, chosen, strict=True)]
        return sorted(cars, key=lambda car: car[0])


@dataclass(frozen=True, eq=False)
class FixedTraffic:
    """The demand of a file."""

    cars: tuple[tuple[float, Route], ...]

    def day(self, number: int) -> list[tuple[float, Route]]:  # noqa: ARG002 - the same every day
        """Return departure and route of every other car."""
        return list(self.cars)


def _seconds(text: str) -> float:
    """Return a departure in seconds: a number, or h:m:s."""
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + float(part)
    return total


def _routes(path: Path) -> list[tuple[float, Route]]:
    """Return departure and edges of all vehicles of a route file."""
    named: dict[str, Route] = {}
    found: list[tuple[float, Route]] = []
    try:
        with open_packed(path) as file:
            for _, element in ET.iterparse(file):  # noqa: S314 - the user's own file
                if element.tag == "route" and element.get("id"):
                    named[str(element.get("id"))] = tuple(str(element.get("edges", "")).split())
                elif element.tag in {"trip", "flow", "routeDistribution"}:
                    msg = (
                        f"{path} holds a <{element.tag}>, which has no route of its own: make "
                        "vehicles with routes of it with SUMO's duarouter"
                    )
                    raise DataError(msg)
                elif element.tag == "vehicle":
                    inner = element.find("route")
                    edges = (
                        named.get(str(element.get("route")), ())
                        if inner is None
                        else tuple(str(inner.get("edges", "")).split())
                    )
                    if edges:
                        found.append((_seconds(element.get("depart", "0")), edges))
                    element.clear()
    except (OSError, ET.ParseError, ValueError) as error:
        msg = f"{path} is no SUMO route file: {error}"
        raise DataError(msg) from error
    if not found:
        msg = f"{path} holds no vehicles with routes; make routes of trips with duarouter first"
        raise DataError(msg)
    return sorted(found, key=lambda car: car[0])
