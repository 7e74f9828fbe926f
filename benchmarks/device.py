"""Beliefs on a GPU: rounds of `FiniteGP` at a million arms.

Usage: python benchmarks/run.py device [-- --device cuda --arms 1000000]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import kernel, points, report, say, table

from superarm.beliefs import FiniteGP
from superarm.devices import Device

NOISE, SUPER_ARM, ROUNDS = 0.16, 70, 14
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
    report(
        table(
            "Exact rounds of `FiniteGP`, super arms of 70, kernel rows on the device",
            few,
            f"{where} Wall-clock: the factor in main memory, rows on the device, means and "
            "variances of all arms back in main memory. Double precision.",
        ),
    )


if __name__ == "__main__":
    main()
