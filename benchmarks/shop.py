"""The shop of the second tutorial: what it loses in 60 days, by what is believed at first.

2,000 items, 10 of them shown every day, 600 rows of history, rewards three days late. The best
fitted prior is fitted to ten times as much history of the same shop, but knows the 600 rows only.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from common import report, say, table

from superarm import Agent
from superarm.adapting import Watched
from superarm.beliefs import FiniteGP
from superarm.kernels import Matern52
from superarm.oracles import TopK
from superarm.policies import JointThompson, UniformRandom
from superarm.problems import ClickRates
from superarm.problems.clicks import FEATURES
from superarm.tables import Catalogue, rate_variance

SHOPS, DAYS, LATE, SIZE, ROWS = 5, 60, 3, 10, 600


def log_of(shop: ClickRates, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a log of items shown at random."""
    shown, rates = shop.history(rows, rng)
    variance = rate_variance(np.round(rates * shop.visitors), shop.visitors)
    return pd.DataFrame({"sku": shown.ids, "rate": rates, "variance": variance})


def lost(shop: ClickRates, catalogue: Catalogue, *, variances: bool) -> tuple[float, int | None]:
    """Return what a catalogue loses, and the day of its first alarm."""
    rng = np.random.default_rng(77)
    catalogue = catalogue.with_agent(Watched(catalogue.agent))
    best, total = np.sort(shop.rates)[-SIZE:].sum(), 0.0
    waiting: list[Any] = []
    alarm = None
    for day in range(1, DAYS + 1):
        slate = catalogue.decide(catalogue.ids, SIZE, rng, day=day)
        total += best - shop.rates[slate.rows].sum()
        waiting.append((slate, shop.shown(slate.rows, rng)))
        if len(waiting) > LATE:
            earlier, rates = waiting.pop(0)
            known = rate_variance(np.round(rates * shop.visitors), shop.visitors)
            more = {"noise_variance": known} if variances else {}
            catalogue = catalogue.after(earlier, rates, **more)
        if alarm is None and not catalogue.agent.health.is_well:
            alarm = day
    return float(total), alarm


def of_shop(seed: int) -> dict[str, tuple[float, int | None]]:
    """Return what is lost in one shop."""
    say(f"shop {seed}")
    rng = np.random.default_rng(seed)
    shop = ClickRates.sample(rng)
    items = pd.DataFrame(shop.items.contexts, columns=FEATURES).assign(sku=range(2_000))
    log, more = log_of(shop, ROWS, rng), log_of(shop, 10 * ROWS, np.random.default_rng(seed + 1000))
    empty = Catalogue.of(items, ids="sku")
    columns = {"reward": "rate", "noise_variance": "variance"}
    tutorial, _ = empty.learn(log, **columns).fitted()
    plain, _ = empty.learn(log, reward="rate").fitted()
    _, large = empty.learn(more, **columns).fitted()
    kernel = large.belief.prior.covariance.kernel
    fresh = FiniteGP.from_kernel(empty.arms, kernel, 1.0, large.values["mean"])  # noqa: PD011 - a fit
    scaled = log.assign(variance=log.variance * large.values["noise_variance"])  # noqa: PD011 - a fit
    best = empty.with_agent(replace(empty.agent, belief=fresh)).learn(scaled, **columns)
    guess = FiniteGP.from_kernel(empty.arms, Matern52(0.5), 0.01)
    guessed = empty.with_agent(Agent(guess, JointThompson(), TopK())).learn(log, reward="rate")
    any_ten = empty.with_agent(Agent(guess, UniformRandom(), TopK()))
    return {
        "any ten items": lost(shop, any_ten, variances=False),
        "a guess: Matern52(0.5), noise variance 0.01": lost(shop, guessed, variances=False),
        "fitted, one noise variance for all": lost(shop, plain, variances=False),
        "fitted as in the tutorial": lost(shop, tutorial, variances=True),
        "the best fitted prior (6,000 rows)": lost(shop, best, variances=True),
    }


def main() -> None:
    """Measure and report."""
    found = [of_shop(seed) for seed in range(SHOPS)]
    rows = [
        {
            "prior": name,
            "regret of 60 days": f"{np.mean([one[name][0] for one in found]):.2f}",
            "of every shop": ", ".join(f"{one[name][0]:.2f}" for one in found),
            "alarms": sum(one[name][1] is not None for one in found),
        }
        for name in found[0]
    ]
    report(
        table(
            "Pick 10 of 2,000 every day",
            rows,
            "Summed click rates lost, rewards three days late; five shops. An alarm says that "
            "rewards contradict the prior.",
        )
    )


if __name__ == "__main__":
    main()
