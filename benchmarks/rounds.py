"""Exact rounds against the paper's sparse GP in GPyTorch: 6,000 arms, super arms of 70, T = 500."""

from functools import partial
from typing import Any

import numpy as np
from common import NOISE_VARIANCE, cpu_ms, kernel, points, report, say, table
from scipy.linalg.blas import dsyrk
from svgp import SparseRound

from superarm import Agent
from superarm.arms import Round
from superarm.beliefs import FiniteGP
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson, UpperConfidenceBound
from superarm.theory import BayesUCBWidth, UCBWidth

N_ARMS, SIZE, HORIZON, SPARSE_ROUNDS = 6000, 70, 500, 7


def main() -> None:
    """Run the exact methods for the whole horizon, then the sparse GP on their history."""
    arms = points(N_ARMS)
    truth = kernel().draw_many(arms, np.random.default_rng(1))
    prior = FiniteGP.from_kernel(arms, kernel(), NOISE_VARIANCE)
    feasible = Subsets(N_ARMS, SIZE)
    policies: dict[str, Any] = {
        "GP-TS": MarginalThompson(),
        "GP-BUCB": UpperConfidenceBound(BayesUCBWidth(N_ARMS)),
        "GP-UCB": UpperConfidenceBound(UCBWidth(N_ARMS)),
    }
    rows: list[dict[str, Any]] = []
    histories: dict[str, tuple[list[Any], list[Any]]] = {}
    for name, policy in policies.items():
        agent: Agent[Any, Any] = Agent(prior, policy, TopK())
        world, mind = np.random.default_rng(2), np.random.default_rng(3)
        times, seen = [], []
        played: list[Any] = []
        rewards: list[Any] = []

        def one_round(t: int) -> None:
            nonlocal agent
            now = Round(t, arms, feasible)
            chosen = agent.decide(now, mind)  # noqa: B023 - called at once
            noise = np.sqrt(NOISE_VARIANCE) * world.standard_normal(SIZE)  # noqa: B023
            agent = agent.learn(now, chosen, truth[chosen] + noise)
            played.append(chosen)  # noqa: B023
            rewards.append(truth[chosen] + noise)  # noqa: B023

        for t in range(1, HORIZON + 1):
            times.append(cpu_ms(partial(one_round, t)))
            seen.append(agent.belief.seen.size)  # type: ignore[attr-defined]  # a FiniteGP
        histories[name] = (played, rewards)
        late = [ms for ms, distinct in zip(times, seen, strict=True) if distinct >= 700]
        rows.append(
            {
                "method": name,
                "D at T": seen[-1],
                "median ms": float(np.median(times)),
                "median ms at D >= 700": float(np.median(late)) if late else "-",
                "last 50 ms": float(np.median(times[-50:])),
            }
        )
        say(str(rows[-1]))
    played, rewards = histories["GP-TS"]
    sparse = SparseRound(arms, np.concatenate(played), np.concatenate(rewards), NOISE_VARIANCE)
    sparse()
    svgp = float(np.median([cpu_ms(sparse) for _ in range(SPARSE_ROUNDS)]))
    say(f"SVGP {svgp:.0f} ms")
    for row in rows:
        row["SVGP / exact"] = svgp / row["median ms"]
        at_700 = row["median ms at D >= 700"]
        row["SVGP / exact at D >= 700"] = "-" if at_700 == "-" else svgp / at_700
    report(
        table(
            f"A round on {N_ARMS:,} arms, super arms of {SIZE}, T = {HORIZON} (CPU)",
            rows,
            f"The paper's SVGP round in GPyTorch (M = 1000, B = 2500, one natural-gradient and one "
            f"Adam step, all arms predicted): {svgp:,.0f} ms, median of {SPARSE_ROUNDS}.",
            "D is the number of distinct arms seen. An exact round is decide and learn, all of it.",
        ),
        full_covariance(prior),
    )


def full_covariance(prior: FiniteGP) -> dict[str, Any]:
    """Time the alternative: a dense n x n covariance, downdated in place and copied."""
    arms = prior.prior.universe.arms
    rng = np.random.default_rng(0)
    covariance = np.asfortranarray(kernel().gram(arms, arms))
    rows: list[dict[str, Any]] = []
    factor = np.asfortranarray(rng.standard_normal((N_ARMS, SIZE)))

    def downdate() -> None:
        dsyrk(-1.0, factor, beta=1.0, c=covariance, overwrite_c=1)

    in_place = float(np.median([cpu_ms(downdate) for _ in range(5)]))
    copy = float(np.median([cpu_ms(covariance.copy) for _ in range(5)]))
    for distinct in (400, 1000, 2000, 4000):
        belief = prior
        order = rng.permutation(N_ARMS)[:distinct]
        for begin in range(0, distinct, 500):
            part = arms.take(order[begin : begin + 500])
            belief = belief.condition(part, rng.standard_normal(len(part)))
        times = []
        for _ in range(5):
            batch = arms.take(rng.choice(order, SIZE, replace=False))
            reward = rng.standard_normal(SIZE)
            times.append(cpu_ms(partial(belief.condition, batch, reward)))
            belief = belief.condition(batch, reward)
        rows.append({"D": distinct, "collapsed update ms": float(np.median(times))})
        say(str(rows[-1]))
    return table(
        "Why no n x n matrix is kept: a rank-70 update of 6,000 arms (CPU)",
        rows,
        f"A full covariance: {in_place:,.0f} ms to downdate in place (half of it, by syrk), plus "
        f"{copy:,.0f} ms to copy it, which a belief that stays valid needs.",
    )


if __name__ == "__main__":
    main()
