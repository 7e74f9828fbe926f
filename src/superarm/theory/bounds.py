r"""The regret bounds of Theorems 1 and 2, term by term.

With :math:`C_K = 2 (\lambda_K^* + \varsigma^2)` all of them are constants plus a multiple of
:math:`\sqrt{C_K T K \beta_T \gamma_{TK}}`. The theorems assume :math:`k(a, a) \le 1`. For a largest
prior variance :math:`v`, the problem divided by :math:`\sqrt v` satisfies it, and its regret times
:math:`\sqrt v` is the regret asked for: the root term is the same in either unit, and the constants
that come from confidence bounds are multiplied by :math:`\sqrt v`.

Proven for indices that are summed as they are: GP-UCB, GP-BayesUCB and *joint* Thompson sampling
with an exact belief and an exact oracle. Marginal Thompson sampling and rectified indices are
outside the theorems.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from superarm.arrays import Vector, as_matrix, require_positive
from superarm.theory.infinite import InfiniteBayesUCBWidth, InfiniteUCBWidth
from superarm.theory.regularity import Regularity
from superarm.theory.schedules import BayesUCBWidth, UCBWidth

Policy = Literal["ucb", "bucb", "ts"]
Case = Literal["theorem", "lemma, logarithmic", "lemma, sublinear"]


@dataclass(frozen=True)
class Bound:
    """A regret bound and its parts.

    Attributes:
        policy: whose regret it bounds.
        case: ``"theorem"``; or the lemma's logarithmic (xi = omega) or sublinear (xi < omega)
            case of GP-BayesUCB, which no theorem states.
        horizon: T.
        beta: beta_T.
        eigenvalue_constant: C_K.
        root: the term that grows, with its factor (2 for Thompson sampling).
        constants: all other terms by name.
    """

    policy: Policy
    case: Case
    horizon: int
    beta: float
    eigenvalue_constant: float
    root: float
    constants: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The bound: the sum of all terms."""
        return self.root + sum(self.constants.values())

    def as_dict(self) -> dict[str, object]:
        """Return every term by name."""
        return {
            "policy": self.policy,
            "case": self.case,
            "horizon": self.horizon,
            "beta_T": self.beta,
            "C_K": self.eigenvalue_constant,
            "root": self.root,
            **self.constants,
            "total": self.total,
        }


def c_omega(omega: float) -> float:
    r"""Return :math:`C_\omega = (\sqrt\pi\,\omega / \sqrt{2e(\omega - 1)})^{1/\omega}`."""
    if not omega > 1:
        msg = f"omega must exceed 1 in a bound (C_omega is infinite at 1), got {omega}"
        raise ValueError(msg)
    inner = math.sqrt(math.pi) * omega / math.sqrt(2 * math.e * (omega - 1))
    return float(inner ** (1 / omega))


def finite_bound(  # noqa: PLR0913 - the quantities of Theorem 1
    policy: Policy,
    *,
    n_arms: int,
    super_arm_size: int,
    horizon: int,
    noise_variance: float,
    information_gain: float,
    largest_eigenvalue: float,
    omega: float | None = None,
    xi: float | None = None,
    largest_variance: float = 1.0,
    sharp: bool = False,
) -> Bound:
    r"""Evaluate Theorem 1, for finitely many arms.

    GP-UCB :math:`\frac{\pi^2}{6} + R`, GP-BayesUCB :math:`C_\omega S + R`, GP-TS
    :math:`\frac{\pi^2}{3} + 2 R` with :math:`R = \sqrt{C_K T K \beta_T \gamma_{TK}}` and
    :math:`S = \xi/(\xi-\omega)` if :math:`\xi > \omega`, :math:`1 + \log T` if equal,
    :math:`\frac{\omega}{\omega-\xi} T^{1-\xi/\omega}` if less.

    Args:
        policy: ``"ucb"``, ``"bucb"`` or ``"ts"`` (joint).
        n_arms: size of the universe.
        super_arm_size: K, the most arms of a super arm.
        horizon: T.
        noise_variance: of one reward.
        information_gain: gamma_TK, or an upper bound on it.
        largest_eigenvalue: lambda*_K, or an upper bound on it.
        omega: of GP-BayesUCB, above 1.
        xi: of GP-BayesUCB.
        largest_variance: of the prior; constants scale with its root.
        sharp: leave out what the proof for GP-TS does not need: given the history, the sampled
            super arm is independent of f, so that :math:`E[U(a_t) - f(a_t)] = E[\sqrt{\beta_t}
            \sigma(a_t)]` as for GP-UCB, and :math:`\frac{\pi^2}{6} + R` is a bound.
    """
    _require_problem(super_arm_size, horizon, noise_variance, information_gain, largest_eigenvalue)
    if super_arm_size > n_arms:
        msg = f"super_arm_size = {super_arm_size} exceeds the {n_arms} arms"
        raise ValueError(msg)
    exponents = exponents_of(policy, omega, xi)
    if policy == "bucb":
        width = BayesUCBWidth(n_arms, *exponents)(horizon)
    else:
        width = UCBWidth(n_arms)(horizon)
    scale = _scale(largest_variance)
    return _bound(
        policy,
        horizon=horizon,
        beta=width**2,
        k=super_arm_size,
        constant=2 * (largest_eigenvalue + noise_variance),
        gain=information_gain,
        constants=_confidence_terms(policy, horizon, exponents, scale, sharp=sharp),
        exponents=exponents,
        sharp=sharp,
    )


def infinite_bound(  # noqa: PLR0913 - the quantities of Theorem 2
    policy: Policy,
    *,
    regularity: Regularity,
    super_arm_size: int,
    horizon: int,
    noise_variance: float,
    information_gain: float,
    largest_eigenvalue: float,
    omega: float | None = None,
    xi: float | None = None,
    largest_variance: float = 1.0,
    explicit: bool = False,
    sharp: bool = False,
    as_printed: bool = False,
) -> Bound:
    r"""Evaluate Theorem 2, for infinitely many arms.

    As Theorem 1, with :math:`\beta_T` of the grid, and :math:`\frac{\pi^2}{6}` twice more: once for
    the means of the grid, once for the indices.

    Arms on offer may be so close that several of the best super arm share one point of the grid.
    Each then counts in the union bound over the grid, up to K times, which the printed proof
    overlooks: the term of confidence is multiplied by K ("shared points" below), unless the theorem
    is asked for as printed.

    Args:
        policy: ``"ucb"``, ``"bucb"`` or ``"ts"`` (joint).
        regularity: how smooth the prior is.
        super_arm_size: K.
        horizon: T.
        noise_variance: of one reward.
        information_gain: gamma_TK, or an upper bound on it.
        largest_eigenvalue: lambda*_K, or an upper bound on it.
        omega: of GP-BayesUCB, above 1.
        xi: of GP-BayesUCB.
        largest_variance: of the prior; the constants of confidence scale with its root.
        explicit: use the paper's explicit grid size (corrected) instead of the smallest one.
        sharp: see `finite_bound`.
        as_printed: leave the term for shared points out.
    """
    _require_problem(super_arm_size, horizon, noise_variance, information_gain, largest_eigenvalue)
    exponents = exponents_of(policy, omega, xi)
    noise_std = math.sqrt(noise_variance)
    if policy == "bucb":
        beta = (
            InfiniteBayesUCBWidth(
                regularity, super_arm_size, noise_std, *exponents, explicit=explicit
            )(horizon)
            ** 2
        )
    else:
        beta = InfiniteUCBWidth(regularity, super_arm_size, noise_std, explicit)(horizon) ** 2
    sixth = math.pi**2 / 6
    grid = {"grid, means": sixth, "grid, indices": sixth}
    scale = _scale(largest_variance)
    terms = _confidence_terms(policy, horizon, exponents, scale, sharp=sharp)
    if not as_printed:
        first = next(iter(terms.values()))
        terms["confidence, shared points"] = (super_arm_size - 1) * first
    return _bound(
        policy,
        horizon=horizon,
        beta=beta,
        k=super_arm_size,
        constant=2 * (largest_eigenvalue + noise_variance),
        gain=information_gain,
        constants=terms | grid,
        exponents=exponents,
        sharp=sharp,
    )


@dataclass(frozen=True, eq=False)
class BoundCurve:
    """A bound for every horizon up to T, estimated from repeated runs.

    Attributes:
        mean: shape (T,).
        standard_error: of the root term's mean, shape (T,).
    """

    mean: Vector
    standard_error: Vector


def bound_curve(  # noqa: PLR0913 - the quantities of Theorem 1
    policy: Policy,
    gains: ArrayLike,
    *,
    n_arms: int,
    super_arm_size: int,
    noise_variance: float,
    largest_eigenvalue: float,
    omega: float | None = None,
    xi: float | None = None,
    largest_variance: float = 1.0,
) -> BoundCurve:
    r"""Bound the regret by the information that runs have really gained.

    The proof of Theorem 1 bounds the sum of widths by
    :math:`\sqrt{T K \beta_T}\, E[\sqrt{C_K I(y_{1:T}; f)}]` before it replaces the gain of the run
    by the maximal one. The expectation is over runs, so it is estimated by their mean; a single run
    bounds no expectation.

    Args:
        policy: ``"ucb"``, ``"bucb"`` or ``"ts"``.
        gains: information gained after every round, shape (repeats, T), at least two repeats.
        n_arms: size of the universe.
        super_arm_size: K.
        noise_variance: of one reward.
        largest_eigenvalue: lambda*_K, or an upper bound on it.
        omega: of GP-BayesUCB, above 1.
        xi: of GP-BayesUCB.
        largest_variance: of the prior.
    """
    table = as_matrix("gains", gains)
    repeats, horizon = table.shape
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        msg = f"an expectation is estimated from at least two runs, got {repeats}"
        raise ValueError(msg)
    mean, error = np.empty(horizon), np.empty(horizon)
    for t in range(1, horizon + 1):
        unit = finite_bound(
            policy,
            n_arms=n_arms,
            super_arm_size=super_arm_size,
            horizon=t,
            noise_variance=noise_variance,
            information_gain=1.0,
            largest_eigenvalue=largest_eigenvalue,
            omega=omega,
            xi=xi,
            largest_variance=largest_variance,
        )
        roots = unit.root * np.sqrt(table[:, t - 1])
        mean[t - 1] = roots.mean() + sum(unit.constants.values())
        error[t - 1] = roots.std(ddof=1) / math.sqrt(repeats)
    return BoundCurve(mean, error)


def _bound(  # noqa: PLR0913 - the parts of a bound
    policy: Policy,
    *,
    horizon: int,
    beta: float,
    k: int,
    constant: float,
    gain: float,
    constants: dict[str, float],
    exponents: tuple[float, float],
    sharp: bool,
) -> Bound:
    root = math.sqrt(constant * horizon * k * beta * gain)
    case: Case = "theorem"
    if policy == "bucb" and exponents[1] <= exponents[0]:
        case = "lemma, logarithmic" if exponents[1] == exponents[0] else "lemma, sublinear"
    factor = 2.0 if policy == "ts" and not sharp else 1.0
    return Bound(policy, case, horizon, beta, constant, factor * root, constants)


def _confidence_terms(
    policy: Policy, horizon: int, exponents: tuple[float, float], scale: float, *, sharp: bool
) -> dict[str, float]:
    sixth = scale * math.pi**2 / 6
    if policy == "ucb" or (policy == "ts" and sharp):
        return {"confidence": sixth}
    if policy == "ts":
        return {"confidence, upper": sixth, "confidence, lower": sixth}
    omega, xi = exponents
    if xi > omega:
        total = xi / (xi - omega)
    elif xi == omega:
        total = 1 + math.log(horizon)
    else:
        total = omega / (omega - xi) * horizon ** (1 - xi / omega)
    return {"confidence": scale * c_omega(omega) * total}


def exponents_of(policy: Policy, omega: float | None, xi: float | None) -> tuple[float, float]:
    """Return omega and xi, or say which condition of the bound fails."""
    if policy not in get_args(Policy):
        msg = f"policy must be one of {get_args(Policy)}, got {policy!r}"
        raise ValueError(msg)
    if policy != "bucb":
        if omega is not None or xi is not None:
            msg = f"omega and xi belong to policy 'bucb', not to {policy!r}"
            raise ValueError(msg)
        return 1.0, 1.0
    if omega is None or xi is None:
        msg = "policy 'bucb' needs omega (above 1) and xi (above 0)"
        raise ValueError(msg)
    c_omega(omega)  # says if it does not exist
    require_positive("xi", xi)
    return float(omega), float(xi)


def _scale(largest_variance: float) -> float:
    require_positive("largest_variance", largest_variance)
    return math.sqrt(largest_variance)


def _require_problem(
    super_arm_size: int, horizon: int, noise_variance: float, gain: float, eigenvalue: float
) -> None:
    if super_arm_size < 1 or horizon < 1:
        msg = f"super_arm_size and horizon must be at least 1, got {super_arm_size} and {horizon}"
        raise ValueError(msg)
    require_positive("noise_variance", noise_variance)
    require_positive("largest_eigenvalue", eigenvalue)
    if not (math.isfinite(gain) and gain >= 0):
        msg = f"information_gain must be finite and not negative, got {gain}"
        raise ValueError(msg)
