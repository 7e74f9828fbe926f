"""Arms one by one, each with a Beta distribution of its rate: Thompson sampling of old."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, frozen, require_positive
from superarm.beliefs.counts import Binomial
from superarm.beliefs.prior import require_own_noise
from superarm.values import changed


@dataclass(frozen=True, eq=False, init=False)
class BetaRates:
    """Independent Beta posteriors of the rates of arms 0 to n-1.

    Args:
        n_arms: n.
        successes: of every arm, shape (n,); at first the first parameter of the prior.
        failures: likewise, shape (n,), the second.
        trials: of a reward that does not say, as `superarm.beliefs.Binomial` has them.

    >>> belief = BetaRates(2, trials=10).condition(Arms([1]), np.array([0.4]))
    >>> belief.posterior(Arms([0, 1])).mean.round(3).tolist()
    [0.5, 0.417]
    """

    successes: Vector
    failures: Vector
    family: Binomial

    def __init__(
        self, n_arms: int, successes: float = 1.0, failures: float = 1.0, *, trials: int = 1
    ) -> None:
        """Check the parts."""
        require_positive("n_arms", n_arms)
        require_positive("successes", successes)
        require_positive("failures", failures)
        object.__setattr__(self, "successes", frozen(np.full(n_arms, float(successes))))
        object.__setattr__(self, "failures", frozen(np.full(n_arms, float(failures))))
        object.__setattr__(self, "family", Binomial(trials))

    def posterior(self, arms: Arms) -> "BetaPosterior":
        """Return the posterior of these arms."""
        rows = self._rows(arms)
        return BetaPosterior(self.successes[rows], self.failures[rows], self.family.trials)

    @property
    def usual_trials(self) -> float:
        """How many trials a reward has that does not say."""
        return self.family.usual

    def condition(
        self,
        arms: Arms,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "BetaRates":
        """Return the belief after one share of successes per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shares of trials that succeeded, shape (k,).
            noise_variance: of these rewards, shape (k,): refused, since the noise of shares follows
                from their trials.
            trials: of these rewards, shape (k,), where they are not the belief's own.
        """
        require_own_noise(self, noise_variance)
        rows = self._rows(arms)
        counts, given = self.family.counted(rewards, trials, len(arms))
        size = self.successes.size
        return changed(
            self,
            successes=frozen(self.successes + np.bincount(rows, counts, size)),
            failures=frozen(self.failures + np.bincount(rows, given - counts, size)),
        )

    def _rows(self, arms: Arms) -> Rows:
        outside = (arms.ids < 0) | (arms.ids >= self.successes.size)
        if outside.any():
            msg = f"arm id {int(arms.ids[outside][0])} is unknown; there are {self.successes.size}"
            raise ValueError(msg)
        return arms.ids


@dataclass(frozen=True, eq=False)
class BetaPosterior:
    """Beta distributions of some arms' rates."""

    successes: Vector
    failures: Vector
    trials: int

    @property
    def mean(self) -> Vector:
        """Expected rates, shape (n,)."""
        return self.successes / (self.successes + self.failures)

    @property
    def std(self) -> Vector:
        """Standard deviations of the rates, shape (n,)."""
        total = self.successes + self.failures
        return np.sqrt(self.successes * self.failures / (total + 1)) / total

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of one reward around its rate, shape (n,)."""
        total = self.successes + self.failures
        return np.sqrt(self.successes * self.failures / (total * (total + 1) * self.trials))

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw the rate of every arm, shape (n,)."""
        return rng.beta(self.successes, self.failures)

    def covariance(self) -> Matrix:
        """Return their covariance: diagonal."""
        return np.diag(self.std**2)
