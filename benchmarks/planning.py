"""Routes, reach, matrices and plans with charging stops, at two sizes of city.

Every question is asked of a posterior before the first trip, in one thread, ends at random. Plans:
100 stations, and a battery that holds 0.8 of what the thriftiest way takes, so that two stops or
more are needed; plans with fewer are left out.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from common import report, say, table

from superarm.errors import InfeasibleError
from superarm.roads.battery import Battery
from superarm.roads.charging import ChargingCurve, Station, StationPlaces
from superarm.roads.charging.legs import Wish
from superarm.roads.charging.monte_carlo import share_lasting
from superarm.roads.charging.plans import Planner
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.network.geography import Geography
from superarm.roads.routing.areas import AreaGrid
from superarm.roads.routing.matrix import row_of
from superarm.roads.routing.query import Mode, RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.vehicle import CLASSES

SIZES = (5_700, 100_000)
COUNT, PLANS, STATIONS, SHARE, SURE = 60, 25, 100, 0.8, 0.95


def times_ms(ask: Callable[[], object], count: int) -> tuple[float, float]:
    """Return the median and the 99th percentile, after a few that warm up."""
    took = []
    for _ in range(count + 3):
        begin = time.perf_counter()
        ask()
        took.append(1000 * (time.perf_counter() - begin))
    return float(np.median(took[3:])), float(np.quantile(took[3:], 0.99))


class City:
    """A city, what is believed of it, and random ends."""

    def __init__(self, edges: int) -> None:
        """Make it."""
        self.network: RoadNetwork = generate_city(0, edges).largest_component()
        fleet = Fleet(self.network)
        belief, counts = fleet.prior(), np.zeros(self.network.n_edges)
        self.posterior = RoadPosterior.of(fleet, belief, counts, trips=0)
        self.router, self.car = Router(self.network), fleet.drivetrain(CLASSES["car"])
        self.rng, self.mind = np.random.default_rng(0), np.random.default_rng(1)
        self.geography = Geography(self.network)

    def some(self, count: int) -> list[int]:
        """Return random edges."""
        return [int(edge) for edge in self.rng.integers(self.network.n_edges, size=count)]

    def query(self, mode: Mode = "best") -> RouteQuery:
        """Return a question with random ends."""
        start, goal = self.some(2)
        return RouteQuery(start=start, goal=goal, mode=mode)

    def route(self, mode: Mode) -> None:
        """Ask for a route."""
        self.router.answer(self.query(mode), self.posterior, self.car, self.mind)

    def front(self) -> None:
        """Ask for routes between the fastest and the thriftiest."""
        self.router.front(self.query(), self.posterior, self.car)

    def reach(self, *, back: bool) -> None:
        """Ask how far the charge lasts, as areas."""
        start = self.some(1)[0]
        query = RouteQuery(
            start=start, goal=start, mode="best", closed=(), battery=Battery(1500.0, 50_000.0)
        )
        found = self.router.reached(query, self.posterior, self.car, (0.5, 0.8, 0.95), back=back)
        grid = AreaGrid(self.network, found[0].edges if found[0].edges.size else np.array([start]))
        for one in found:
            grid.area(one.edges)

    def row(self) -> None:
        """Ask for one row of a matrix of 100 destinations."""
        query = self.query()
        search = self.router.search(query, self.posterior, self.car)
        row_of(search, self.some(100), "energy")

    def plans(self) -> dict[str, object]:
        """Ask for plans of two stops or more."""
        junctions = self.rng.integers(self.network.junction_ids.size, size=STATIONS)
        where = self.geography.to_globe(self.network.junction_xy_m[junctions])
        power = self.rng.choice([11e3, 22e3, 50e3, 150e3], STATIONS)
        stations = [
            Station(f"s{i}", float(x), float(y), float(watts))
            for i, ((x, y), watts) in enumerate(zip(where, power, strict=True))
        ]
        places = StationPlaces.on(self.geography, stations)
        took: list[float] = []
        stops: list[int] = []
        last: list[float] = []
        asked = none = 0
        while len(took) < PLANS + 3 and asked < 40 * PLANS:
            asked += 1
            search = self.router.search(self.query(), self.posterior, self.car)
            costs = np.maximum(self.posterior.cost_wh(self.car), 0.0)
            takes = search.predicted(search.path(costs)).mean_wh
            if takes < 300:
                continue
            room = SHARE * takes
            battery = Battery(0.9 * room, room, 0.05 * room)
            wish = Wish(battery, ChargingCurve.usual(room), SURE)
            begin = time.perf_counter()
            try:
                plan = Planner(search, wish, places).plan()
            except InfeasibleError:
                none += 1
                continue
            spent = 1000 * (time.perf_counter() - begin)
            if len(plan.stops) < 2:
                continue
            took.append(spent)
            stops.append(len(plan.stops))
            mean, covariance = self.posterior.along(plan.route.edges, self.car)
            draws = np.random.default_rng(asked).multivariate_normal(
                mean, covariance, 10_000, method="cholesky"
            )
            starts = np.concatenate([[0], plan.ends[:-1]])
            leaves = np.array([stop.leaves_wh for stop in plan.stops])
            energies = np.ascontiguousarray(draws.T)
            last.append(1 - share_lasting(energies, starts, battery, leaves))
        return {
            "edges": self.network.n_edges,
            "p50 (ms)": float(np.median(took[3:])),
            "most (ms)": float(max(took[3:])),
            "stops": f"{min(stops)} to {max(stops)}",
            "plans": len(took) - 3,
            "no plan": none,
            "stranded, asked for at most": 1 - SURE,
            "stranded of 10,000 other drives": float(np.mean(last)),
            "of the worst plan": float(max(last)),
        }


def main() -> None:
    """Measure and report."""
    rows, plans = [], []
    for size in SIZES:
        say(f"{size} edges")
        city = City(size)
        questions: tuple[tuple[str, Callable[[], object], int], ...] = (
            ("route, best", partial(city.route, "best"), COUNT),
            ("route, explore", partial(city.route, "explore"), COUNT),
            ("front", city.front, COUNT // 2),
            ("reach", partial(city.reach, back=False), COUNT // 2),
            ("reach and back", partial(city.reach, back=True), COUNT // 2),
            ("matrix, a row of 100", city.row, COUNT // 4),
        )
        for name, ask, count in questions:
            middle, most = times_ms(ask, count)
            rows.append(
                {
                    "question": name,
                    "edges": city.network.n_edges,
                    "p50 (ms)": middle,
                    "p99 (ms)": most,
                }
            )
        say(f"{size} edges: plans")
        plans.append(city.plans())
    report(
        table("Questions, one at a time", rows),
        table(
            "Plans with at least two charging stops, 100 stations",
            plans,
            "Other drives are drawn from the posterior with noise and what trips have in common.",
        ),
    )


if __name__ == "__main__":
    main()
