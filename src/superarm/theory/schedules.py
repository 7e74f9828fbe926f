r"""Confidence widths :math:`\sqrt{\beta_t}` of upper confidence bounds, as functions of t.

Finite arm sets (Theorem 1): `UCBWidth` and `BayesUCBWidth`. Both need at least three arms: below,
:math:`\beta_1` of the first is negative and the quantile of the second lies below the median.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from superarm.arrays import require_positive
from superarm.gaussian import upper_quantile_width
from superarm.protocols import Width

_FEWEST_ARMS = 3  # the smallest integer above sqrt(2 pi)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class UCBWidth:
    r"""The width of GP-UCB for finitely many arms.

    .. math:: \beta_t = 2 \log(|A| t^2 / \sqrt{2\pi})

    >>> round(UCBWidth(n_arms=100)(1) ** 2, 4)
    7.3725
    """

    n_arms: int

    def __post_init__(self) -> None:
        """Refuse arm sets so small that beta_1 is negative."""
        _require_enough_arms(self.n_arms, "beta_1 = 2 log(n / sqrt(2 pi)) is negative")

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        require_round(t)
        return math.sqrt(2 * (math.log(self.n_arms) + 2 * math.log(t) - _HALF_LOG_TWO_PI))


@dataclass(frozen=True)
class BayesUCBWidth:
    r"""The width of GP-BayesUCB for finitely many arms: a quantile of the standard normal.

    .. math:: \sqrt{\beta_t} = \Phi^{-1}(1 - \eta_t), \qquad
              \eta_t = \frac{\sqrt{2\pi}^{\,\omega}}{2 |A|^\omega t^\xi}

    It is the same as :math:`\beta_t = 2 (\mathrm{erf}^{-1}(1 - 2\eta_t))^2`. Everything is done in
    logarithms, so that no number of arms or rounds underflows.

    >>> round(BayesUCBWidth(n_arms=100, omega=1.0, xi=1.0)(1), 4)
    2.2404
    """

    n_arms: int
    omega: float = 1.0
    xi: float = 1.0

    def __post_init__(self) -> None:
        """Refuse exponents that are not positive and arm sets for which eta_1 > 1/2."""
        require_positive("omega", self.omega)
        require_positive("xi", self.xi)
        _require_enough_arms(self.n_arms, "eta_1 = (sqrt(2 pi) / n)^omega / 2 exceeds 1/2")

    def log_level(self, t: int) -> float:
        """Return log eta_t."""
        require_round(t)
        shrink = self.omega * (math.log(self.n_arms) - _HALF_LOG_TWO_PI)
        return -shrink - math.log(2) - self.xi * math.log(t)

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        return upper_quantile_width(self.log_level(t))


@dataclass(frozen=True)
class QuantileWidth:
    r"""The width of the :math:`(1 - \eta_t)` quantile for any :math:`\eta_t` in (0, 1/2].

    With ``level = lambda t: 1 / t`` it is the quantile of Algorithm 2 as printed, which is
    minus infinity at t = 1 and below the median at no later t.
    """

    level: Callable[[int], float]

    def __call__(self, t: int) -> float:
        """Return the width, or say why there is none."""
        require_round(t)
        eta = self.level(t)
        if not 0 < eta <= 0.5:  # noqa: PLR2004 - the median
            reason = "infinite" if eta in (0, 1) else "below the median or undefined"
            msg = f"eta_{t} = {eta} makes the width {reason}; levels must lie in (0, 1/2]"
            raise ValueError(msg)
        return upper_quantile_width(math.log(eta))


@dataclass(frozen=True)
class FixedWidth:
    """The same width in every round."""

    width: float

    def __post_init__(self) -> None:
        """Refuse widths that are negative or not finite."""
        if not (math.isfinite(self.width) and self.width >= 0):
            msg = f"width must be finite and not negative, got {self.width}"
            raise ValueError(msg)

    def __call__(self, t: int) -> float:
        """Return the width."""
        require_round(t)
        return self.width


@dataclass(frozen=True)
class ScaledWidth:
    r"""Another width with :math:`\beta_t` multiplied: :math:`\sqrt{c\,\beta_t}`."""

    width: Width
    beta_factor: float

    def __post_init__(self) -> None:
        """Refuse factors that are not positive."""
        require_positive("beta_factor", self.beta_factor)

    def __call__(self, t: int) -> float:
        """Return the scaled width."""
        return math.sqrt(self.beta_factor) * self.width(t)


def _require_enough_arms(n_arms: int, why: str) -> None:
    if n_arms < _FEWEST_ARMS:
        msg = (
            f"n_arms must be at least {_FEWEST_ARMS}, got {n_arms}: {why}; "
            "use FixedWidth for so few arms"
        )
        raise ValueError(msg)


def require_round(t: int) -> None:
    """Raise if this is no number of a round."""
    if t < 1:
        msg = f"rounds are numbered from 1, got t = {t}"
        raise ValueError(msg)
