"""Totals of trips learned by an ensemble of draws, from 20,000 to 1,000,000 roads."""

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import peak_mib, report, say, table
from scipy.linalg import cholesky
from scipy.linalg.blas import dtrmm, dtrsm
from scipy.sparse import csr_array

from superarm import Agent, Round
from superarm.arrays import Rows, Vector
from superarm.beliefs import DenseGP, EnsembleGP, FiniteGP
from superarm.beliefs.sums import dense
from superarm.compiling import compiled
from superarm.oracles import Dijkstra, Paths
from superarm.oracles.reach import Tree
from superarm.policies import MarginalThompson, Rectified
from superarm.roads.models import RoadModel
from superarm.roads.models.fleet import DRAWS, SPREAD, TOLERANCE
from superarm.roads.network import RoadNetwork, generate_city, read_sumo
from superarm.values import changed

SIZES = (20_000, 100_000, 500_000, 1_000_000)
TRIPS = int(os.environ.get("SUPERARM_TRIPS", "1000000"))
AT_ONCE, BATCH, TRIP_SHARE = 50_000, 600, 0.15
MEAN, PER_START, ROUTES, ROUNDS = 100, 500, 200, 15
PRECISE = 0.02
ENDS = ("-31118#2", "--32646#1")  # route A of Luxembourg


def trips_of(model: RoadModel, count: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return cheapest routes of about a hundred edges, one after the other, and their starts."""
    n, network = model.network.n_edges, model.network
    costs, paths = model.physics + 1e-3, Paths.on_turns(n, network.turns, 0, 1)
    limit = 2.0 * MEAN * float(np.median(costs))
    parts: list[Rows] = []
    sizes: list[Rows] = []
    while sum(part.size for part in sizes) < count:
        tree = Tree.away(paths, costs, int(rng.integers(n)), limit)
        near = np.flatnonzero(np.isfinite(tree.costs))
        flat, starts = tree.paths(rng.choice(near, min(PER_START, near.size)))
        parts.append(flat)
        sizes.append(np.diff(starts))
    lengths = np.concatenate(sizes)[:count]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return np.concatenate(parts)[: starts[-1]], starts


def longest_route(model: RoadModel, edges: int) -> Rows:
    """Return a route of about so many edges: a cheapest one, or several one behind the other.

    In a generated city of 500,000 roads the longest cheapest route has 442.
    """
    n = model.network.n_edges
    paths = Paths.on_turns(n, model.network.turns, 0, 1)
    route = np.zeros(1, dtype=np.intp)
    while route.size < edges:
        tree = Tree.away(paths, model.physics + 1e-3, int(route[-1]))
        far = np.argsort(np.where(np.isfinite(tree.costs), tree.costs, -1.0))[-20_000:]
        flat, starts = tree.paths(far)
        sizes = np.diff(starts)
        best = int(np.argmin(np.abs(route.size - 1 + sizes - edges)))
        route = np.concatenate([route[:-1], flat[starts[best] : starts[best + 1]]])
        if sizes[best] < edges // 10:  # nothing is further away
            break
    return route


def totals(
    model: RoadModel, truth: Vector, places: Rows, starts: Rows, rng: np.random.Generator
) -> tuple[csr_array, Vector, Vector]:
    """Return rows, totals and noise variances of trips: 15 % of a trip is its own."""
    energy = np.add.reduceat(model.physics[places], starts[:-1])
    noise = (TRIP_SHARE * energy) ** 2
    noise += np.add.reduceat(model.noise_variance[places], starts[:-1])
    seen = np.add.reduceat(truth[places], starts[:-1])
    seen += np.sqrt(noise) * rng.standard_normal(noise.size)
    shape = (noise.size, model.network.n_edges)
    return csr_array((np.ones(places.size), places, starts), shape=shape), seen, noise


def learned(belief: EnsembleGP, seen: tuple[Any, ...]) -> tuple[EnsembleGP, float]:
    """Condition a belief on totals, and say how long that took."""
    begin = time.perf_counter()
    belief = belief.condition_functionals(*seen)
    return belief, time.perf_counter() - begin


@dataclass(frozen=True)
class Trips:
    """Trips in a file, so that what is yet to be learned takes no memory.

    Attributes:
        path: of their edges, one trip after the other.
        starts: where each begins.
    """

    path: Path
    starts: Rows

    @classmethod
    def made(cls, n_edges: int, count: int, folder: str) -> "Trips":
        """Make them in a process of its own, whose memory is not that of the belief.

        Those that lie in the folder already are taken.
        """
        starts = Path(folder) / "starts.npy"
        if not starts.exists():
            command = [sys.executable, __file__, "trips", str(n_edges), str(count), folder]
            subprocess.run(command, check=True)  # noqa: S603 - this very script
        return cls(Path(folder) / "edges", np.load(starts))

    def part(self, begin: int, end: int) -> tuple[Rows, Rows]:
        """Return some of them."""
        first, last = int(self.starts[begin]), int(self.starts[end])
        edges = np.fromfile(self.path, np.int32, last - first, offset=4 * first)
        return edges.astype(np.intp), self.starts[begin : end + 1] - first


def write_trips(n_edges: int, count: int, folder: Path) -> None:
    """Write trips of a generated city to a folder."""
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    places, starts = trips_of(model, count, np.random.default_rng(0))
    places.astype(np.int32).tofile(folder / "edges")
    np.save(folder / "starts.npy", starts)


def part_of(places: Rows, starts: Rows, begin: int, end: int) -> tuple[Rows, Rows]:
    """Return some of the trips."""
    return places[starts[begin] : starts[end]], starts[begin : end + 1] - starts[begin]


def measure(n_edges: int, folder: str) -> dict[str, Any]:
    """Learn a history, then batches, then one long trip and decide on the next."""
    trips = Trips.made(n_edges, TRIPS + 5 * BATCH, folder)
    rng = np.random.default_rng(0)
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    n = model.network.n_edges
    few = next(draws for most, draws in DRAWS if n <= most)
    begin = time.perf_counter()
    belief = EnsembleGP.from_kernel(
        model.arms,
        model.kernel,
        model.noise_variance,
        -model.physics,
        n_draws=few,
        tolerance=TOLERANCE,
    )
    made = time.perf_counter() - begin
    truth = belief.draws[:, 0].copy()
    spent = 0.0
    for first in range(0, TRIPS, AT_ONCE):
        some = trips.part(first, min(first + AT_ONCE, TRIPS))
        belief, took = learned(belief, totals(model, truth, *some, rng))
        spent += took
        say(f"{belief.count:,} trips, {took:.0f} s, {belief.iterations} iterations")
    batches = []
    for size, first in ((BATCH, TRIPS), (BATCH, TRIPS + BATCH), (3 * BATCH, TRIPS + 2 * BATCH)):
        some = trips.part(first, first + size)
        belief, took = learned(belief, totals(model, truth, *some, rng))
        begin = time.perf_counter()
        belief.mean, belief.variance  # noqa: B018 - what a service hands over
        batches.append((took + time.perf_counter() - begin, belief.iterations))
        say(f"batch of {size}: {batches[-1]}")
    route = longest_route(model, 700)
    paths, turns = Paths.on_turns(n, model.network.turns, int(route[0]), int(route[-1])), []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        belief, _ = learned(belief, totals(model, truth, route, np.array([0, route.size]), rng))
        drawn = belief.mean + np.sqrt(belief.variance) * rng.standard_normal(n)
        Dijkstra().select(paths, np.minimum(drawn, -1e-9))
        turns.append(time.perf_counter() - begin)
        say(f"a round in {turns[-1]:.2f} s, {belief.iterations} iterations")
    held = belief.equations.held_bytes / belief.count
    return {
        "roads": n,
        "draws": few,
        "features": belief.root.rank,
        "unexplained": belief.root.unexplained,
        "s to make": made,
        "trips learned": TRIPS,
        "edges of a trip": float(np.diff(trips.starts).mean()),
        "s for all of them": spent,
        f"s for {BATCH} more": batches[1][0],
        "iterations": batches[1][1],
        f"s for {3 * BATCH} more": batches[2][0],
        "trips per s": 3 * BATCH / batches[2][0],
        "edges of a long route": int(route.size),
        "s for a GP-TS round of it": float(np.median(turns)),
        "mean": float(np.mean(turns)),
        "peak MiB": peak_mib(),
        "MB per million trips": held,
    }


def tolerances() -> list[dict[str, Any]]:
    """Compare what tolerances leave with solutions that are right to a thousandth."""
    rng = np.random.default_rng(0)
    model = RoadModel(generate_city(1, 20_000).largest_component(), spread=SPREAD)
    parts = (model.arms, model.kernel, model.noise_variance, -model.physics)
    places, starts = trips_of(model, 103_000, rng)
    truth, seen, rows, known = None, [], [], None
    routes = totals(model, model.physics, *part_of(places, starts, 0, ROUTES), rng)[0]
    for tolerance in (1e-3, 0.05, TOLERANCE, 1.0):
        belief = EnsembleGP.from_kernel(*parts, n_draws=15, tolerance=tolerance)
        if truth is None:
            truth = belief.draws[:, 0].copy()
            cuts = [0, *range(100_000, 103_001, BATCH)]
            seen = [
                totals(model, truth, *part_of(places, starts, *ends), rng)
                for ends in pairwise(cuts)
            ]
        spent = []
        for one in seen:
            belief, took = learned(belief, one)
            spent.append(took)
        found = belief.draws, routes @ belief.draws
        if known is None:
            spread = np.sqrt(np.diag(belief.covariance_of(routes)))
            known = (*found, np.sqrt(belief.variance), spread)
        edge = (found[0] - known[0]) / known[2][:, None]
        whole = (found[1] - known[1]) / known[3][:, None]
        rows.append(
            {
                "tolerance": tolerance,
                f"s for {BATCH} more": float(np.mean(spent[1:])),
                "iterations": belief.iterations,
                "edges, rms error": float(np.sqrt((edge**2).mean())),
                "most": float(np.abs(edge).max()),
                "routes, rms error": float(np.sqrt((whole**2).mean())),
                "most of routes": float(np.abs(whole).max()),
            }
        )
        say(str(rows[-1]))
    return rows


@dataclass(frozen=True)
class Minds:
    """Both beliefs about Luxembourg, and the way between two of its ends."""

    model: RoadModel
    paths: Paths
    beliefs: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> "Minds":
        """Read a network, of SUMO or saved by this package."""
        network = RoadNetwork.load(path) if path.suffix == ".npz" else read_sumo(path)
        model = RoadModel(network.largest_component(), spread=SPREAD)
        ends = [model.network.position(edge) for edge in ENDS]
        paths = Paths.on_turns(model.network.n_edges, model.network.turns, *ends)
        parts = (model.arms, model.kernel, model.noise_variance, -model.physics)
        ensemble = EnsembleGP.from_kernel(*parts, n_draws=63, tolerance=TOLERANCE)
        return cls(model, paths, {"exact": FiniteGP.from_kernel(*parts), "ensemble": ensemble})


def played(path: Path, horizon: int, world: int) -> dict[str, tuple[float, float]]:
    """Play Thompson sampling with both beliefs in a world drawn from their prior."""
    minds = Minds.of(path)
    model, paths, root = minds.model, minds.paths, minds.beliefs["ensemble"].root
    n, rng = model.network.n_edges, np.random.default_rng([7, world])
    drawn = root.times(rng.standard_normal((root.size, 1)))[:, 0]
    cost = np.maximum(model.physics + drawn, 0.05 * model.physics + 1e-3)
    best = float(cost[Dijkstra().select(paths, -cost)].sum())
    found = {}
    for name, belief in minds.beliefs.items():
        agent: Any = Agent(belief, Rectified(MarginalThompson()), Dijkstra())
        noise, mind = np.random.default_rng([8, world]), np.random.default_rng([9, world])
        total, begin = 0.0, time.perf_counter()
        for t in range(1, horizon + 1):
            offer = Round(t, model.arms, paths)
            chosen = agent.decide(offer, mind)
            seen = -cost + np.sqrt(model.noise_variance) * noise.standard_normal(n)
            agent = agent.learn(offer, chosen, seen[chosen])
            total += float(cost[chosen].sum()) - best
        found[name] = total, time.perf_counter() - begin
    say(f"world {world}: {found}")
    return found


def regret(
    path: Path, processes: int = 1, worlds: int = 20, horizon: int = 100
) -> list[dict[str, Any]]:
    """Compare the regret of both beliefs in the same worlds."""
    with ProcessPoolExecutor(processes) as pool:
        runs = list(pool.map(partial(played, path, horizon), range(worlds)))
    totals_of = {name: np.array([run[name][0] for run in runs]) for name in runs[0]}
    exact = totals_of["exact"]
    rows = []
    for name, mine in totals_of.items():
        gap = 100 * (mine - exact) / exact.mean()
        rows.append(
            {
                "belief": name,
                "regret": float(mine.mean()),
                "s.e.": float(mine.std(ddof=1) / np.sqrt(worlds)),
                "against exact, paired (%)": float(gap.mean()),
                "s.e. of that": float(gap.std(ddof=1) / np.sqrt(worlds)),
                "ms per round": 1e3 * float(np.mean([run[name][1] for run in runs])) / horizon,
            }
        )
    return rows


def against_dense(n_edges: int = 20_000) -> list[dict[str, Any]]:
    """Compare variances with those of the posterior held whole, after all roads were driven."""
    dense.MOST_ARMS = 10**6  # once, at this size
    rng = np.random.default_rng(0)
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    n = model.network.n_edges
    parts = (model.arms, model.kernel, model.noise_variance, -model.physics)
    beliefs: dict[str, Any] = {
        "EnsembleGP": EnsembleGP.from_kernel(*parts),
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
    places, starts = trips_of(model, ROUTES, rng)
    exact = beliefs["DenseGP"]
    routes = [places[a:b] for a, b in pairwise(starts)]
    true = np.array([exact.matrix[np.ix_(route, route)].sum() for route in routes])
    sums = csr_array((np.ones(starts[-1]), places, starts), shape=(ROUTES, n))
    solved = np.diag(beliefs["EnsembleGP"].covariance_of(sums))
    ratio = beliefs["EnsembleGP"].variance / exact.variance
    return [
        {
            "belief": "EnsembleGP",
            "variance of a road, mean ratio": float(ratio.mean()),
            "5 %": float(np.quantile(ratio, 0.05)),
            "95 %": float(np.quantile(ratio, 0.95)),
            f"of {ROUTES} routes, mean ratio": float((solved / true).mean()),
            "least": float((solved / true).min()),
            "most": float((solved / true).max()),
            "s to learn": seconds["EnsembleGP"],
            "s of DenseGP": seconds["DenseGP"],
        }
    ]


@compiled
def add_squares(starts: Rows, places: Rows, weights: Vector, total: np.ndarray[Any, Any]) -> None:
    """Add what weighted sums of arms say of every pair of arms."""
    for row in range(starts.size - 1):
        for i in range(starts[row], starts[row + 1]):
            for j in range(starts[row], starts[row + 1]):
                total[places[i], places[j]] += weights[row]


def exact_root(
    model: RoadModel, precision: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return X of the posterior covariance X^T X, given what was observed; both n x n."""
    n = model.network.n_edges
    gram: Any = np.asfortranarray(model.kernel.gram(model.arms, model.arms))
    lower = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    inner = dtrmm(1.0, lower, precision.T, side=0, lower=1, trans_a=1, overwrite_b=1)
    inner = dtrmm(1.0, lower, inner, side=1, lower=1, overwrite_b=1)
    inner[np.arange(n), np.arange(n)] += 1.0
    factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    found: np.ndarray[Any, np.dtype[np.float64]] = dtrsm(
        1.0, factor, np.asfortranarray(lower.T), lower=1, overwrite_b=1
    )
    return found


def beside_exact(n_edges: int, folder: str) -> dict[str, Any]:
    """Compare an ensemble that has learned a million trips with the posterior held whole."""
    trips, rng = Trips.made(n_edges, TRIPS, folder), np.random.default_rng(0)
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    n = model.network.n_edges
    parts = (model.arms, model.kernel, model.noise_variance, -model.physics)
    few = next(draws for most, draws in DRAWS if n <= most)
    belief = EnsembleGP.from_kernel(*parts, n_draws=few, tolerance=TOLERANCE)
    truth, precision, told = belief.draws[:, 0].copy(), np.zeros((n, n)), np.zeros(n)
    for first in range(0, TRIPS, AT_ONCE):
        some = trips.part(first, min(first + AT_ONCE, TRIPS))
        rows, seen, noise = totals(model, truth, *some, rng)
        belief, took = learned(belief, (rows, seen, noise))
        say(f"{belief.count:,} trips, {took:.0f} s")
        add_squares(some[1], some[0], 1 / noise, precision)
        told += rows.T @ ((seen + rows @ model.physics) / noise)
    places, starts = trips_of(model, ROUTES, np.random.default_rng(1))
    sums = csr_array((np.ones(starts[-1]), places, starts), shape=(ROUTES, n))
    mean, variance = belief.mean, belief.variance
    solved = np.diag(changed(belief, tolerance=PRECISE).covariance_of(sums))
    del belief
    begin = time.perf_counter()
    root = exact_root(model, precision)
    exact = np.einsum("ij,ij->j", root, root)
    gap = (mean + model.physics - root.T @ (root @ told)) / np.sqrt(exact)
    whole = ((root @ sums.T.toarray()) ** 2).sum(axis=0)
    ratio, routes = variance / exact, solved / whole
    return {
        "roads": n,
        "trips": TRIPS,
        "variance of a road, mean ratio": float(ratio.mean()),
        "5 %": float(np.quantile(ratio, 0.05)),
        "95 %": float(np.quantile(ratio, 0.95)),
        f"of {ROUTES} routes, mean ratio": float(routes.mean()),
        "least": float(routes.min()),
        "most": float(routes.max()),
        "means of roads, rms error in deviations": float(np.sqrt((gap**2).mean())),
        "worst": float(np.abs(gap).max()),
        "s of the exact posterior": time.perf_counter() - begin,
    }


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
            "Cheapest routes. A GP-TS round: one trip of the long route is learned, all roads get "
            "means and deviations, one draw of their marginals, and the cheapest route of that; "
            f"the median of {ROUNDS}, and their mean: now and then all draws are solved for again. "
            "Wall-clock seconds, two threads; memory includes the trips yet to be learned.",
        ),
        table(
            "What a tolerance leaves, 20,000 roads, 103,000 trips",
            tolerances(),
            "Errors of draws in posterior deviations, against a tolerance of 0.001.",
        ),
        table(
            "Variances beside `DenseGP`, 20,000 roads, every one of them measured ten times",
            against_dense(),
            "Routes by one solve each. Of roads the ensemble's are estimated from 63 draws.",
        ),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["regret"]:
        where, *many = sys.argv[2:]
        report(
            table(
                "Regret of GP-TS on Luxembourg, route A, 20 worlds, 100 rounds",
                regret(Path(where), *map(int, many)),
                "Truth drawn from the prior that both believe (`RoadModel`), costs of at least 5 % "
                "of physics; one measurement per road. Wh; the same worlds, noise and minds.",
            )
        )
    elif sys.argv[1:2] == ["exact"]:
        with tempfile.TemporaryDirectory() as aside:
            report(
                table(
                    "Beside the exact posterior, after a million trips",
                    [beside_exact(int(sys.argv[2]), aside)],
                    "Totals, with the service's prior, draws and tolerance; routes by one solve "
                    f"each, to {PRECISE}. The exact posterior: Cholesky factors of n x n matrices.",
                )
            )
    elif sys.argv[1:2] == ["trips"]:
        write_trips(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    elif len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as aside:
            json.dump(measure(int(sys.argv[1]), [*sys.argv[2:], aside][0]), sys.stdout)
    else:
        main()
