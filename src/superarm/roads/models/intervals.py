"""Which interval of energies and times holds nine of ten measurements."""

import math

import numpy as np

from superarm.arrays import Matrix

INTERVAL = 1.6448536269514722
"""Standard deviations on either side that hold 90 per cent of a normal distribution."""


def interval_s(mean_s: float, std_s: float) -> tuple[float, float]:
    """Return the 90 per cent interval of a time with this mean and deviation.

    Times are positive, and late by more than early: it is that of a logarithmic normal.
    """
    spread = math.sqrt(math.log1p((std_s / mean_s) ** 2))
    middle = mean_s * math.exp(-(spread**2) / 2)
    return middle * math.exp(-INTERVAL * spread), middle * math.exp(INTERVAL * spread)


def intervals_s(mean_s: Matrix, std_s: Matrix) -> tuple[Matrix, Matrix]:
    """Return the ends of the intervals of many times."""
    spread = np.sqrt(np.log1p((std_s / mean_s) ** 2))
    middle = mean_s * np.exp(-(spread**2) / 2)
    return middle * np.exp(-INTERVAL * spread), middle * np.exp(INTERVAL * spread)
