"""Cholesky factors of what is predicted of many trips, none of which may spoil the others'."""

import numpy as np
from scipy.linalg.lapack import dpotrf

from superarm.arrays import Matrix


def factored(joint: Matrix) -> tuple[list[int], Matrix]:
    """Return a Cholesky factor, and of which rows: of all but those that have none.

    No report may keep others from being compared: where rounding leaves a trip without a variance
    of its own beside those before it, it is left out.
    """
    with np.errstate(over="ignore"):
        kept = np.flatnonzero(np.isfinite(joint.diagonal() ** 2)).tolist()
    while kept:
        lower, place = dpotrf(joint[np.ix_(kept, kept)], lower=True, clean=True)
        if place == 0:
            return kept, lower
        del kept[place - 1]
    return kept, joint[:0, :0]
