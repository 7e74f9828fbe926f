"""Map matching: how much of a route is found from noisy points, and how many points per second.

Routes are the fastest under randomly changed times between random edges, driven along the geometry
at 70 % of the limit, from the middle of the first edge to the middle of the last, which are 100 m
long at least: nobody can tell on which side of a junction a trip ends within the error of its GPS.
The error is the length wrongly added plus the length missed, as a share of what was driven.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table

from superarm.roads.matching import Matcher
from superarm.roads.matching.trial import driven, random_routes, wrong_share
from superarm.roads.network import RoadNetwork, generate_city, read_osm, read_sumo

NOISES_M = (5.0, 10.0, 20.0)
EVERY_S = (1.0, 5.0, 15.0, 30.0)
MEMORY_S = (0.0, 30.0)


def networks(data: Path | None, real: Path | None) -> list[RoadNetwork]:
    """Return those that are there; a generated city always."""
    found = [generate_city(1, 3000)]
    if data is not None:
        found += [read_sumo(data / f"{name}.net.xml.gz") for name in ("luxembourg", "monaco")]
    if real is not None:
        found.append(read_osm(real / "andorra" / "andorra.osm.pbf"))
    return [network.largest_component() for network in found]


def accuracy(network: RoadNetwork, count: int) -> list[dict[str, Any]]:
    """Return errors by noise, memory and interval."""
    rows = []
    routes = random_routes(network, count, np.random.default_rng(0))
    for memory in MEMORY_S:
        for noise in NOISES_M:
            row: dict[str, Any] = {
                "network": network.name,
                "memory (s)": int(memory),
                "noise (m)": int(noise),
            }
            cuts = 0
            for every in EVERY_S:
                share, cut = wrong_share(
                    network,
                    routes,
                    noise_m=noise,
                    every_s=every,
                    memory_s=memory,
                    rng=np.random.default_rng(1),
                )
                row[f"every {every:.0f} s (%)"] = round(100 * share, 2)
                cuts += cut
            rows.append(row | {"cut": cuts})
            say(str(row))
    return rows


def speed(network: RoadNetwork, count: int) -> dict[str, Any]:
    """Return points per second of CPU, at 10 m and 5 s, after compilation."""
    rng = np.random.default_rng(2)
    routes = random_routes(network, count, rng)
    traces = [driven(network, route, 5.0).seen(10.0, 0.0, rng) for route in routes]
    Matcher(network, accuracy_m=10.0).match(traces[0])
    fresh = Matcher(network, accuracy_m=10.0)
    seconds = []
    for _ in range(2):
        begin = time.process_time()
        for trace in traces:
            fresh.match(trace)
        seconds.append(time.process_time() - begin)
    points = sum(map(len, traces))
    return {
        "network": network.name,
        "edges": network.n_edges,
        "points": points,
        "points/s, roads new to it": round(points / seconds[0]),
        "points/s, roads known": round(points / seconds[1]),
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=os.environ.get("SUPERARM_DATA"))
    parser.add_argument("--real", type=Path, default=None)
    parser.add_argument("--routes", type=int, default=100)
    options = parser.parse_args()
    known = networks(options.data and Path(options.data), options.real)
    rows = [row for network in known for row in accuracy(network, options.routes)]
    fast = [speed(network, 5 * options.routes) for network in known]
    report(
        table(
            f"Wrong length as a share of {options.routes} routes",
            rows,
            "Of the fastest routes under randomly changed times, driven at 70 % of the limit;",
            "wrong: added plus missed. The matcher is told the noise, not its memory. Cut: routes",
            "that were not found in one piece, of all four intervals.",
        ),
        table("Points per second and core, every 5 s, noise 10 m", fast),
    )


if __name__ == "__main__":
    main()
