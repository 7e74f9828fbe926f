"""Totals of trips learned by an ensemble of draws, from 20,000 to 500,000 roads."""

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from common import peak_mib, report, say, table
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from superarm.arrays import Rows, Vector
from superarm.beliefs import DenseGP, EnsembleGP, InducedGP
from superarm.beliefs.sums import dense
from superarm.navigation import RoadModel, generate_city
from superarm.service.model.fleet import SPREAD

SIZES = (20_000, 100_000, 500_000)
BATCH, TRIP_SHARE = 600, 0.15
FIRST, ROUTES = 2_000, 200


def routes_of(model: RoadModel, count: int, rng: np.random.Generator) -> list[Rows]:
    """Return cheapest routes between random roads."""
    n, (tails, heads) = model.network.n_edges, model.network.turns.T
    graph = csr_array((model.physics[heads] + 1e-3, (tails, heads)), shape=(n, n))
    found: list[Rows] = []
    while len(found) < count:
        start = rng.integers(n, size=1)
        far, before = (a[0] for a in dijkstra(graph, indices=start, return_predecessors=True))
        for goal in rng.choice(np.flatnonzero(np.isfinite(far)), min(count // 10 + 1, 200)):
            route = [int(goal)]
            while before[route[-1]] >= 0:
                route.append(int(before[route[-1]]))
            if len(route) > 5:
                found.append(np.array(route[::-1]))
    return found[:count]


def totals(
    model: RoadModel, truth: Vector, routes: list[Rows], rng: np.random.Generator
) -> tuple[Any, ...]:
    """Return arms, starts, totals and noise variances of trips: 15 % of a trip is its own."""
    starts = np.concatenate([[0], np.cumsum([route.size for route in routes])])
    places = np.concatenate(routes)
    energy = np.add.reduceat(model.physics[places], starts[:-1])
    noise = (TRIP_SHARE * energy) ** 2
    noise += np.add.reduceat(model.noise_variance[places], starts[:-1])
    seen = np.add.reduceat(truth[places], starts[:-1])
    seen += np.sqrt(noise) * rng.standard_normal(len(routes))
    return model.arms.take(places), starts, seen, noise


def learned(belief: Any, seen: tuple[Any, ...]) -> tuple[Any, float]:  # noqa: ANN401 - any belief
    """Condition a belief on totals, and say how long that took."""
    arms, starts, values, noise = seen
    begin = time.perf_counter()
    belief = belief.condition_sums(arms, starts, values, noise_variance=noise)
    return belief, time.perf_counter() - begin


def measure(n_edges: int) -> dict[str, Any]:
    """Learn a history, then a batch, then one long trip with a draw for the next."""
    rng = np.random.default_rng(0)
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    routes = routes_of(model, FIRST + BATCH, rng)
    begin = time.perf_counter()
    few = 16 if n_edges > 200_000 else 64
    belief = EnsembleGP.from_kernel(
        model.arms, model.kernel, model.noise_variance, -model.physics, n_draws=few
    )
    made = time.perf_counter() - begin
    truth = belief.draws[:, 0].copy()
    belief, _ = learned(belief, totals(model, truth, routes[:FIRST], rng))
    belief, batch = learned(belief, totals(model, truth, routes[FIRST:], rng))
    iterations = belief.iterations
    longest = max(routes, key=len)
    begin = time.perf_counter()
    belief, _ = learned(belief, totals(model, truth, [longest], rng))
    belief.posterior(model.arms).sample(rng)
    return {
        "roads": model.network.n_edges,
        "draws": few,
        "features": belief.root.rank,
        "unexplained": belief.root.unexplained,
        "s to make": made,
        f"s for {BATCH} totals": batch,
        "totals per s": BATCH / batch,
        "iterations": iterations,
        "roads of the longest trip": int(longest.size),
        "s to learn it and draw": time.perf_counter() - begin,
        "peak MiB": peak_mib(),
        "numbers kept per total": sum(o.entries for o in belief.observations) / belief.count,
    }


def against_dense(n_edges: int = 20_000) -> list[dict[str, Any]]:
    """Compare variances with those of the posterior held whole, after all roads were driven."""
    dense.MOST_ARMS = 10**6  # once, at this size
    rng = np.random.default_rng(0)
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    n = model.network.n_edges
    parts = (model.arms, model.kernel, model.noise_variance, -model.physics)
    beliefs: dict[str, Any] = {
        "EnsembleGP": EnsembleGP.from_kernel(*parts),
        "InducedGP": InducedGP.from_kernel(*parts, keep_evidence=False),
        "DenseGP": DenseGP.from_kernel(*parts, keep_evidence=False),
    }
    values = -model.physics + np.sqrt(model.noise_variance) * rng.standard_normal(n)
    seconds = {}
    for name in list(beliefs):
        begin = time.perf_counter()
        beliefs[name] = beliefs[name].condition(
            model.arms, values, noise_variance=model.noise_variance / 10
        )
        seconds[name] = time.perf_counter() - begin
        say(f"{name} {seconds[name]:.1f} s")
    routes = routes_of(model, ROUTES, rng)
    exact = beliefs["DenseGP"]
    true = np.array([exact.matrix[np.ix_(route, route)].sum() for route in routes])
    starts = np.concatenate([[0], np.cumsum([route.size for route in routes])])
    sums = csr_array((np.ones(starts[-1]), np.concatenate(routes), starts), shape=(ROUTES, n))
    solved = np.diag(beliefs["EnsembleGP"].covariance_of(sums))
    few = beliefs["InducedGP"]
    spread = few.features @ sums.T.toarray()
    induced = np.einsum("ij,ij->j", spread, few.core_covariance @ spread) + sums @ few.residual
    rows = []
    for name, whole in (("EnsembleGP", solved), ("InducedGP", induced)):
        ratio = beliefs[name].variance / exact.variance
        rows.append(
            {
                "belief": name,
                "variance of a road, mean ratio": float(ratio.mean()),
                "5 %": float(np.quantile(ratio, 0.05)),
                "95 %": float(np.quantile(ratio, 0.95)),
                f"of {ROUTES} routes, mean ratio": float((whole / true).mean()),
                "least": float((whole / true).min()),
                "most": float((whole / true).max()),
                "s to learn": seconds[name],
                "s of DenseGP": seconds["DenseGP"],
            }
        )
    return rows


def main() -> None:
    """Measure every size in a process of its own, for its memory."""
    rows = []
    for size in SIZES:
        done = subprocess.run(  # noqa: S603 - this very script
            [sys.executable, __file__, str(size)], check=True, stdout=subprocess.PIPE, text=True
        )
        rows.append(json.loads(done.stdout))
        say(str(rows[-1]))
    report(
        table(
            "Totals of trips in generated cities, with the service's prior",
            rows,
            f"After {FIRST:,} totals of cheapest routes were learned. Wall-clock seconds.",
        ),
        table(
            "Variances beside `DenseGP`, 20,000 roads, every one of them measured ten times",
            against_dense(),
            "Routes by one solve each. Of roads the ensemble's are estimated from 64 draws.",
        ),
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(measure(int(sys.argv[1])), sys.stdout)
    else:
        main()
