r"""Upper confidence bounds: GP-UCB and GP-BayesUCB differ in the width alone."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Vector
from superarm.protocols import Posterior, Width


@dataclass(frozen=True)
class UpperConfidenceBound:
    r"""Optimism in the face of uncertainty (section 2.2).

    .. math:: U_t(a) = \mu_{t-1}(a) + \sqrt{\beta_t}\,\sigma_{t-1}(a)

    Args:
        width: the schedule :math:`t \mapsto \sqrt{\beta_t}`.
    """

    width: Width

    def __post_init__(self) -> None:
        """Refuse a number where a schedule is expected."""
        given: object = self.width
        if not callable(given):
            msg = (
                f"width must be a schedule of t, got {given!r}; use one of superarm.theory, "
                f"FixedWidth({given!r}) for the same width in every round"
            )
            raise TypeError(msg)

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return the upper confidence bounds; nothing is random."""
        del rng
        return posterior.mean + self.width(t) * posterior.std
