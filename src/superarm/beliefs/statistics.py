r"""What rewards have said of the arms they came from, summed up: all that any prior needs of them.

Of rewards :math:`y_j` of one arm with known noise variances :math:`s_j^2` only

.. math::
    m, \qquad p = \sum_j s_j^{-2}, \qquad \bar y = \frac1p \sum_j y_j / s_j^2, \qquad
    q = \sum_j (y_j - \bar y)^2 / s_j^2, \qquad \ell = \sum_j \log s_j^2

matter: as far as the arm's mean reward is concerned they are one reward :math:`\bar y` of variance
:math:`1/p`, and q and :math:`\ell` are what the density of the single rewards needs besides.
Summaries merge exactly, in any order.
"""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Rows, Vector, frozen

FIELDS = ("counts", "precision", "averages", "squares", "log_noise")


@dataclass(frozen=True, eq=False)
class ArmStatistics:
    """The sums above, one entry per arm.

    Attributes:
        counts: m, how many rewards, shape (D,).
        precision: p, the sum of their inverse noise variances, shape (D,).
        averages: their mean, shape (D,), weighted by inverse noise variances; zero without any.
        squares: q, the sum of squares around it, weighted likewise, shape (D,).
        log_noise: the sum of the logarithms of noise variances, shape (D,).
    """

    counts: Vector
    precision: Vector
    averages: Vector
    squares: Vector
    log_noise: Vector

    @classmethod
    def nothing(cls, n_arms: int = 0) -> "ArmStatistics":
        """Return the summary of no rewards."""
        return cls(*(frozen(np.zeros(n_arms)) for _ in FIELDS))

    @classmethod
    def of_batch(cls, keys: Rows, rewards: Vector, noise: Vector) -> "tuple[Rows, ArmStatistics]":
        """Sum up rewards by key; return the distinct keys, rising, and their summaries.

        Args:
            keys: which arm every reward belongs to, shape (k,).
            rewards: shape (k,).
            noise: the noise variance of every reward, shape (k,).
        """
        distinct, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
        weights = 1.0 / noise
        size = distinct.size
        precision = _summed(which, weights, size)
        with np.errstate(over="ignore"):  # told below
            averages = _summed(which, weights * rewards, size) / precision
        if not (np.isfinite(precision).all() and np.isfinite(averages).all()):
            msg = "rewards, or inverse noise variances, are too large to be added up"
            raise ValueError(msg)
        gaps = weights * (rewards - averages[which]) ** 2
        return distinct, cls(
            counts=counts.astype(np.float64),
            precision=precision,
            averages=averages,
            squares=_summed(which, gaps, size),
            log_noise=_summed(which, np.log(noise), size),
        )

    def at(self, rows: Rows) -> "ArmStatistics":
        """Return the summaries of some arms."""
        return ArmStatistics(**{name: frozen(getattr(self, name)[rows]) for name in FIELDS})

    def with_noise(self, factor: float) -> "ArmStatistics":
        """Return the same rewards with all noise variances multiplied."""
        return ArmStatistics(
            counts=self.counts,
            precision=frozen(self.precision / factor),
            averages=self.averages,
            squares=frozen(self.squares / factor),
            log_noise=frozen(self.log_noise + self.counts * np.log(factor)),
        )

    def merged(self, slots: Rows, batch: "ArmStatistics", size: int) -> "ArmStatistics":
        """Return the summaries of `size` arms after a batch at some of their (distinct) slots."""
        grown = {
            name: np.concatenate([part, np.zeros(size - part.size)])
            for name, part in ((name, getattr(self, name)) for name in FIELDS)
        }
        before = grown["precision"][slots]
        total = before + batch.precision
        gap = batch.averages - grown["averages"][slots]
        grown["counts"][slots] += batch.counts
        grown["precision"][slots] = total
        grown["averages"][slots] += gap * (batch.precision / total)
        grown["squares"][slots] += batch.squares + gap**2 * (before * (batch.precision / total))
        grown["log_noise"][slots] += batch.log_noise
        return ArmStatistics(**{name: frozen(part) for name, part in grown.items()})


def _summed(which: Rows, values: Vector, size: int) -> Vector:
    return np.asarray(np.bincount(which, weights=values, minlength=size), dtype=np.float64)
