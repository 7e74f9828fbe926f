"""Slates of items that are clicked: counts believed as counts, as Gaussians, and by others.

400 items with three features, of which about 100 are on offer every day and 5 are shown, each to
some visitors; log-odds of clicks are a Gaussian process around a rate of 5 %. All agents know that
prior, as far as their model can: the Gaussian one its means, variances and correlations on the
scale of rates, Beta distributions its mean and variance per item. The logistic learner of
bayesianbandits fits its own prior by empirical Bayes; it is linear in the features it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bayesianbandits import EmpiricalBayesGLM
from common import report, say, table

from superarm import Agent, Arms, Round
from superarm.beliefs import Binomial, CountGP, FiniteGP
from superarm.evaluation import Results, compare
from superarm.kernels import Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson, OnLatent, UpperConfidenceBound
from superarm.problems import Always, PoissonSubset
from superarm.problems.synthetic import feasible_rows
from superarm.rivals import BetaRates
from superarm.theory import FixedWidth

ITEMS, OFFERED, SHOWN, DAYS, WORLDS = 400, 100, 5, 150, 6
RATE = 0.05
KERNEL = Matern52(0.4, 1.0)


@dataclass(frozen=True, eq=False)
class Shop:
    """Items with click rates."""

    items: Arms
    rates: Any
    visitors: int

    def observe(self, t: int, rng: np.random.Generator) -> Round[Subsets]:
        """Offer some items."""
        rows, feasible = feasible_rows(
            Subsets(ITEMS, SHOWN),
            PoissonSubset(OFFERED, SHOWN) if OFFERED < ITEMS else Always(),
            ITEMS,
            rng,
        )
        return Round(t, self.items.take(rows), feasible)

    def pull(self, available: Round[Subsets], super_arm: Any, rng: np.random.Generator) -> Any:  # noqa: ANN401
        """Return clicks over visitors."""
        clicks = rng.binomial(self.visitors, self.rates)  # of all items: the same for all agents
        return clicks[available.arms.ids[super_arm]] / self.visitors

    def expected_rewards(self, arms: Arms) -> Any:  # noqa: ANN401
        """Return the truth."""
        return self.rates[arms.ids]


class Logistic:
    """The logistic learner of bayesianbandits, choosing by a joint draw."""

    def __init__(self, visitors: int, features: Callable[[Any], Any], seed: int = 0) -> None:
        """Start with its defaults."""
        self._visitors, self._features = visitors, features
        self._model = EmpiricalBayesGLM(link="logit", random_state=seed)
        self._fitted = False

    def indices(self, available: Round[Subsets], rng: np.random.Generator) -> Any:  # noqa: ANN401
        """Return a draw."""
        if not self._fitted:
            return rng.random(len(available.arms))
        return self._model.sample(self._features(available.arms.contexts))[0]

    def select(self, available: Round[Subsets], indices: Any) -> Any:  # noqa: ANN401
        """Return the best."""
        return TopK().select(available.feasible, indices)

    def learn(self, available: Round[Subsets], super_arm: Any, rewards: Any) -> "Logistic":  # noqa: ANN401
        """Learn clicks and what was not clicked, weighed by how many there were."""
        some = self._features(available.arms.contexts[super_arm])
        clicks = np.round(rewards * self._visitors)
        weights = np.concatenate([clicks, self._visitors - clicks])
        y = np.concatenate([np.ones(len(some)), np.zeros(len(some))])
        self._model.partial_fit(np.vstack([some, some]), y, sample_weight=weights)
        self._fitted = True
        return self


def linear(x: Any) -> Any:  # noqa: ANN401
    """Return a level and the features."""
    return np.column_stack([np.ones(len(x)), x])


def waves(x: Any) -> Any:  # noqa: ANN401
    """Return 200 random Fourier features of the true kernel: what a user of it could do."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((100, 3)) * np.sqrt(5 / rng.chisquare(5, 100))[:, None] / 0.4
    inner = x @ directions.T
    return np.column_stack([np.ones(len(x)), np.cos(inner), np.sin(inner)])


def played(visitors: int) -> Results:
    """Play all agents."""
    say(f"{visitors} visitors per item and day")
    family = Binomial(visitors)
    items = Arms(range(ITEMS), np.random.default_rng(0).random((ITEMS, 3)))
    level = float(family.latent(RATE))
    first, second = family.moments(np.array([level]), np.array([1.0]))
    mean, variance = float(first[0]), float(second[0] - first[0] ** 2)
    noise = float(family.noise_variance(first, second)[0])
    size = mean * (1 - mean) / variance - 1  # of the Beta distribution with that variance

    def shop(rng: np.random.Generator) -> Shop:
        return Shop(items, family.rate(level + KERNEL.draw(items, rng)), visitors)

    counts = CountGP.from_kernel(items, KERNEL, family, RATE)
    gaussian = FiniteGP.from_kernel(items, Matern52(0.4, variance), noise, mean)
    beta = BetaRates(ITEMS, mean * size, (1 - mean) * size, trials=visitors)
    agents: dict[str, Callable[[Any], Any]] = {
        "counts, joint TS": lambda _: Agent(counts, JointThompson(), TopK()),
        "counts, UCB (2 deviations)": lambda _: Agent(
            counts, OnLatent(UpperConfidenceBound(FixedWidth(2.0))), TopK()
        ),
        "Gaussian, joint TS": lambda _: Agent(gaussian, JointThompson(), TopK()),
        "Gaussian, UCB (2 deviations)": lambda _: Agent(
            gaussian, UpperConfidenceBound(FixedWidth(2.0)), TopK()
        ),
        "Beta per item, TS": lambda _: Agent(beta, JointThompson(), TopK()),
        "bayesianbandits, linear": lambda _: Logistic(visitors, linear),
        "bayesianbandits, 200 features of the true kernel": lambda _: Logistic(visitors, waves),
    }
    return compare(shop, agents, TopK(), horizon=DAYS, repeats=WORLDS, jobs=0)


def main() -> None:
    """Measure and report."""
    tables = []
    for visitors in (1, 20, 1000):
        results = played(visitors)
        rows = [
            {"agent": name, "regret": regret, "ms per round": float(ms)}
            for name, regret, _, ms in results.rows()
        ]
        tables.append(
            table(
                f"{visitors:,} visitors per item and day",
                rows,
                f"Summed click rates lost in {DAYS} days, showing {SHOWN} of about {OFFERED} "
                f"items; {WORLDS} shops, one standard error.",
            )
        )
    report(*tables)


if __name__ == "__main__":
    main()
