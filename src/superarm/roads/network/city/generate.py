"""A generated city, for people without map data: deterministic by seed, of almost any size.

Ring roads and radials are laid out first, blocks between them follow the grids of their districts.
A river cuts through and is crossed only where arterials meet it; a motorway with two carriageways
and ramps passes above all that. Streets are chosen from the Delaunay triangulation of the
junctions, so that none crosses another. All steps are (nearly) linear in the number of edges.
"""

import numpy as np

from superarm.arrays import Pairs, Rows
from superarm.roads.network.city.plan import CityPlan, lay_junctions
from superarm.roads.network.city.streets import Roads, give_directions, lay_motorway, lay_streets
from superarm.roads.network.network import RoadNetwork

FEWEST, MOST = 500, 1_000_000

_FORBIDDEN = 0.04  # share of turns that are not allowed, where there are others
_EDGES_PER_JUNCTION = 2.8
_ATTEMPTS = 6
_PROJECTION = "+proj=aeqd +lat_0=0 +lon_0=0 +datum=WGS84 +units=m +type=crs"  # a place in the sea


def generate_city(seed: int = 0, n_edges: int = 4000) -> RoadNetwork:
    """Return a city with about this many directed edges (within five per cent).

    Args:
        seed: the same seed and size give the same city.
        n_edges: from 500 to 1,000,000.
    """
    if not FEWEST <= n_edges <= MOST:
        msg = f"n_edges must be from {FEWEST} to {MOST:,}, got {n_edges:,}"
        raise ValueError(msg)
    spread = 1.12
    wanted = n_edges / _EDGES_PER_JUNCTION
    for _ in range(_ATTEMPTS):  # the radius that gives the right number of junctions
        rng = np.random.default_rng([seed, n_edges])
        plan = CityPlan.drawn(int(wanted), spread, rng)
        junctions, axes, arterials = lay_junctions(plan, rng)
        surplus = junctions.shape[0] / wanted
        if abs(surplus - 1) < 0.02:  # noqa: PLR2004 - well within five per cent
            break
        spread /= np.sqrt(surplus)
    streets = lay_streets(plan, junctions, axes, arterials, rng)
    roads = give_directions(plan, streets, lay_motorway(plan, streets), n_edges, rng)
    return _network(plan, roads, f"city {seed} of {n_edges:,} edges", rng)


def _network(plan: CityPlan, roads: Roads, name: str, rng: np.random.Generator) -> RoadNetwork:
    used, ends = np.unique(roads.ends, return_inverse=True)
    ends = ends.reshape(-1, 2)
    xy = roads.xy[used]
    points = xy[ends]  # straight roads: two points each
    gap = points[:, 1] - points[:, 0]
    heights = plan.terrain.heights(xy)
    n = ends.shape[0]
    return RoadNetwork(
        name=name,
        edge_ids=np.array(roads.ids),
        from_junction=ends[:, 0].copy(),
        to_junction=ends[:, 1].copy(),
        length_m=np.hypot(gap[:, 0], gap[:, 1]),
        speed_ms=roads.speed_kmh / 3.6,
        lanes=roads.lanes,
        junction_ids=np.array([f"j{i}" for i in range(used.size)]),
        junction_xy_m=xy,
        junction_height_m=plan.terrain.range_m * (heights - heights.min()) / np.ptp(heights),
        shape_xy_m=points.reshape(-1, 2),
        shape_start=np.arange(0, 2 * n + 1, 2, dtype=np.intp),
        turns=_turns(ends, roads.twin, used.size, rng),
        projection=_PROJECTION,
    )


def _turns(ends: Pairs, twin: Rows, n_junctions: int, rng: np.random.Generator) -> Pairs:
    """Return all turns but U-turns (dead ends excepted) and a few forbidden ones."""
    leaving = np.argsort(ends[:, 0], kind="stable")
    counts = np.bincount(ends[:, 0], minlength=n_junctions)
    starts = np.concatenate([[0], np.cumsum(counts)])
    choices = counts[ends[:, 1]]
    first = np.repeat(np.arange(ends.shape[0]), choices)
    within = np.arange(first.size) - np.repeat(np.cumsum(choices) - choices, choices)
    second = leaving[starts[ends[first, 1]] + within]
    back = second == twin[first]
    others = choices - np.bincount(first, weights=back, minlength=ends.shape[0]).astype(np.intp)
    forbidden = (others[first] >= 3) & (rng.random(first.size) < _FORBIDDEN)  # noqa: PLR2004
    legal = np.where(back, others[first] == 0, ~forbidden)
    return np.column_stack([first[legal], second[legal]])
