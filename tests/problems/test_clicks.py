"""A shop: rates are what is seen on average, and a fitted prior finds the best items."""

from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from superarm import Agent, Arms, play
from superarm.beliefs import FiniteGP
from superarm.fitting import fit
from superarm.kernels import Matern52
from superarm.oracles import TopK
from superarm.policies import JointThompson
from superarm.problems import ClickRates


def test_rates_are_what_is_seen_on_average() -> None:
    shop = ClickRates.sample(np.random.default_rng(0), n_items=30, size=3)
    rng = np.random.default_rng(1)
    available = shop.observe(1, rng)
    rows = np.array([4, 2, 9])
    seen = np.array([shop.pull(available, rows, rng) for _ in range(2_000)])
    expected = shop.expected_rewards(shop.items.take(rows))
    error = np.sqrt(expected * (1 - expected) / shop.visitors / 2_000)
    assert (np.abs(seen.mean(axis=0) - expected) < 5 * error).all()
    assert_allclose(seen.var(axis=0), expected * (1 - expected) / shop.visitors, rtol=0.2)
    twice = shop.shown(np.array([4, 4]), rng)
    assert twice.shape == (2,)


def test_items_may_be_told_in_any_order() -> None:
    shop = ClickRates.sample(np.random.default_rng(0), n_items=30)
    some = Arms([7, 3], shop.items.contexts[[7, 3]])
    assert_allclose(shop.expected_rewards(some), shop.rates[[7, 3]])


def test_a_fitted_prior_finds_the_best_items() -> None:
    rng = np.random.default_rng(0)
    shop = ClickRates.sample(rng, n_items=400)
    shown, clicked = shop.history(300, rng)
    guess = FiniteGP.from_kernel(shop.items, Matern52(np.ones(6)), 0.01).condition(shown, clicked)
    best = np.sort(shop.rates)[-10:].sum()

    def regret(belief: FiniteGP) -> float:
        agent: Any = Agent(belief, JointThompson(), TopK())
        streams: Any = {"world": np.random.default_rng(5), "mind": np.random.default_rng(6)}
        steps = (step for step, _ in play(shop, agent, 20, **streams))
        return float(sum(best - shop.rates[step.super_arm].sum() for step in steps))

    assert regret(fit(guess).belief) < 0.2 * regret(guess)
