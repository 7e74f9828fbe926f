r"""What features leave of a kernel, multiplied tile by tile: no structure is needed.

A kernel that is neither local nor of low rank is split, exactly: with features F of some arms,

.. math:: K = F F^T + R, \qquad R = K - F F^T ,

and R, a Schur complement, is positive semi-definite. No root of R is known; but a latent of it,
:math:`R^{1/2} a`, never has to be: whatever conjugate gradients ask of it is said by a and
:math:`R a`, which are kept side by side. One product with R is n x n evaluations of the kernel,
some rows at a time.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh_tridiagonal

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.ensemble.solving import dots_of
from superarm.errors import NumericalError
from superarm.gaussian import cholesky_with_jitter
from superarm.kernels import EXACT_DRAW_LIMIT, Kernel

MOST_TILED = 30_000
"""The most arms whose rest is kept by tiles unless that is asked for: a product takes n x n
evaluations of the kernel, half a minute for so many."""

DRAWN = 0.01
"""Prior draws of what is kept by tiles, of more arms than are drawn exactly, are right to that
share of the kernel's deviations, on average over arms."""

_AT_ONCE = 4_000_000  # evaluations of the kernel
_MOST_STEPS = 240
_LOOKED_AT = 8
_KEPT_BYTES = 2 * 2**30
_NOTHING = 1e-14


@dataclass(frozen=True, eq=False)
class TiledRest:
    """R, for some rows of all arms.

    Attributes:
        kernel: K.
        arms: m of them.
        features: F, shape (m, R).
        rows: where they are among all arms, shape (m,).
        scales: what their rows and columns of K - F F^T are multiplied by, shape (m,).
        n_arms: how many there are in all.
    """

    kernel: Kernel
    arms: Arms
    features: Matrix
    rows: Rows
    scales: Vector
    n_arms: int

    def times(self, columns: Matrix) -> Matrix:
        """Return R times columns, shape (n, s); only rows of columns that are not zero cost."""
        mine = self.scales[:, None] * columns[self.rows]
        told = np.flatnonzero(mine.any(axis=1))
        whole = np.zeros((self.n_arms, columns.shape[1]))
        if told.size:
            few = told.size < mine.shape[0] // 2
            found = self._of_few(mine, told) if few else self._of_all(mine)
            whole[self.rows] = self.scales[:, None] * found
        return whole

    def _of_few(self, mine: Matrix, told: Rows) -> Matrix:
        """Return K - F F^T times columns that are zero but for some rows."""
        found = -(self.features @ (self.features[told].T @ mine[told]))
        few, step = self.arms.take(told), max(1, _AT_ONCE // told.size)
        for begin in range(0, len(self.arms), step):
            some = slice(begin, begin + step)
            found[some] += self.kernel.gram(self.arms.take(_range(some, mine)), few) @ mine[told]
        return found

    def _of_all(self, mine: Matrix) -> Matrix:
        """Return K - F F^T times columns; every tile serves both of its sides."""
        found = -(self.features @ (self.features.T @ mine))
        step = max(1, _AT_ONCE // len(self.arms))
        for begin in range(0, len(self.arms), step):
            some, rest = slice(begin, begin + step), slice(begin, None)
            tile = self.kernel.gram(self.arms.take(_range(some, mine)), self._from(begin))
            found[some] += tile @ mine[rest]
            beyond = tile[:, min(step, tile.shape[1]) :]  # the same numbers below the diagonal
            found[begin + step :] += beyond.T @ mine[some]
        return found

    def _from(self, begin: int) -> Arms:
        return self.arms.take(np.arange(begin, len(self.arms)))

    def drawn(self, noise: Matrix) -> Matrix:
        r"""Return prior draws, shape (n, s), of standard normal columns.

        They are :math:`S\, R_0^{1/2}` times the noise, with R without its scales S: exactly for up
        to `EXACT_DRAW_LIMIT` arms, and beyond by Lanczos' recursion, to `DRAWN`.
        """
        mine, found = noise[self.rows], np.zeros((self.n_arms, noise.shape[1]))
        if len(self.arms) <= EXACT_DRAW_LIMIT:
            left = self.kernel.gram(self.arms, self.arms) - self.features @ self.features.T
            drawn = self._size * (cholesky_with_jitter(self._even(left)) @ mine)
        else:
            drawn = np.empty_like(mine)
            width = max(1, _KEPT_BYTES // (8 * len(self.arms) * _MOST_STEPS))
            for begin in range(0, noise.shape[1], width):
                some = slice(begin, begin + width)
                drawn[:, some] = self._size * self._root_times(mine[:, some])
        found[self.rows] = self.scales[:, None] * drawn
        return found

    @cached_property
    def _size(self) -> Matrix:
        """Deviations of the kernel, which make it even, shape (m, 1)."""
        deviation = np.sqrt(self.kernel.diagonal(self.arms))
        return np.where(deviation > 0, deviation, 1.0)[:, None]

    def _even(self, matrix: Matrix) -> Matrix:
        matrix /= self._size
        matrix /= self._size[:, 0]
        return (matrix + matrix.T) / 2

    def _even_times(self, columns: Matrix) -> Matrix:
        found: Matrix = self._of_all(columns / self._size) / self._size
        return found

    def _root_times(self, noise: Matrix) -> Matrix:
        """Return the root times columns by Lanczos' recursion, each column by itself."""
        sizes = np.sqrt(dots_of(noise, noise))
        ahead = noise / np.where(sizes > 0, sizes, 1.0)
        kept, behind = [ahead], np.zeros_like(ahead)
        middle: list[Vector] = []
        beside: list[Vector] = [np.zeros_like(sizes)]
        known: dict[int, Matrix] = {}
        most = len(self.arms)
        for count in range(1, _MOST_STEPS + 1):
            pushed = self._even_times(ahead) - beside[-1] * behind
            middle.append(dots_of(ahead, pushed))
            pushed -= middle[-1] * ahead
            if count % _LOOKED_AT == 0 or count >= most:
                known[count] = weights = _roots_of(middle, beside[1:])
                # an error that falls as one over the steps is what the last half of them changed
                before = known.get(count // 2, weights[:0])
                change = weights.copy()
                change[: before.shape[0]] -= before
                if (np.linalg.norm(change, axis=0) <= DRAWN).all() or count >= most:
                    found = np.zeros_like(noise)
                    for vector, weight in zip(kept, weights, strict=True):
                        found += vector * weight
                    return found * sizes
            length = np.sqrt(dots_of(pushed, pushed))
            length[length <= _NOTHING * np.abs(middle).max(axis=0)] = 0.0
            beside.append(length)
            behind, ahead = ahead, pushed * (length > 0) / np.where(length > 0, length, 1.0)
            kept.append(ahead)
        msg = (
            f"prior draws of {type(self.kernel).__name__} are not right to {DRAWN:g} after "
            f"{_MOST_STEPS} products; raise most_features"
        )
        raise NumericalError(msg)


def _range(part: slice, columns: Matrix) -> Rows:
    return np.arange(*part.indices(columns.shape[0]))


def _roots_of(middle: list[Vector], beside: list[Vector]) -> Matrix:
    """Return the first column of the root of each tridiagonal matrix, shape (steps, s)."""
    found = np.empty((len(middle), middle[0].size))
    for column in range(found.shape[1]):
        values, vectors = eigh_tridiagonal(
            np.array([each[column] for each in middle]), np.array([each[column] for each in beside])
        )
        found[:, column] = vectors @ (np.sqrt(np.maximum(values, 0.0)) * vectors[0])
    return found
