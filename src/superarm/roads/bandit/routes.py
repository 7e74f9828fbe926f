"""Routes to try a network with."""

import numpy as np

from superarm.roads.network.network import RoadNetwork


def crossing_routes(network: RoadNetwork) -> dict[str, tuple[str, str]]:
    """Return two routes across a network: west to east and south to north."""
    middle = (
        network.junction_xy_m[network.from_junction] + network.junction_xy_m[network.to_junction]
    ) / 2
    centre = np.median(middle, axis=0)
    size = np.quantile(np.abs(middle - centre), 0.9, axis=0)
    slow = network.speed_ms <= np.quantile(network.speed_ms, 0.9)

    def nearest(direction: tuple[float, float]) -> str:
        gap = middle - (centre + np.array(direction) * size)
        distance = np.where(slow, np.hypot(gap[:, 0], gap[:, 1]), np.inf)
        return str(network.edge_ids[distance.argmin()])

    return {
        "A": (nearest((-0.85, 0.25)), nearest((0.85, -0.1))),
        "B": (nearest((0.1, -0.85)), nearest((-0.2, 0.9))),
    }
