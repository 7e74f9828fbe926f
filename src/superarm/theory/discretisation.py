r"""How fine the grid behind the infinite case must be (the paper's discretisation assumption).

In round t every side of the cube is divided into :math:`\tau_t` points, such that

.. math::
    \tau &\ge 2 t^2 K L d C_1 (1 + t K / \varsigma), \\
    \tau / \beta &\ge 8 t^4 K^2 L d C_1, \\
    \tau^2 / \beta &\ge 8 t^5 K^3 L^2 d^2 C_1^2 / \varsigma^2, \\
    \tau &\ge t^2 K d C_1 C_3 (\sqrt{\max(0, \log(C_2 d))} + \sqrt\pi / 2),

where :math:`\beta` itself depends on :math:`\tau`. Everything is done in logarithms: with d = 10
the grid has more points than a double can count.

`explicit_log_size` is the paper's remark, corrected: the logarithms in it are cut at zero (as
printed they go negative for small t, and :math:`\tau_1` then violates the assumption), and the
factor 2 inside that of GP-BUCB is left out. `smallest_log_size` solves the inequalities.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from scipy.optimize import brentq
from scipy.special import erfcx

from superarm.arrays import require_positive
from superarm.gaussian import upper_quantile_width
from superarm.theory.regularity import Regularity
from superarm.theory.schedules import require_round

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_INTEGERS = math.log(2.0**52)  # beyond, every double is an integer


class GridWidth(Protocol):
    """A confidence parameter as a function of the round and the logarithm of the grid size."""

    def log_beta(self, t: int, log_size: float, dimension: int, /) -> float:
        """Return log beta_t, -inf where beta_t is not positive."""
        ...

    def slope(self, t: int, log_size: float, dimension: int, /) -> float:
        """Return d log beta_t / d log tau, which falls from infinity as tau grows."""
        ...

    def log_factor(self, t: int, dimension: int, /) -> float:
        """Return log c with beta_t <= 2 c tau^(1/e) for all tau >= 1."""
        ...


@dataclass(frozen=True)
class UCBGrid:
    r""":math:`\beta_t = 2 \log(\tau_t^d t^2 / \sqrt{2\pi})`."""

    def log_beta(self, t: int, log_size: float, dimension: int) -> float:
        """Return log beta_t."""
        half = dimension * log_size + 2 * math.log(t) - _HALF_LOG_TWO_PI
        return math.log(2 * half) if half > 0 else -math.inf

    def slope(self, t: int, log_size: float, dimension: int) -> float:
        """Return 2 d / beta_t."""
        return 2 * dimension / math.exp(self.log_beta(t, log_size, dimension))

    def log_factor(self, t: int, dimension: int) -> float:
        """Return log(d + max(0, log(t^2 / sqrt(2 pi))))."""
        return math.log(dimension + max(0.0, 2 * math.log(t) - _HALF_LOG_TWO_PI))


@dataclass(frozen=True)
class BayesUCBGrid:
    r"""A quantile: :math:`\beta_t = \Phi^{-1}(1 - \eta_t)^2`.

    .. math:: \eta_t = (2\pi)^{\omega/2} / (2 \tau_t^{d\omega} t^\xi)
    """

    omega: float
    xi: float

    def log_level(self, t: int, log_size: float, dimension: int) -> float:
        """Return log eta_t."""
        shrink = self.omega * (dimension * log_size - _HALF_LOG_TWO_PI)
        return -shrink - math.log(2) - self.xi * math.log(t)

    def log_beta(self, t: int, log_size: float, dimension: int) -> float:
        """Return log beta_t."""
        level = self.log_level(t, log_size, dimension)
        if level >= -math.log(2):
            return -math.inf
        width = upper_quantile_width(level)
        return 2 * math.log(width) if width > 0 else -math.inf

    def slope(self, t: int, log_size: float, dimension: int) -> float:
        """Return 2 d omega m(w) / w for the width w and Mills' ratio m."""
        width = math.exp(self.log_beta(t, log_size, dimension) / 2)
        mills = math.sqrt(math.pi / 2) * float(erfcx(width / math.sqrt(2)))
        return 2 * dimension * self.omega * mills / width

    def log_factor(self, t: int, dimension: int) -> float:
        """Return log(d omega + max(0, log(t^xi / sqrt(2 pi)^omega)))."""
        extra = self.xi * math.log(t) - self.omega * _HALF_LOG_TWO_PI
        return math.log(dimension * self.omega + max(0.0, extra))


@dataclass(frozen=True)
class Grid:
    """The problem that a discretisation belongs to.

    Args:
        regularity: how smooth the prior is.
        super_arm_size: K.
        noise_std: of one reward.
    """

    regularity: Regularity
    super_arm_size: int
    noise_std: float

    def __post_init__(self) -> None:
        """Refuse impossible problems."""
        if self.super_arm_size < 1:
            msg = f"super_arm_size must be at least 1, got {self.super_arm_size}"
            raise ValueError(msg)
        require_positive("noise_std", self.noise_std)

    def explicit_log_size(self, t: int, width: GridWidth) -> float:
        """Return the logarithm of the size in the paper's remark, corrected."""
        plain, by_beta, by_beta_squared = self._right_sides(t)
        factor = math.log(2) + width.log_factor(t, self.regularity.dimension)
        power = 1 / math.e
        return self._with_positive_beta(
            t,
            width,
            max(plain, (by_beta + factor) / (1 - power), (by_beta_squared + factor) / (2 - power)),
        )

    def smallest_log_size(self, t: int, width: GridWidth) -> float:
        """Return the logarithm of the smallest whole size from which on all inequalities hold."""
        plain, by_beta, by_beta_squared = self._right_sides(t)
        needed = self._with_positive_beta(t, width, plain)
        for power, right in ((1.0, by_beta), (2.0, by_beta_squared)):
            needed = max(needed, self._last_crossing(t, width, power, right, needed))
        return self._whole(t, width, needed)

    def holds(self, t: int, width: GridWidth, log_size: float, *, slack: float = 1e-12) -> bool:
        """Say whether a size satisfies all four inequalities, with a positive beta."""
        plain, by_beta, by_beta_squared = self._right_sides(t)
        log_beta = width.log_beta(t, log_size, self.regularity.dimension)
        room = slack * max(1.0, abs(log_size))
        return (
            math.isfinite(log_beta)
            and log_size >= plain - room
            and log_size - log_beta >= by_beta - room
            and 2 * log_size - log_beta >= by_beta_squared - room
        )

    def _right_sides(self, t: int) -> tuple[float, float, float]:
        """Return the logarithms of the right sides: first and fourth together, second, third."""
        require_round(t)
        known, size = self.regularity, self.super_arm_size
        log_t, log_k, log_d = math.log(t), math.log(size), math.log(known.dimension)
        log_l, log_c1 = math.log(known.lipschitz), math.log(known.side)
        base = log_l + log_d + log_c1
        first = math.log(2) + 2 * log_t + log_k + base + math.log1p(t * size / self.noise_std)
        second = math.log(8) + 4 * log_t + 2 * log_k + base
        third = math.log(8) + 5 * log_t + 3 * log_k + 2 * base - 2 * math.log(self.noise_std)
        tail = math.sqrt(max(0.0, known.log_c2 + log_d)) + math.sqrt(math.pi) / 2
        fourth = 2 * log_t + log_k + log_d + log_c1 + math.log(known.c3) + math.log(tail)
        return max(first, fourth, 0.0), second, third

    def _with_positive_beta(self, t: int, width: GridWidth, log_size: float) -> float:
        """Return the size, or the least larger one at which beta is positive."""
        d = self.regularity.dimension
        while not math.isfinite(width.log_beta(t, log_size, d)):
            # both betas turn positive at tau^d = sqrt(2 pi) at the latest
            log_size = max(log_size + 1e-9, _HALF_LOG_TWO_PI / d * (1 + 1e-9))
        return log_size

    def _last_crossing(
        self,
        t: int,
        width: GridWidth,
        power: float,
        right: float,
        start: float,
    ) -> float:
        r"""Return where :math:`p \log\tau - \log\beta` exceeds a number for the last time.

        It falls while beta is small and rises ever after, so it crosses upwards once.
        """
        d = self.regularity.dimension

        def excess(log_size: float) -> float:
            return power * log_size - width.log_beta(t, log_size, d) - right

        low = start
        if width.slope(t, low, d) > power:  # still falling: the least value lies further on
            high = low + 1.0
            while width.slope(t, high, d) > power:
                high = low + 2 * (high - low)
            low = float(brentq(lambda x: width.slope(t, x, d) - power, low, high, xtol=1e-12))
        if excess(low) >= 0:
            return start
        high = low + 1.0
        while excess(high) < 0:
            high = low + 2 * (high - low)
        return float(brentq(excess, low, high, xtol=1e-13, rtol=1e-14))

    def _whole(self, t: int, width: GridWidth, log_size: float) -> float:
        """Round a size up to a whole number, where numbers can be counted."""
        if log_size > _INTEGERS:
            return log_size
        size = math.ceil(math.exp(log_size) * (1 - 1e-12))
        while not self.holds(t, width, math.log(size)):
            size += 1
        return math.log(size)
