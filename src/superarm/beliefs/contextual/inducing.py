"""Which observed arms sum a history up best."""

import numpy as np

from superarm.arrays import Matrix, Rows, Vector


def most_uncertain(covariance: Matrix, above: Vector, most: int) -> Rows:
    """Choose arms greedily by the variance that those chosen before leave (a pivoted Cholesky).

    Args:
        covariance: of the candidates given the inducing arms so far, shape (n, n).
        above: an arm is chosen only while its variance exceeds this, shape (n,).
        most: how many to choose at most.
    """
    left = covariance.diagonal().copy()
    columns = np.empty((covariance.shape[0], 0))
    chosen: list[int] = []
    while len(chosen) < min(most, left.size):
        excess = np.where(left > above, left, -np.inf)
        best = int(excess.argmax())
        if not np.isfinite(excess[best]):
            break
        column = (covariance[:, best] - columns @ columns[best]) / np.sqrt(left[best])
        columns = np.column_stack([columns, column])
        left = left - column**2
        chosen.append(best)
    return np.array(chosen, dtype=np.intp)
