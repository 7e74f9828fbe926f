"""Time and memory per round from 1,000 to 200,000 arms at a fixed number of distinct arms."""

import json
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
from common import NOISE_VARIANCE, cpu_ms, kernel, peak_mib, points, report, say, table

from superarm import Agent
from superarm.arms import Round
from superarm.beliefs import FiniteGP
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson

SIZES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)
DISTINCT, SIZE, ROUNDS = 400, 70, 9


def measure(n_arms: int) -> dict[str, Any]:
    """Play some rounds with all distinct arms seen before."""
    before = peak_mib()
    arms = points(n_arms)
    rng = np.random.default_rng(0)
    pool = rng.choice(n_arms, DISTINCT, replace=False)
    belief = FiniteGP.from_kernel(arms, kernel(), NOISE_VARIANCE)
    for begin in range(0, DISTINCT, 100):
        some = arms.take(pool[begin : begin + 100])
        belief = belief.condition(some, rng.standard_normal(len(some)))
    agent: Agent[Any, Any] = Agent(belief, MarginalThompson(), TopK())
    feasible = Subsets(n_arms, SIZE)

    def one_round(t: int) -> None:
        nonlocal agent
        now = Round(t, arms, feasible)
        agent.decide(now, rng)
        # what is played is drawn from the pool, so that D stays as it is
        agent = agent.learn(now, rng.choice(pool, SIZE, replace=False), rng.standard_normal(SIZE))

    times = [cpu_ms(partial(one_round, t)) for t in range(1, ROUNDS + 1)]
    return {
        "arms": n_arms,
        "ms per round": float(np.median(times)),
        "us per arm": 1e3 * float(np.median(times)) / n_arms,
        "MiB": peak_mib(),
        "MiB above the interpreter": peak_mib() - before,
    }


def main() -> None:
    """Measure every size in a process of its own, for its memory."""
    rows = []
    for n_arms in SIZES:
        done = subprocess.run(  # noqa: S603 - this very script
            [sys.executable, __file__, str(n_arms)], check=True, stdout=subprocess.PIPE, text=True
        )
        rows.append(json.loads(done.stdout))
        say(str(rows[-1]))
    slope = np.polyfit(
        np.log([row["arms"] for row in rows[2:]]),
        np.log([row["ms per round"] for row in rows[2:]]),
        1,
    )[0]
    report(
        table(
            f"Rounds at D = {DISTINCT} distinct arms, super arms of {SIZE} (CPU)",
            rows,
            f"Time grows as n to the power {slope:.2f} from {rows[2]['arms']:,} arms on.",
        )
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(measure(int(sys.argv[1])), sys.stdout)
    else:
        main()
