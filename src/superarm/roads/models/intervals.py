r"""Which interval of energies and times holds nine of ten measurements.

A time is the fastest possible one and a delay, which is positive and longer by more than it is
shorter: a logarithmic normal with the mean :math:`d` and the deviation :math:`s` of what is
believed, so that with :math:`\sigma^2 = \log(1 + s^2/d^2)` the ends are

.. math:: t_\mathrm{fastest} + d \exp(-\sigma^2/2 \pm z \sigma) .

Before anything was learned little delay is expected, give or take far more. A logarithmic normal
would then have most of its weight at no delay at all. So at least that much delay counts as
expected which puts the upper end z deviations after the fastest time.
"""

from typing import TypeVar

import numpy as np

from superarm.arrays import Matrix, Vector

INTERVAL = 1.6448536269514722
"""Standard deviations on either side that hold 90 per cent of a normal distribution."""

_LEAST_DELAY = 0.4452883962841148
"""The least delay, in its deviations: with it the upper end is `INTERVAL` deviations later."""

Numbers = TypeVar("Numbers", Vector, Matrix)


def interval_s(mean_s: float, std_s: float, fastest_s: float) -> tuple[float, float]:
    """Return the 90 per cent interval of a time with this mean and deviation.

    Args:
        mean_s: expected.
        std_s: its standard deviation.
        fastest_s: the least that it can take.
    """
    given = (np.array([number]) for number in (mean_s, std_s, fastest_s))
    low, high = intervals_s(*given)
    return float(low[0]), float(high[0])


def intervals_s(mean_s: Numbers, std_s: Numbers, fastest_s: Numbers) -> tuple[Numbers, Numbers]:
    """Return the ends of the intervals of many times, as in `interval_s`."""
    delay = np.maximum(mean_s - fastest_s, _LEAST_DELAY * std_s)
    with np.errstate(invalid="ignore"):  # no delay, and certain: nothing is added
        spread = np.where(delay > 0, np.sqrt(np.log1p((std_s / delay) ** 2)), 0.0)
    middle = delay * np.exp(-(spread**2) / 2)
    low, high = middle * np.exp(-INTERVAL * spread), middle * np.exp(INTERVAL * spread)
    return fastest_s + low, fastest_s + high
