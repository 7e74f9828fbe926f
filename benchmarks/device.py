"""Beliefs on a GPU: rounds of `FiniteGP`, batches of `DeviceEnsembleGP`, at a million arms.

Usage: python benchmarks/run.py device [-- --device cuda --arms 1000000]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import kernel, points, report, say, table
from ensemble import longest_route, part_of, totals, trips_of

from superarm.beliefs import FiniteGP
from superarm.beliefs.ensemble import DeviceEnsembleGP
from superarm.devices import Device
from superarm.navigation import RoadModel, generate_city
from superarm.service.model.fleet import SPREAD, TOLERANCE

NOISE, SUPER_ARM, ROUNDS = 0.16, 70, 14
HISTORY, BATCH, DRAWS = 2_000, 1_000, 63
LIMITS = {"GB/s": 4_800.0, "TFlop/s": 67.0}
"""Of one H200, by its maker: memory, and double precision by matrix units or single without."""


def timed(device: Device, action: Callable[[], Any], repeats: int = 5) -> float:
    """Return the seconds of the fastest of some calls after a first one, until all is done."""
    action()
    best = float("inf")
    for _ in range(repeats):
        device.wait()
        begin = time.perf_counter()
        action()
        device.wait()
        best = min(best, time.perf_counter() - begin)
    return best


def rounds(device: Device, n_arms: int, distinct: int) -> dict[str, Any]:
    """Time rounds in which no arm is new: their kernel rows are on the device."""
    rng, arms = np.random.default_rng(0), points(n_arms)
    belief = FiniteGP.from_kernel(arms, kernel(), NOISE, device=device.name)
    seen = rng.choice(n_arms, distinct, replace=False)
    for first in range(0, distinct, SUPER_ARM):
        some = seen[first : first + SUPER_ARM]
        belief = belief.condition(arms.take(some), rng.standard_normal(some.size))
    spent: list[float] = []
    for _ in range(ROUNDS):
        chosen = arms.take(rng.choice(seen, SUPER_ARM, replace=False))
        rewards = rng.standard_normal(SUPER_ARM)
        device.wait()
        begin = time.perf_counter()
        belief = belief.condition(chosen, rewards)
        belief.mean, belief.variance  # noqa: B018 - in main memory already
        spent.append(time.perf_counter() - begin)
    rows: Any = belief.rows
    coefficients = device.put(rng.standard_normal((SUPER_ARM, belief.seen.size)))
    product = timed(device, lambda: rows.combined(coefficients))
    size = 8.0 * n_arms * (belief.seen.size + SUPER_ARM)
    flops = 2.0 * n_arms * belief.seen.size * SUPER_ARM
    return {
        "arms": n_arms,
        "distinct": int(belief.seen.size),
        "ms per round, median": 1e3 * float(np.median(spent)),
        "mean": 1e3 * float(np.mean(spent)),
        "most": 1e3 * float(np.max(spent)),
        "ms of 70 combinations of all rows": 1e3 * product,
        "GB/s": size / product / 1e9,
        "of the card's": size / product / 1e9 / LIMITS["GB/s"],
        "TFlop/s": flops / product / 1e12,
        "of the card's ": flops / product / 1e12 / LIMITS["TFlop/s"],
    }


def parts(device: Device, belief: DeviceEnsembleGP) -> list[dict[str, Any]]:
    """Time what one iteration is made of."""
    root, columns = belief.remote.root, 1 + belief.n_draws
    n, rank = root.host.n_arms, root.host.rank
    rng = np.random.default_rng(0)
    latent = device.put(rng.standard_normal((rank, columns))).to(root.features.dtype)
    values = device.put(rng.standard_normal((n, columns)), single=True)
    graph = root.graphs[0]
    matrix = graph._parts[True][0]  # noqa: SLF001 - what is timed
    links = int(graph.graph.kernel.precision.nnz)
    entries = sum(piece.host.entries for piece in belief.remote.observations)
    dense, wide = 4.0 * n * rank, 4.0 * n * columns
    found = []
    for name, action, size, flops in (
        ("features times columns", lambda: root.features @ latent, dense + wide, rank * wide / 2),
        (
            "their transpose",
            lambda: root.features.T @ values.to(root.features.dtype),
            dense + wide,
            rank * wide / 2,
        ),
        ("M times columns", lambda: matrix @ values, 8.0 * links + 2 * wide, links * columns * 2),
        (
            "M^-1 times columns",
            lambda: graph.times(values, rough=True),
            2 * wide,
            links * columns * 2,
        ),
        (
            "observations",
            lambda: belief.remote.said(values),
            8.0 * entries + 3 * wide,
            entries * columns * 4,
        ),
    ):
        took = timed(device, action)
        found.append(
            {
                "product": name,
                "ms": 1e3 * took,
                "GB/s, once through": size / took / 1e9,
                "of the card's": size / took / 1e9 / LIMITS["GB/s"],
                "TFlop/s": flops / took / 1e12,
                "of the card's ": flops / took / 1e12 / LIMITS["TFlop/s"],
            }
        )
    return found


def batches(device: Device, n_edges: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Time batches of totals learned by an ensemble."""
    rng = np.random.default_rng(0)
    model = RoadModel(generate_city(1, n_edges).largest_component(), spread=SPREAD)
    begin = time.perf_counter()
    belief: Any = DeviceEnsembleGP.from_kernel(
        model.arms,
        model.kernel,
        model.noise_variance,
        -model.physics,
        device=device.name,
        n_draws=DRAWS,
        tolerance=TOLERANCE,
    )
    made = time.perf_counter() - begin
    say(f"made in {made:.0f} s")
    truth = belief.draws[:, 0].copy()
    places, starts = trips_of(model, HISTORY + 3 * BATCH, rng)
    spent, iterations = [], 0
    for first, last in (
        (0, HISTORY),
        *((HISTORY + i * BATCH, HISTORY + (i + 1) * BATCH) for i in range(3)),
    ):
        seen = totals(model, truth, *part_of(places, starts, first, last), rng)
        device.wait()
        begin = time.perf_counter()
        belief = belief.condition_functionals(*seen)
        learned = time.perf_counter() - begin
        belief.mean, belief.variance  # noqa: B018 - what a service hands over
        spent.append((learned, time.perf_counter() - begin))
        iterations = belief.iterations
        say(f"{last - first} totals: {spent[-1]}, {iterations} iterations, {belief.reached:.3f}")
    route = longest_route(model, 700)
    seen = totals(model, truth, route, np.array([0, route.size]), rng)
    begin = time.perf_counter()
    belief = belief.condition_functionals(*seen)
    belief.mean, belief.variance  # noqa: B018
    return {
        "roads": model.network.n_edges,
        "draws": DRAWS,
        "features": belief.root.rank,
        "s to make": made,
        f"s for {BATCH} totals": float(np.median([one for one, _ in spent[1:]])),
        "with means and deviations": float(np.median([one for _, one in spent[1:]])),
        "tolerance": TOLERANCE,
        "iterations": iterations,
        "residual": belief.reached,
        "edges of a long route": int(route.size),
        "s for one": time.perf_counter() - begin,
    }, parts(device, belief)


def main() -> None:
    """Run all of it on one device."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--arms", type=int, default=1_000_000)
    given = parser.parse_args()
    device = Device(given.device)
    name = given.device
    if name.startswith("cuda"):
        name = device.torch.cuda.get_device_name(given.device)
    where = f"On {name}, PyTorch {device.torch.__version__}, NumPy {np.__version__}."
    few = [rounds(device, given.arms, distinct) for distinct in (400, 1_700)]
    for one in few:
        say(str(one))
    whole, single = batches(device, given.arms)
    report(
        table(
            "Exact rounds of `FiniteGP`, super arms of 70, kernel rows on the device",
            few,
            f"{where} Wall-clock: the factor in main memory, rows on the device, means and "
            "variances of all arms back in main memory. Double precision.",
        ),
        table(
            "`DeviceEnsembleGP`, totals of about a hundred roads",
            [whole],
            f"{where} After {HISTORY:,} totals; single precision within the solution, residuals "
            "in double precision.",
        ),
        table("What an iteration is made of", single, where),
    )


if __name__ == "__main__":
    main()
