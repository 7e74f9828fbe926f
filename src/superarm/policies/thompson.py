"""Thompson sampling: jointly, as analysed, and arm by arm, as in the paper's experiments."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Vector
from superarm.protocols import JointPosterior, Posterior


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
