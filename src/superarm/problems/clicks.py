"""A shop that shows some of its items every day: click rates, in the units a table would have."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Matrix, Rows, Vector, require_generator
from superarm.beliefs.universe import Universe
from superarm.oracles import Subsets

FEATURES = ("price", "age_days", "rating", "photos", "discount", "weight_kg")
"""What is known of every item; the last two do not matter, though nobody says so."""


@dataclass(frozen=True, eq=False)
class ClickRates:
    """Items with features, of which k are shown every day, each to some visitors.

    The reward of an item is the share of its visitors that clicked. Click rates lie between 1 % and
    10 % and depend on price, age, rating and photos, smoothly but not linearly.

    Attributes:
        items: with features in the units of a table (`FEATURES`).
        rates: the true click rate of every item, shape (n,).
        visitors: who see an item on one day.
        size: how many items are shown.

    >>> shop = ClickRates.sample(np.random.default_rng(0), n_items=50)
    >>> bool(0.01 < shop.rates.min() < shop.rates.max() < 0.1)
    True
    """

    items: Arms
    rates: Vector
    visitors: int = 400
    size: int = 10

    @classmethod
    def sample(
        cls,
        rng: np.random.Generator,
        *,
        n_items: int = 2_000,
        size: int = 10,
        visitors: int = 400,
    ) -> "ClickRates":
        """Draw a shop."""
        require_generator("rng", rng)
        features = np.column_stack(
            [
                rng.lognormal(3.3, 0.6, n_items),
                rng.uniform(0, 365, n_items),
                np.clip(rng.normal(3.9, 0.7, n_items), 1, 5),
                rng.integers(1, 13, n_items),
                rng.beta(1, 6, n_items),
                rng.lognormal(0, 0.8, n_items),
            ]
        )
        bump = rng.uniform(2.8, 3.8)  # the price that people like, as a logarithm
        season = rng.uniform(0, 2 * np.pi)
        taste = rng.uniform(0.7, 1.3, 4)
        return cls(
            Arms(range(n_items), features), _rates(features, bump, season, taste), visitors, size
        )

    def observe(self, t: int, rng: np.random.Generator) -> Round[Subsets]:
        """Offer all items."""
        del rng
        return Round(t, self.items, Subsets(len(self.items), self.size))

    def pull(
        self, available: Round[Subsets], super_arm: SuperArm, rng: np.random.Generator
    ) -> Vector:
        """Return the click rates seen: clicks over visitors."""
        return self.shown(self._universe.positions(available.arms)[super_arm], rng)

    def shown(self, rows: Rows, rng: np.random.Generator) -> Vector:
        """Return what is seen when some items are shown, by their rows."""
        clicks = rng.binomial(self.visitors, self.rates)  # of all, so that worlds can be compared
        again = rng.binomial(self.visitors, self.rates[rows])
        first = np.zeros(rows.size, dtype=np.bool_)
        first[np.unique(rows, return_index=True)[1]] = True
        seen: Vector = np.where(first, clicks[rows], again) / self.visitors
        return seen

    def history(self, rows: int, rng: np.random.Generator) -> tuple[Arms, Vector]:
        """Return what was shown at random before, and its click rates; items may repeat."""
        shown = rng.integers(len(self.items), size=rows)
        rates = rng.binomial(self.visitors, self.rates[shown]) / self.visitors
        return self.items.take(shown), rates

    def expected_rewards(self, arms: Arms) -> Vector:
        """Return the true rates, for the evaluator."""
        return self.rates[self._universe.positions(arms)]

    @cached_property
    def _universe(self) -> Universe:
        return Universe(self.items)


def _rates(features: Matrix, bump: float, season: float, taste: Vector) -> Vector:
    price, age, rating, photos = features[:, :4].T
    liking = (
        taste[0] * 2 * np.exp(-(((np.log(price) - bump) / 0.4) ** 2))
        + taste[1] * np.sin(2 * np.pi * age / 365 + season)
        + taste[2] * 1.5 * (rating - 3.9)
        + taste[3] * 0.6 * np.log(photos / 4)
    )
    rates: Vector = 0.01 + 0.09 / (1 + np.exp(1.5 - liking))
    return rates
