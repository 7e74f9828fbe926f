"""How long edges take with nobody in the way: at the limit, and at most above it."""

import numpy as np

from superarm.arrays import Rows, Vector, require_positive
from superarm.roads.network.network import RoadNetwork

HEAVY_LIMIT_MS = 25.0
"""No heavy vehicle is faster (90 km/h)."""

SPEEDING = 1.2
"""How many times the limit is the most that anybody drives: drivers pass limits, and many limits of
maps are guesses."""


def free_flow_s(network: RoadNetwork, edges: Rows | None = None, *, heavy: bool = False) -> Vector:
    """Return the time of edges at their limits, shape (n,).

    Args:
        network: the roads.
        edges: positions of the edges wanted, shape (k,), in any order; by default all.
        heavy: whether the vehicle is not faster than `HEAVY_LIMIT_MS`.
    """
    some = slice(None) if edges is None else edges
    return network.length_m[some] / _limited(network.speed_ms[some], heavy=heavy)


def fastest_s(network: RoadNetwork, *, heavy: bool = False, speeding: float = SPEEDING) -> Vector:
    """Return the least time that every edge can take, shape (n,).

    Args:
        network: the roads.
        heavy: whether the vehicle is not faster than `HEAVY_LIMIT_MS`, whatever others are.
        speeding: how many times the limit is the most that anybody drives.
    """
    require_positive("speeding", speeding)
    return network.length_m / _limited(speeding * network.speed_ms, heavy=heavy)


def _limited(speed_ms: Vector, *, heavy: bool) -> Vector:
    return np.minimum(speed_ms, HEAVY_LIMIT_MS) if heavy else speed_ms
