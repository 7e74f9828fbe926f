"""Which arms a round offers: all of them, or a random subset (volatile arms)."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from superarm.arrays import Rows, require_positive
from superarm.errors import InfeasibleError

ATTEMPTS = 1000
"""How many random subsets are tried before saying that none is feasible."""


class Availability(Protocol):
    """A random choice of the arms a round offers."""

    def rows(self, n_arms: int, rng: np.random.Generator, /) -> Rows:
        """Return the rows on offer, ascending."""
        ...


class Restrictable(Protocol):
    """A feasible set on the universe that can be cut down to the rows on offer."""

    def take(self, rows: Rows, /) -> Self:
        """Return the feasible set of these rows, or raise `InfeasibleError`."""
        ...


@dataclass(frozen=True)
class Always:
    """Every arm is on offer in every round."""

    def rows(self, n_arms: int, rng: np.random.Generator) -> Rows:
        """Return all rows."""
        del rng
        return np.arange(n_arms)


@dataclass(frozen=True)
class PoissonSubset:
    """A uniformly random subset whose size is Poisson, cut to between `fewest` and all arms."""

    mean_size: float
    fewest: int = 1

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive."""
        require_positive("mean_size", self.mean_size)
        require_positive("fewest", self.fewest)

    def rows(self, n_arms: int, rng: np.random.Generator) -> Rows:
        """Draw the size, then the rows."""
        if self.fewest > n_arms:
            msg = f"at least {self.fewest} arms must be offered, but there are only {n_arms}"
            raise InfeasibleError(msg)
        size = min(max(int(rng.poisson(self.mean_size)), self.fewest), n_arms)
        return np.sort(rng.choice(n_arms, size=size, replace=False))
