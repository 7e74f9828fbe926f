"""Observations of other shapes as sparse rows: rewards and totals of arms, evidence summed up."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from superarm.arrays import Rows, Vector, frozen
from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.sums.evidence import Evidence, checked_starts
from superarm.beliefs.sums.update import Root
from superarm.errors import CapacityError
from superarm.values import changed

MOST_TOUCHED = 4_000
"""The most arms of evidence that is summed up, whose root is dense."""


def sums_of(places: Rows, starts: ArrayLike, noise: Vector) -> tuple[csr_array, Vector]:
    """Return sums of arms as rows, and the noise variances of their arms added up."""
    begin = checked_starts(starts, places.size)
    errors = np.add.reduceat(noise[places], begin[:-1]) if places.size else np.empty(0)
    shape = (begin.size - 1, noise.size)
    return csr_array((np.ones(places.size), places.copy(), begin.copy()), shape=shape), errors


def of_evidence(evidence: Evidence, spread: Vector) -> Observations:
    """Return observations that say the same as evidence, of at most `MOST_TOUCHED` linked arms.

    Args:
        evidence: about all arms.
        spread: prior deviations of all arms, shape (n,).
    """
    precision = evidence.precision
    touched = int((np.diff(precision.indptr) > 0).sum())
    if precision.nnz > touched > MOST_TOUCHED:
        msg = (
            f"this evidence links {touched:,} arms; a root of at most {MOST_TOUCHED:,} is "
            "taken: give what was observed to condition_functionals, or in smaller batches"
        )
        raise CapacityError(msg)
    root = Root.of(evidence, spread)
    if root.matrix.ndim == 1:
        entries = (root.matrix, (np.arange(root.rank), root.touched))
    else:
        number, place = np.nonzero(root.matrix.T)
        entries = (root.matrix[place, number], (number, root.touched[place]))
    rows = csr_array(entries, shape=(root.rank, spread.size))
    rows.sum_duplicates()
    return changed(
        Observations.nothing(spread.size),
        starts=frozen(rows.indptr.astype(np.intp)),
        places=frozen(rows.indices.astype(np.int32)),
        weights=frozen(rows.data),
        groups=frozen(np.arange(root.rank + 1)),
        shares=frozen(np.zeros(root.rank)),
        targets=frozen(root.solve(evidence.weighted[root.touched])),
        weighted=evidence.weighted,
        squares=evidence.squares,
        log_noise=evidence.log_noise,
        count=evidence.count,
    )
