r"""Confidence widths for infinitely many arms (Theorem 2): the arms of a grid that grows with t.

A union bound over the :math:`\tau_t^d` points of the grid replaces the one over the arms; see
`superarm.theory.discretisation` for its size.
"""

import math
from dataclasses import dataclass, field

from superarm.arrays import require_positive
from superarm.theory.discretisation import BayesUCBGrid, Grid, UCBGrid
from superarm.theory.regularity import Regularity


@dataclass(frozen=True)
class InfiniteUCBWidth:
    r"""The width of GP-UCB for infinitely many arms.

    .. math:: \beta_t = 2 \log(\tau_t^d t^2 / \sqrt{2\pi})

    Args:
        regularity: how smooth the prior is.
        super_arm_size: K.
        noise_std: of one reward.
        explicit: use the paper's explicit grid size (corrected) instead of the smallest one.
    """

    regularity: Regularity
    super_arm_size: int
    noise_std: float
    explicit: bool = False
    grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the problem."""
        grid = Grid(self.regularity, self.super_arm_size, self.noise_std)
        object.__setattr__(self, "grid", grid)

    def log_size(self, t: int) -> float:
        """Return log tau_t."""
        if self.explicit:
            return self.grid.explicit_log_size(t, UCBGrid())
        return self.grid.smallest_log_size(t, UCBGrid())

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        dimension = self.regularity.dimension
        return math.exp(UCBGrid().log_beta(t, self.log_size(t), dimension) / 2)


@dataclass(frozen=True)
class InfiniteBayesUCBWidth:
    r"""The width of GP-BayesUCB for infinitely many arms.

    .. math:: \sqrt{\beta_t} = \Phi^{-1}(1 - \eta_t), \qquad
              \eta_t = \frac{(2\pi)^{\omega/2}}{2 \tau_t^{d\omega} t^\xi}

    Args:
        regularity: how smooth the prior is.
        super_arm_size: K.
        noise_std: of one reward.
        omega: exponent of the size of the grid.
        xi: exponent of t.
        explicit: use the paper's explicit grid size (corrected) instead of the smallest one.
    """

    regularity: Regularity
    super_arm_size: int
    noise_std: float
    omega: float = 1.0
    xi: float = 1.0
    explicit: bool = False
    grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the problem."""
        require_positive("omega", self.omega)
        require_positive("xi", self.xi)
        grid = Grid(self.regularity, self.super_arm_size, self.noise_std)
        object.__setattr__(self, "grid", grid)

    def log_size(self, t: int) -> float:
        """Return log tau_t."""
        width = BayesUCBGrid(self.omega, self.xi)
        if self.explicit:
            return self.grid.explicit_log_size(t, width)
        return self.grid.smallest_log_size(t, width)

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        width = BayesUCBGrid(self.omega, self.xi)
        return math.exp(width.log_beta(t, self.log_size(t), self.regularity.dimension) / 2)
