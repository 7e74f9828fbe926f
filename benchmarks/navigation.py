"""Navigation: graph kernel, exact rounds on Luxembourg, and cities up to half a million edges."""

import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from common import cpu_ms, peak_mib, report, say, table
from scipy.linalg import eigh
from scipy.sparse.csgraph import breadth_first_order

from superarm import play
from superarm.arms import Round
from superarm.experiments.config import STUDIES
from superarm.kernels import GraphMatern
from superarm.oracles import Dijkstra, Paths
from superarm.roads.bandit import NavigationProblem, navigator
from superarm.roads.models import EnergyModel
from superarm.roads.network import RoadNetwork, generate_city, read_sumo

CITIES = (5000, 50_000, 500_000)
ROUNDS, ROUNDS_ACROSS, HORIZON, SPARSE_ROUNDS = 30, 3, 500, 5
ROUTE_EDGES = (60, 90)


def main() -> None:
    """Measure on the real network where it is, and on cities in processes of their own."""
    network, route, name = _network()
    tables = [_graph_kernel(network, name), _rounds(network, route, name)]
    rows = []
    for n_edges in CITIES:
        rows.append(_in_process("city", str(n_edges)))
        say(str(rows[-1]))
    across = _in_process("across", str(CITIES[-1]))
    say(str(across))
    slope = np.polyfit(
        np.log([row["edges"] for row in rows]), np.log([row["ms per round"] for row in rows]), 1
    )[0]
    tables.append(
        table(
            f"Exact GP-TS on generated cities, {ROUNDS} rounds (CPU)",
            [*rows, across],
            f"Time per round grows as edges to the power {slope:.2f} on routes of "
            f"{ROUTE_EDGES[0]} to {ROUTE_EDGES[1]} edges, on which different numbers D of "
            "distinct edges are seen; a round costs time in proportion to both. The last row "
            f"crosses the whole city for {ROUNDS_ACROSS} rounds: every new edge on its way keeps "
            "a kernel row, and one given the core, of 4 MB each, which is what bounds routes of "
            "this length. "
            "Set-up is the sparse factor and the diagonal of the graph kernel by selected "
            "inversion (relative error of the diagonal below 1e-8 even beside roads of 0.2 m, "
            "tests/kernels/test_graph.py). The truth is drawn by random features on sparse solves.",
        )
    )
    report(*tables)


def _network() -> tuple[RoadNetwork, tuple[str, str], str]:
    folder = Path(os.environ.get("SUPERARM_DATA", "networks"))
    if (folder / "luxembourg.net.xml.gz").is_file():
        network = read_sumo(folder / "luxembourg.net.xml.gz").largest_component()
        known = tomllib.loads((STUDIES / "routes.toml").read_text(encoding="utf-8"))
        route = known["luxembourg"]["routes"]["A"]
        return network, (route["start"], route["end"]), "Luxembourg"
    network = generate_city(0, 5700).largest_component()
    return network, _route(network), "a generated city (the Luxembourg network is not here)"


def _graph_kernel(network: RoadNetwork, name: str) -> dict[str, Any]:
    GraphMatern([(0, 1)], [1.0, 1.0]).diagonal(EnergyModel(network).arms.take([0]))  # compile
    sparse: GraphMatern | None = None

    def set_up() -> None:
        nonlocal sparse
        sparse = GraphMatern(network.turns, network.length_m)
        sparse.diagonal(EnergyModel(network).arms)
        sparse.columns(np.arange(1))

    ours = float(np.median([cpu_ms(set_up) for _ in range(5)]))
    assert sparse is not None  # noqa: S101 - set above
    matrix = sparse.precision.toarray()
    say("dense eigenvectors ...")
    theirs = cpu_ms(lambda: _dense(matrix))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.npz"
        network.save(path)
        begin = time.perf_counter()
        RoadNetwork.load(path)
        loading = 1e3 * (time.perf_counter() - begin)
    rows = [
        {"what": "graph kernel by sparse factor and selected inversion", "CPU ms": ours},
        {"what": "graph kernel by dense eigenvectors", "CPU ms": theirs},
        {"what": "ratio", "CPU ms": theirs / ours},
        {"what": "loading the network from its .npz file (wall)", "CPU ms": loading},
    ]
    return table(f"Setting up {name}: {network.n_edges:,} edges, {network.n_turns:,} turns", rows)


def _dense(matrix: Any) -> Any:  # noqa: ANN401 - arrays
    values, vectors = eigh(matrix)
    return (vectors * values**-2.0) @ vectors.T


def _rounds(network: RoadNetwork, route: tuple[str, str], name: str) -> dict[str, Any]:
    from svgp import GraphSparseRound  # noqa: PLC0415 - PyTorch is slow to import

    model = EnergyModel(network)
    problem = NavigationProblem(network, *route, rng=np.random.default_rng(0), model=model)
    agent = navigator(problem, "GP-TS")
    world, mind = np.random.default_rng(1), np.random.default_rng(2)
    parts: dict[str, list[float]] = {"posterior and indices": [], "path": [], "update": []}
    driven: list[Any] = []
    rewards: list[Any] = []
    for t in range(1, HORIZON + 1):
        now: Round[Paths] = problem.observe(t, world)
        begin = time.process_time()
        indices = agent.indices(now, mind)
        decided = time.process_time()
        path = agent.select(now, indices)
        selected = time.process_time()
        seen = problem.pull(now, path, world)
        before = time.process_time()
        agent = agent.learn(now, path, seen)
        parts["posterior and indices"].append(1e3 * (decided - begin))
        parts["path"].append(1e3 * (selected - decided))
        parts["update"].append(1e3 * (time.process_time() - before))
        driven.append(path)
        rewards.append(seen)
    total = float(np.median(np.sum(list(parts.values()), axis=0)))
    graph = model.graph_kernel.gram(model.arms, model.arms)
    sparse = GraphSparseRound(
        graph, model.arms.contexts, np.concatenate(driven), np.concatenate(rewards), model
    )
    sparse()
    svgp = float(np.median([cpu_ms(sparse) for _ in range(SPARSE_ROUNDS)]))
    distinct = agent.belief.seen.size  # type: ignore[attr-defined]  # a FiniteGP
    rows = [{"part": part, "median CPU ms": float(np.median(ms))} for part, ms in parts.items()]
    rows += [
        {"part": "a whole exact GP-TS round", "median CPU ms": total},
        {"part": "the paper's SVGP round in GPyTorch, without its path", "median CPU ms": svgp},
        {"part": "ratio", "median CPU ms": svgp / total},
    ]
    return table(
        f"A navigation round on {name}, T = {HORIZON}, paths of about {driven[-1].size} edges",
        rows,
        f"{distinct} distinct edges were seen.",
    )


def _in_process(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 - this very script
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def city(n_edges: int, *, across: bool) -> dict[str, Any]:
    """Run GP-TS in one city."""
    begin = time.process_time()
    network = generate_city(0, n_edges).largest_component()
    made = time.process_time()
    model = EnergyModel(network)
    _ = model.gp
    ready = time.process_time()
    ends = _across(network) if across else _route(network)
    problem = NavigationProblem(
        network, *ends, rng=np.random.default_rng(0), model=model, truth="gp"
    )
    drawn = time.process_time()
    streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    times, sizes = [], []
    last = time.process_time()
    agent: Any = None
    rounds = ROUNDS_ACROSS if across else ROUNDS
    for step, agent in play(problem, navigator(problem, "GP-TS"), rounds, **streams):  # noqa: B007
        times.append(1e3 * (time.process_time() - last))
        sizes.append(step.super_arm.size)
        last = time.process_time()
    return {
        "edges": network.n_edges,
        "route": round(float(np.mean(sizes))),
        "D": int(agent.belief.seen.size),
        "ms per round": float(np.median(times)),
        "us per edge": 1e3 * float(np.median(times)) / network.n_edges,
        "ns per edge and D": 1e6
        * float(np.median(times))
        / network.n_edges
        / int(agent.belief.seen.size),
        "city s": made - begin,
        "set-up s": ready - made,
        "truth s": drawn - ready,
        "peak MiB": peak_mib(),
    }


def _route(network: RoadNetwork) -> tuple[str, str]:
    """Return two edges whose best route by the prior has 60 to 90 edges."""
    cost = EnergyModel(network, rectify="dissipation").prior_cost_wh
    rng = np.random.default_rng(0)
    for _ in range(100):
        start = int(rng.integers(network.n_edges))
        order, before = breadth_first_order(network.line_graph, start)
        depth = np.zeros(network.n_edges, dtype=np.intp)
        for edge in order[1:20_000]:
            depth[edge] = depth[before[edge]] + 1
        for goal in np.flatnonzero(depth == 55)[:20]:
            routes = Paths.on_turns(network.n_edges, network.turns, start, int(goal))
            path = Dijkstra().select(routes, -np.maximum(cost, 0))
            if ROUTE_EDGES[0] <= path.size <= ROUTE_EDGES[1]:
                return str(network.edge_ids[start]), str(network.edge_ids[goal])
    msg = "no route of the right length"
    raise RuntimeError(msg)


def _across(network: RoadNetwork) -> tuple[str, str]:
    middle = network.junction_xy_m[network.from_junction]
    west, east = int(middle[:, 0].argmin()), int(middle[:, 0].argmax())
    return str(network.edge_ids[west]), str(network.edge_ids[east])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(city(int(sys.argv[2]), across=sys.argv[1] == "across"), sys.stdout)
    else:
        main()
