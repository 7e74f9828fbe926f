"""What keys have in common, which is held against none of them."""

from collections.abc import Sequence

import numpy as np

FEWEST_KEYS = 3
"""Fewer keys do not tell which of them is off."""

MISFIT = 2.0
"""Most keys surprise beyond the model where their mean squared surprise is more than this: over the
last ten trips of one key chance makes it 1 ± 0.45."""

GAIN_LIMIT = 4.0
"""A gain so many standard deviations off is not chance."""

_OF_NORMAL = 1.4826  # the deviation over the median of absolute deviations


def in_common(values: Sequence[float]) -> float:
    """Return what keys have in common: the median, or of two keys the smaller of one sign."""
    if len(values) == FEWEST_KEYS - 1:
        return min(values, key=abs) if min(values) * max(values) > 0 else 0.0
    return float(np.median(values)) if len(values) >= FEWEST_KEYS else 0.0


def limit_of(values: Sequence[float]) -> float:
    """Return how far one of some estimates over their deviations may be from their median."""
    if not values:
        return GAIN_LIMIT
    apart = np.abs(np.array(values) - float(np.median(values)))
    return GAIN_LIMIT * max(1.0, _OF_NORMAL * float(np.median(apart)))
