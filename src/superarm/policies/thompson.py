"""Thompson sampling: jointly, as analysed, and arm by arm, as in the paper's experiments."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from superarm.arrays import Vector
from superarm.protocols import IndexPolicy, JointPosterior, Posterior

P = TypeVar("P", bound=Posterior)
P_co = TypeVar("P_co", bound=Posterior, covariant=True)


@dataclass(frozen=True)
class JointThompson:
    r"""Draw all arms together from the posterior, :math:`U_t \sim N(\mu_{t-1}, \Sigma_{t-1})`.

    This is the GP-TS of the regret bounds.
    """

    def indices(self, t: int, posterior: JointPosterior, rng: np.random.Generator) -> Vector:
        """Return one joint draw."""
        del t
        return posterior.sample(rng)


@dataclass(frozen=True)
class MarginalThompson:
    r"""Draw every arm independently, :math:`U_t(a) \sim N(\mu_{t-1}(a), \sigma_{t-1}^2(a))`.

    This is the GP-TS of the paper's experiments (section 4.1); the bounds do not cover it. Sums
    over a super arm vary less than under joint draws where arms are positively correlated.
    """

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return independent draws."""
        del t
        return posterior.mean + posterior.std * rng.standard_normal(posterior.mean.size)


class SeveralPriors(Protocol[P_co]):
    """What several priors believe, together (`superarm.beliefs.HyperpriorBelief`)."""

    @property
    def mean(self) -> Vector:
        """Means of the mixture."""
        ...

    @property
    def std(self) -> Vector:
        """Standard deviations of the mixture."""
        ...

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of the noise."""
        ...

    def drawn(self, rng: np.random.Generator, /) -> P_co:
        """Return the posterior of one prior, drawn by weight."""
        ...


@dataclass(frozen=True)
class SampledPrior(Generic[P]):
    r"""Draw one prior by its weight, then play another policy as if it were the truth (HP-GP-TS).

    With `JointThompson` (or `MarginalThompson`, or either `Rectified`) inside this is Thompson
    sampling over functions *and* priors; the noise that a rectifier adds is that of the prior
    drawn. A draw from the mixture's means and deviations would be something else.

    Args:
        policy: what to play with the prior drawn.
    """

    policy: IndexPolicy[P]

    def indices(self, t: int, posterior: SeveralPriors[P], rng: np.random.Generator) -> Vector:
        """Return the indices of the policy under one prior."""
        return self.policy.indices(t, posterior.drawn(rng), rng)
