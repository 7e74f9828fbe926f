"""Which widths the theorems cover, and if not, which condition fails."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from superarm.protocols import Width
from superarm.theory.infinite import InfiniteBayesUCBWidth, InfiniteUCBWidth
from superarm.theory.schedules import (
    BayesUCBWidth,
    FixedWidth,
    QuantileWidth,
    ScaledWidth,
    UCBWidth,
)

LARGER = "with a larger beta_t, which then stands in the bound"  # the proofs allow it

ON_OFFER = (
    "with the most arms on offer in a round for |A|, if what is offered does not depend on the "
    "past and indices are not rectified"
)
"""What a width by the arms on offer needs: the best super arm lies in A_t, so that the union bound
of the proof is over A_t alone."""


@dataclass(frozen=True)
class Validity:
    """What is proven for a width.

    Attributes:
        covered: whether a theorem covers it.
        by: which one, if so.
        fails: the conditions that fail, in words.
    """

    covered: bool
    by: str = ""
    fails: tuple[str, ...] = ()


@runtime_checkable
class Judged(Protocol):
    """A width that says itself what is proven for it; `validate` asks it."""

    def validity(self) -> Validity:
        """Say whether a theorem covers it."""
        ...


def validate(schedule: Width) -> Validity:  # noqa: PLR0911 - one answer per kind
    """Say whether a theorem covers a width, and if not which condition fails.

    A width for n arms is also covered for n arms *on offer*: contexts may be new every round (rush
    hours), if what is offered does not depend on the past and indices are not rectified.

    >>> validate(BayesUCBWidth(100, omega=1.0, xi=1.0)).fails
    ('omega = 1 must exceed 1: C_omega is infinite', 'xi = 1 must exceed omega = 1')
    """
    match schedule:
        case UCBWidth():
            return Validity(covered=True, by="Theorem 1 (i)")
        case InfiniteUCBWidth():
            return Validity(covered=True, by="Theorem 2 (i)")
        case BayesUCBWidth() | InfiniteBayesUCBWidth():
            fails = _failing(schedule.omega, schedule.xi)
            number = 1 if isinstance(schedule, BayesUCBWidth) else 2
            by = "" if fails else f"Theorem {number} (ii)"
            return Validity(covered=not fails, by=by, fails=fails)
        case ScaledWidth():
            inner = validate(schedule.width)
            if schedule.beta_factor == 1 or (schedule.beta_factor > 1 and not inner.covered):
                return inner
            if schedule.beta_factor > 1:
                return Validity(covered=True, by=f"{inner.by}, {LARGER}")
            scaled = f"beta_t is multiplied by {schedule.beta_factor:g}; it may grow, not shrink"
            return Validity(covered=False, fails=(*inner.fails, scaled))
        case FixedWidth():
            return Validity(covered=False, fails=("beta_t must grow with t",))
        case QuantileWidth():
            return Validity(covered=False, fails=("eta_t must shrink with the number of arms",))
        case Judged():
            return schedule.validity()
        case _:
            return Validity(covered=False, fails=("it is no width of the theorems",))


def _failing(omega: float, xi: float) -> tuple[str, ...]:
    fails = []
    if omega <= 1:
        fails.append(f"omega = {omega:g} must exceed 1: C_omega is infinite")
    if xi <= omega:
        fails.append(f"xi = {xi:g} must exceed omega = {omega:g}")
    return tuple(fails)
