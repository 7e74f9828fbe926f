"""What a network is like, in numbers."""

import numpy as np

from superarm.roads.network.network import RoadNetwork


def describe(network: RoadNetwork) -> dict[str, str]:
    """Return a table of statistics, label by label."""
    ends = np.column_stack([network.from_junction, network.to_junction])
    codes = ends[:, 0] * network.n_junctions + ends[:, 1]
    mirrored = ends[:, 1] * network.n_junctions + ends[:, 0]
    one_way = ~np.isin(codes, mirrored)
    streets = np.unique(np.sort(ends, axis=1), axis=0)
    degrees = np.bincount(streets.ravel(), minlength=network.n_junctions)
    component = network.largest_component()
    kmh, lengths, heights = network.speed_ms * 3.6, network.length_m, network.junction_height_m
    grade = 100 * np.tan(np.arcsin(network.sine_of_incline))
    return {
        "edges": f"{network.n_edges:,}",
        "junctions": f"{network.n_junctions:,}",
        "turns": f"{network.n_turns:,} ({network.n_turns / network.n_edges:.2f} per edge)",
        "in the largest component": f"{component.n_edges / network.n_edges:.1%} of edges",
        "length": f"{lengths.sum() / 1000:,.1f} km, median {np.median(lengths):.0f} m",
        "one-way": f"{one_way.mean():.1%} of edges",
        "dead ends": f"{(degrees == 1).mean():.1%} of junctions",
        "streets per junction": ", ".join(
            f"{count}: {(degrees == count).mean():.0%}" for count in range(1, 6)
        )
        + f" (mean {degrees.mean():.2f})",
        "speed limits": f"{kmh.min():.0f} to {kmh.max():.0f} km/h, mean {kmh.mean():.0f}",
        "heights": f"{heights.min():.0f} to {heights.max():.0f} m",
        "grade": f"standard deviation {grade.std():.1f} %, steepest {np.abs(grade).max():.1f} %",
    }
