"""How certain rates are."""

import numpy as np
from numpy.typing import ArrayLike

from superarm.arrays import Vector, as_per_arm, as_vector, require_positive


def rate_variance(successes: ArrayLike, trials: ArrayLike) -> Vector:
    """Return the noise variance of shares of successes, for beliefs that take them as Gaussian.

    That of a binomial, p (1 - p) / n, with p shrunk a little (one success and one failure more), so
    that no success in n trials is not certainty. It depends on the reward itself, which makes a
    difference where trials are few: take `superarm.beliefs.CountGP` there.

    Args:
        successes: of every row, such as clicks.
        trials: of every row, such as visitors, or one number for all.

    >>> rate_variance([0, 50], 100).round(6).tolist()
    [9.7e-05, 0.0025]
    """
    counts = as_vector("successes", np.asarray(successes, dtype=np.float64))
    given = as_per_arm("trials", np.asarray(trials, dtype=np.float64), counts.size)
    require_positive("trials", given)
    if ((counts < 0) | (counts > given)).any():
        place = int(np.flatnonzero((counts < 0) | (counts > given))[0])
        msg = f"{counts[place]:g} successes in {given[place]:g} trials (row {place}) cannot be"
        raise ValueError(msg)
    share = (counts + 1) / (given + 2)
    variance: Vector = share * (1 - share) / given
    return variance
