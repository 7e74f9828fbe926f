"""Contraction hierarchies that take new weights, beside the plain searches that the service runs.

Hierarchies have whole numbers as weights: costs are rounded to steps so fine that no path reaches
2^31 of them. Both search the same costs on the turns of a city, between the same ends.
"""

import time
from collections.abc import Callable

import numpy as np
from common import report, say, table

from superarm.oracles import Dijkstra, Paths
from superarm.oracles.reach import Tree
from superarm.roads.models import RoadModel
from superarm.roads.network import generate_city

try:
    from routingkit_cch import CCH, CCHMetric, CCHOneToMany, CCHQuery, compute_order_inertial
except ImportError as error:
    msg = "routingkit-cch is missing: pip install 'superarm[bench]'"
    raise SystemExit(msg) from error

SIZES = (5_700, 100_000)
COUNT, REPEATS = 100, 5
MOST = 2**31 - 1


def ms(ask: Callable[[], object], count: int = REPEATS) -> float:
    """Return the median of how many milliseconds it takes."""
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        ask()
        took.append(1000 * (time.perf_counter() - begin))
    return float(np.median(took))


def measure(n_edges: int) -> dict[str, object]:
    """Compare both on a generated city."""
    network = generate_city(0, n_edges).largest_component()
    n, costs = network.n_edges, RoadModel(network).physics
    (tails, heads), rng = network.turns.T, np.random.default_rng(0)
    middle = (
        network.junction_xy_m[network.from_junction] + network.junction_xy_m[network.to_junction]
    )
    arcs = (tails.tolist(), heads.tolist())
    begin = time.perf_counter()
    order = compute_order_inertial(n, *arcs, middle[:, 1].tolist(), middle[:, 0].tolist())
    hierarchy = CCH(order, *arcs, filter_always_inf_arcs=False)
    once = time.perf_counter() - begin
    step = float(costs.sum()) / MOST
    weights = np.rint(costs[heads] / step).astype(np.int64).tolist()
    renew = ms(lambda: CCHMetric(hierarchy, weights))
    metric = CCHMetric(hierarchy, weights)
    query = CCHQuery(metric)
    ends = rng.integers(n, size=(COUNT, 2))
    plain, fast, worst = [], [], 0.0
    for start, goal in ends.tolist():
        paths = Paths.on_turns(n, network.turns, start, goal)
        best = Dijkstra().select(paths, -costs)  # and what is made once for all in the service
        plain.append(ms(lambda p=paths: Dijkstra().select(p, -costs), 1))  # type: ignore[misc]
        fast.append(ms(lambda s=start, g=goal: query.run(s, g).node_path, 1))  # type: ignore[misc]
        found = query.run(start, goal).node_path
        worst = max(worst, float(costs[found].sum() / costs[best].sum() - 1))
    goals = rng.integers(n, size=100).tolist()
    many = CCHOneToMany(metric, goals)
    graph = Paths.on_turns(n, network.turns, 0, 1)
    return {
        "edges": n,
        "turns": len(arcs[0]),
        "order, once (s)": once,
        "new weights (ms)": renew,
        "route: hierarchy (ms)": float(np.median(fast)),
        "plain (ms)": float(np.median(plain)),
        "routes until new weights pay": renew / float(np.median(plain) - np.median(fast)),
        "costs of 100 goals: hierarchy (ms)": ms(lambda: many.distances_from(goals[0])),
        "plain, with paths (ms)": ms(lambda: Tree.away(graph, costs, goals[0])),
        "one step of weights (Wh)": step,
        "routes dearer by at most": worst,
    }


def main() -> None:
    """Measure both sizes."""
    rows = []
    for size in SIZES:
        rows.append(measure(size))
        say(str(rows[-1]))
    report(
        table(
            "Routes by contraction hierarchies (`routingkit-cch`) and by plain search",
            rows,
            "Turns of generated cities, costs of the physics, ends at random. A Thompson draw has "
            "new weights each time, and so has every posterior, for every vehicle and part of the "
            "day.",
        )
    )


if __name__ == "__main__":
    main()
