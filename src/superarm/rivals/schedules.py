r"""Confidence widths of other papers; docs/explanation/algorithms.md says what each has."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from superarm.arrays import require_positive
from superarm.theory.schedules import require_round
from superarm.theory.validity import LARGER, ON_OFFER, Validity

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class SrinivasWidth:
    r"""GP-UCB for a function drawn from the prior (Srinivas et al. 2012, Theorem 1).

    .. math:: \beta_t = 2 \log(|D| t^2 \pi^2 / 6\delta)

    With probability :math:`1 - \delta` all confidence bounds hold at all times.

    >>> round(SrinivasWidth(n_arms=100, delta=0.1)(1) ** 2, 4)
    14.8109
    """

    n_arms: int
    delta: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is no number of arms and no probability."""
        _require_arms(self.n_arms)
        _require_probability(self.delta)

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        require_round(t)
        inner = self.n_arms * math.pi**2 / (6 * self.delta)
        return math.sqrt(2 * (math.log(inner) + 2 * math.log(t)))

    def validity(self) -> Validity:
        """Theorem 1 allows a larger beta_t."""
        return Validity(covered=True, by=f"Theorem 1 (i), {LARGER}")


@dataclass(frozen=True)
class AgnosticWidth:
    r"""GP-UCB for a function of bounded RKHS norm (Srinivas et al. 2012, Theorem 3, frequentist).

    .. math:: \beta_t = 2 B^2 + 300\,\gamma_t \log^3(t / \delta)

    Args:
        norm: B, a bound on the norm of the function.
        gain: :math:`t \mapsto \gamma_t`, the maximal information gain of t rewards.
        delta: the probability that a bound fails.
    """

    norm: float
    gain: Callable[[int], float]
    delta: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is no norm and no probability."""
        require_positive("norm", self.norm)
        _require_probability(self.delta)

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        require_round(t)
        return math.sqrt(2 * self.norm**2 + 300 * self.gain(t) * math.log(t / self.delta) ** 3)


@dataclass(frozen=True)
class RussoVanRoyWidth:
    r"""GP-UCB for finite volatile arms (Russo and Van Roy 2014).

    .. math:: \beta_t = 2 \log((t^2 + 1) |A| / \sqrt{2\pi})

    >>> round(RussoVanRoyWidth(n_arms=100)(1) ** 2, 4)
    8.7588
    """

    n_arms: int

    def __post_init__(self) -> None:
        """Refuse an empty universe."""
        _require_arms(self.n_arms)

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        require_round(t)
        beta = 2 * (math.log(t**2 + 1) + math.log(self.n_arms) - _HALF_LOG_TWO_PI)
        return math.sqrt(max(beta, 0.0))

    def validity(self) -> Validity:
        """Theorem 1 allows a larger beta_t."""
        return Validity(covered=True, by=f"Theorem 1 (i), {LARGER}")


@dataclass(frozen=True)
class ClockWidth:
    r"""O'CLOK-UCB, combinatorial and volatile, for M arms on offer (Nika et al. 2022).

    .. math:: \beta_t = 2 \log(M \pi^2 t^2 / 3\delta)

    A union bound over the arms on offer, not over the universe.

    Args:
        offered: M, the most arms a round offers.
        delta: the probability that a bound fails.
    """

    offered: int
    delta: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is no number of arms and no probability."""
        _require_arms(self.offered)
        _require_probability(self.delta)

    def __call__(self, t: int) -> float:
        """Return sqrt(beta_t)."""
        require_round(t)
        inner = self.offered * math.pi**2 / (3 * self.delta)
        return math.sqrt(2 * (math.log(inner) + 2 * math.log(t)))

    def validity(self) -> Validity:
        """The union bound is over the arms on offer."""
        return Validity(covered=True, by=f"Theorem 1 (i), {ON_OFFER}, {LARGER}")


@dataclass(frozen=True)
class CountWidth:
    r"""CUCB (Chen et al. 2013): :math:`\sqrt{3 \ln t / 2}` over the root of the count."""

    def __call__(self, t: int) -> float:
        """Return the width."""
        require_round(t)
        return math.sqrt(1.5 * math.log(t))


@dataclass(frozen=True)
class RidgeWidth:
    r"""C2UCB for linear rewards (Qin et al. 2014), in units of the posterior deviation.

    .. math:: \alpha_t = \sqrt{d \log\frac{1 + t K L^2 / \lambda}{\delta}} + \sqrt\lambda S

    Args:
        dimension: d, of the contexts.
        super_arm_size: K.
        regularisation: :math:`\lambda`, noise variance over prior variance of the weights.
        norm: S, a bound on the norm of the weights in units of the noise.
        context_norm: L, a bound on the norm of contexts.
        delta: the probability that a bound fails.
    """

    dimension: int
    super_arm_size: int
    regularisation: float = 1.0
    norm: float = 1.0
    context_norm: float = 1.0
    delta: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        _require_arms(self.dimension)
        _require_arms(self.super_arm_size)
        require_positive("regularisation", self.regularisation)
        require_positive("norm", self.norm)
        require_positive("context_norm", self.context_norm)
        _require_probability(self.delta)

    def __call__(self, t: int) -> float:
        """Return alpha_t."""
        require_round(t)
        seen = t * self.super_arm_size * self.context_norm**2
        growth = math.log1p(seen / self.regularisation) - math.log(self.delta)
        return math.sqrt(self.dimension * growth) + math.sqrt(self.regularisation) * self.norm


def _require_arms(number: int) -> None:
    if number < 1:
        msg = f"there must be at least one, got {number}"
        raise ValueError(msg)


def _require_probability(delta: float) -> None:
    if not 0 < delta < 1:
        msg = f"delta must lie between 0 and 1, got {delta}"
        raise ValueError(msg)
