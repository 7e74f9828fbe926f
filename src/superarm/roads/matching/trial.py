"""How well matching works on some roads: drives that are known, seen through a made-up GPS."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix, Rows
from superarm.errors import DataError
from superarm.oracles import Dijkstra, Paths
from superarm.roads.matching.matcher import Match, Matcher, Trace
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.free_flow import free_flow_s

_SPEED_SHARE = 0.7
_FEWEST_EDGES = 20
_LONG_END_M = 100.0
_TRIES_PER_ROUTE = 200


@dataclass(frozen=True, eq=False)
class KnownDrive:
    """A drive along a route.

    Attributes:
        route: edges in driving order, shape (k,).
        points: time and place, shape (p, 3).
        first_m: how far from its start the first edge was entered.
        last_m: how far from its end the last one was left.
    """

    route: Rows
    points: Matrix
    first_m: float
    last_m: float

    def seen(self, noise_m: float, memory_s: float, rng: np.random.Generator) -> Trace:
        """Return what a GPS logger makes of it: errors that forget over so many seconds."""
        fresh = rng.standard_normal((len(self.points), 2))
        error = fresh.copy()
        for row in range(1, len(self.points)):
            gap = self.points[row, 0] - self.points[row - 1, 0]
            keep = float(np.exp(-gap / memory_s)) if memory_s else 0.0
            error[row] = keep * error[row - 1] + np.sqrt(1 - keep**2) * fresh[row]
        return Trace(self.points[:, 0], self.points[:, 1:] + noise_m * error)


def random_routes(network: RoadNetwork, count: int, rng: np.random.Generator) -> list[Rows]:
    """Return routes of 20 edges at least that do not turn round: the fastest under random times.

    Their first and last edges are 100 m long at least: nobody can tell on which side of a junction
    a trip ends within the error of its GPS.
    """
    graph = Paths.on_turns(network.n_edges, network.turns, *map(int, network.turns[0]))
    found: list[Rows] = []
    for _ in range(_TRIES_PER_ROUTE * count):
        start, goal = rng.integers(network.n_edges, size=2)
        if start == goal or network.length_m[[start, goal]].min() < _LONG_END_M:
            continue
        times = free_flow_s(network) * rng.uniform(1, 2, network.n_edges)
        route = np.asarray(Dijkstra().select(graph.between(int(start), int(goal)), -times))
        back = network.from_junction[route[:-1]] == network.to_junction[route[1:]]
        if route.size >= _FEWEST_EDGES and not back.any():
            found.append(route)
            if len(found) == count:
                return found
    msg = f"{network.name} has too few routes of {_FEWEST_EDGES} edges to try matching on"
    raise DataError(msg)


def driven(network: RoadNetwork, route: Rows, every_s: float) -> KnownDrive:
    """Return a drive at 70 % of the limits, from the middle of the first edge to the last's."""
    shapes = [network.shape_of(int(edge)) for edge in route]
    sizes = np.array([len(one) for one in shapes])
    xy = np.concatenate(shapes)
    speed = np.repeat(_SPEED_SHARE * network.speed_ms[route], sizes)
    steps = np.hypot(*np.diff(xy, axis=0).T)
    clock = np.append(0.0, np.cumsum(steps / speed[:-1]))
    ends = np.cumsum(sizes)
    begin, end = clock[ends[0] - 1] / 2, (clock[ends[-2]] + clock[-1]) / 2
    at = np.arange(begin, end, every_s)
    at = np.append(at, end) if end - at[-1] > every_s / 2 else at
    places = np.column_stack([np.interp(at, clock, xy[:, axis]) for axis in (0, 1)])
    halves = [float(np.hypot(*np.diff(shapes[i], axis=0).T).sum()) / 2 for i in (0, -1)]
    return KnownDrive(route, np.column_stack([at, places]), *halves)


def wrong_m(network: RoadNetwork, drive: KnownDrive, match: Match) -> float:
    """Return the length wrongly added plus that missed, in m; an end on the right edge is right."""
    truth = _lengths(network, [(drive.route, drive.first_m, drive.last_m)])
    stretches = [
        (
            part.edges,
            float(part.offset_m[0]),
            float(network.length_m[part.edges[-1]] - part.offset_m[-1]),
        )
        for part in match.parts
    ]
    found = _lengths(network, stretches)
    shared = set(drive.route[[0, -1]].tolist())
    return sum(
        abs(truth.get(edge, 0.0) - found.get(edge, 0.0))
        for edge in truth.keys() | found.keys()
        if not (edge in shared and truth.get(edge) and found.get(edge))
    )


def wrong_share(  # noqa: PLR0913 - a trial
    network: RoadNetwork,
    routes: list[Rows],
    *,
    noise_m: float,
    every_s: float,
    memory_s: float = 0.0,
    rng: np.random.Generator,
) -> tuple[float, int]:
    """Return the wrong length of all routes as a share of theirs, and how many were cut.

    Args:
        network: the roads.
        routes: what is driven, positions of edges, shape (k,) each; see `random_routes`.
        noise_m: standard deviation of GPS errors in each direction; the matcher is told.
        every_s: seconds between points.
        memory_s: over which errors forget; zero for independent ones.
        rng: for the errors.
    """
    matcher = Matcher(network, accuracy_m=noise_m)
    off = total = 0.0
    cut = 0
    for route in routes:
        drive = driven(network, route, every_s)
        match = matcher.match(drive.seen(noise_m, memory_s, rng))
        off += wrong_m(network, drive, match)
        total += float(network.length_m[route].sum()) - drive.first_m - drive.last_m
        cut += len(match.parts) != 1
    return off / total, cut


def _lengths(network: RoadNetwork, parts: list[tuple[Rows, float, float]]) -> dict[int, float]:
    """Return how far every edge was driven; both ends of parts are left out."""
    found: dict[int, float] = {}
    for edges, begin, end in parts:
        for edge, times in Counter(edges.tolist()).items():
            found[edge] = found.get(edge, 0.0) + times * float(network.length_m[edge])
        found[int(edges[0])] -= max(begin, 0.0)
        found[int(edges[-1])] -= max(end, 0.0)
    return found
