r"""How smooth a prior is: the constants of the infinite case (the paper's regularity assumption).

For a stationary kernel :math:`k = \sigma^2 \rho(D)` with lengthscales :math:`\ell_j` everything
follows from the steepest slope of :math:`\rho` and from two moments of its spectral density.

*Lipschitz constant.* :math:`|k(a, b) - k(a', b)| \le L \|a - a'\|_1` with
:math:`L = \sigma^2 \max_r |\rho'(r)| / \min_j \ell_j`.

*Derivatives of sample paths.* :math:`\partial_j f` is a Gaussian process with variance
:math:`s_j^2 = \sigma^2 E[\omega_j^2]`, :math:`\omega` drawn from the spectral density, and its
increments over h have at most the variance :math:`M_j^2 \|h\|_2^2` with
:math:`M_j^2 = \sigma^2 \max_i E[\omega_j^2 \omega_i^2]`. Dudley's entropy integral bounds its
expected supremum over the cube,

.. math:: m_j = E \sup \partial_j f \le 12 \int_0^{2 s_j} \sqrt{\log N_j(\epsilon)}\, d\epsilon,
          \qquad N_j(\epsilon) = (1 + \sqrt d\, C_1 M_j / (2\epsilon))^d,

and the Borell-TIS inequality its tail, :math:`P(\sup |\partial_j f| > l) \le
2 \exp(-(l - m_j)^2 / 2 s_j^2)`. Since :math:`(l - m)^2 \ge l^2/2 - m^2`, the assumption holds with
:math:`C_3 = 2 s` and :math:`C_2 = 2 \exp(m^2 / 2 s^2)`, for the largest of both over j. These
constants are valid, not tight: :math:`C_2` is huge, but enters by the root of its logarithm.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.integrate import quad

from superarm.arrays import require_positive

_DUDLEY = 12.0
_FAR = 60.0
_LARGEST_EXPONENT = 700.0


class SmoothKernel(Protocol):
    """What is asked of a stationary kernel; those of `superarm.kernels` have it."""

    @property
    def lengthscale(self) -> tuple[float, ...]:
        """One for all features, or one per feature."""
        ...

    @property
    def variance(self) -> float:
        """The prior variance."""
        ...

    @property
    def steepest_slope(self) -> float:
        """The largest |rho'(r)| of the correlation."""
        ...

    @property
    def spectral_moments(self) -> tuple[float, float]:
        """Of the squared radial factor of frequencies, first and second."""
        ...


@dataclass(frozen=True)
class Regularity:
    """The constants of the regularity assumption.

    Args:
        dimension: d, of the arms.
        side: C_1, of the cube [0, C_1]^d that holds them.
        lipschitz: L, of the prior mean and covariance.
        c2: C_2; infinite where it is too large for a number and its logarithm is given.
        c3: C_3.
        log_c2: the logarithm of C_2, if not that of `c2`.
    """

    dimension: int
    side: float
    lipschitz: float
    c2: float
    c3: float
    log_c2: float = math.nan

    def __post_init__(self) -> None:
        """Refuse constants that are not positive."""
        if self.dimension < 1:
            msg = f"dimension must be at least 1, got {self.dimension}"
            raise ValueError(msg)
        for name in ("side", "lipschitz", "c3"):
            require_positive(name, getattr(self, name))
        if math.isnan(self.log_c2):
            require_positive("c2", self.c2)
            object.__setattr__(self, "log_c2", math.log(self.c2))

    @classmethod
    def of_kernel(cls, kernel: SmoothKernel, dimension: int, side: float = 1.0) -> "Regularity":
        """Derive the constants of a stationary kernel, as the module's text says.

        Args:
            kernel: RBF or a Matérn kernel with nu > 2.
            dimension: d.
            side: C_1.

        The prior mean is taken to be constant.
        """
        second, fourth = kernel.spectral_moments
        if not math.isfinite(fourth):
            msg = (
                f"{type(kernel).__name__} has no bound on the derivatives of sample paths: its "
                "spectral density lacks a fourth moment; use a Matérn kernel with nu > 2, or RBF"
            )
            raise ValueError(msg)
        require_positive("side", side)
        scales = np.broadcast_to(np.array(kernel.lengthscale), (dimension,))
        least = float(scales.min())
        lipschitz = kernel.variance * kernel.steepest_slope / least
        c3 = log_c2 = 0.0
        for j in range(dimension):
            spread = math.sqrt(kernel.variance * second) / float(scales[j])
            pairs = [(3.0 if i == j else 1.0) / scales[i] ** 2 for i in range(dimension)]
            rough = math.sqrt(kernel.variance * fourth * max(pairs)) / float(scales[j])
            peak = _expected_supremum(spread, rough, dimension, side)
            c3 = max(c3, 2 * spread)
            log_c2 = max(log_c2, math.log(2) + peak**2 / (2 * spread**2))
        c2 = math.exp(log_c2) if log_c2 < _LARGEST_EXPONENT else math.inf
        return cls(dimension, side, lipschitz, c2, c3, log_c2)


def _expected_supremum(spread: float, rough: float, dimension: int, side: float) -> float:
    """Return Dudley's bound on the expected supremum of a derivative over the cube."""
    reach = math.sqrt(dimension) * side * rough / 2

    def entropy(u: float) -> float:  # at epsilon = 2 s e^-u, which smooths the corner at zero
        epsilon = 2 * spread * math.exp(-u)
        return epsilon * math.sqrt(dimension * math.log1p(reach / epsilon))

    value, error = quad(entropy, 0, _FAR, limit=200)
    # beyond, log(1 + x e^u) <= log(1 + x) + u, and the root of that grows slower than e^(u/2)
    left = (
        2
        * spread
        * math.exp(-_FAR / 2)
        * math.sqrt(dimension * (math.log1p(reach / (2 * spread)) + _FAR))
    )
    return _DUDLEY * (value + abs(error) + left)
