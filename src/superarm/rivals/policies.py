r"""Upper confidence bounds whose width is drawn anew every round."""

import math
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Vector
from superarm.protocols import IndexPolicy, JointPosterior, Posterior


@dataclass(frozen=True)
class RandomisedUCB:
    r"""IRGP-UCB (Takeno et al. 2023): the confidence parameter is a shifted exponential.

    .. math:: U_t(a) = \mu_{t-1}(a) + \sqrt{\zeta_t}\,\sigma_{t-1}(a), \qquad
              \zeta_t = 2 \log(|A|/2) + E_t, \quad E_t \sim \mathrm{Exp}(\text{mean } 2)

    It does not grow with t, and still has Bayesian regret :math:`O(\sqrt{T \gamma_T})` for single
    arms.

    Args:
        n_arms: size of the universe, at least 2.
    """

    n_arms: int

    def __post_init__(self) -> None:
        """Refuse universes whose shift would be negative."""
        if self.n_arms < 2:  # noqa: PLR2004 - the logarithm of one half is negative
            msg = f"n_arms must be at least 2, got {self.n_arms}"
            raise ValueError(msg)

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return upper bounds of one random width."""
        del t
        zeta = 2 * math.log(self.n_arms / 2) + rng.exponential(2.0)
        return posterior.mean + math.sqrt(zeta) * posterior.std


@dataclass(frozen=True)
class MaximumImprovement:
    r"""PIMS (Takeno et al. 2024): improve on the maximum of a posterior sample path.

    With :math:`g_t^* = \max_a g_t(a)` of a joint posterior draw, the arm of greatest probability of
    exceeding it maximises :math:`(\mu - g_t^*)/\sigma`. That arm also maximises the upper bound

    .. math:: U_t(a) = \mu_{t-1}(a) + \xi_t\, \sigma_{t-1}(a), \qquad
              \xi_t = \min_a \frac{g_t^* - \mu_{t-1}(a)}{\sigma_{t-1}(a)},

    which is the index here, so that it can be summed over super arms. The width may be negative,
    where no arm is likely to reach the draw's maximum by being uncertain. For super arms
    :math:`g_t^*` is still the best *single* arm on offer: where the best arms of all are of no use
    together (a path does not pass them) the width says little.
    """

    def indices(self, t: int, posterior: JointPosterior, rng: np.random.Generator) -> Vector:
        """Return upper bounds that just reach the maximum of one draw."""
        del t
        best = float(posterior.sample(rng).max())
        std = posterior.std
        known = std > 0
        if not known.any():
            return posterior.mean
        width = float(((best - posterior.mean[known]) / std[known]).min())
        return posterior.mean + width * std


@dataclass(frozen=True)
class Clipped:
    """Another policy's indices, cut at a largest reward that is known (as in CUCB)."""

    inner: IndexPolicy[Posterior]
    highest: float

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return the indices, none above the largest reward."""
        return np.minimum(self.inner.indices(t, posterior, rng), self.highest)
