"""Kernel rows of the distinct arms seen: an append-only matrix that beliefs share safely."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.gaussian import clipped_variance

TILE = 8192
"""How many arms are handled at a time, so that temporary arrays stay small at any n."""

_BLOCK_BYTES = 32 * 2**20
_FEWEST_ROWS = 64  # storage is only claimed from the system as it is written


class RowSource(Protocol):
    """Where new kernel rows come from."""

    def fill(self, rows: Rows, out: Matrix) -> None:
        """Write the rows of these arms, all n columns, to `out`."""
        ...


@dataclass(eq=False)
class Block:
    """Storage for some rows; `filled` of them are taken, by whichever belief came first."""

    data: Any
    filled: int = 0
    lock: Lock = field(default_factory=Lock)

    def claim(self, begin: int, end: int) -> bool:
        """Take the rows from begin to end, unless another belief has taken them before."""
        with self.lock:
            free = self.filled == begin
            if free:
                self.filled = end
            return free


@dataclass(frozen=True, eq=False)
class KernelRows:
    """The first `length` rows, n columns each, of storage that grows in blocks.

    Appending returns a new view. Successors write behind the rows of their predecessor in the same
    storage; if a sibling has written there already, the last block is copied first. So nobody ever
    sees another belief's rows, and nothing is copied along a single line of descent.
    """

    n_columns: int
    length: int = 0
    blocks: tuple[Block, ...] = ()

    @classmethod
    def from_matrix(cls, rows: Matrix) -> "KernelRows":
        """Store the rows of a matrix."""
        empty = cls(rows.shape[1])
        return empty.append(Ready(rows), np.arange(rows.shape[0]))

    def append(self, source: RowSource, rows: Rows) -> "KernelRows":
        """Return a view with new rows, filled from the source."""
        end = self.length + rows.size
        blocks = list(self.blocks)
        begin = self.length
        while begin < end:
            inside = begin % self._capacity
            count = min(self._capacity - inside, end - begin)
            block = self._writable(blocks, inside, count)
            taken = rows[begin - self.length : begin - self.length + count]
            source.fill(taken, block.data[inside : inside + count])
            begin += count
        return KernelRows(self.n_columns, end, tuple(blocks))

    def combine(self, coefficients: Matrix, columns: slice) -> Matrix:
        """Return coefficients (m, length) times the rows, at a range of columns."""
        total = np.zeros((coefficients.shape[0], len(range(*columns.indices(self.n_columns)))))
        begin = 0
        for data in self._parts():
            end = begin + data.shape[0]
            total += coefficients[:, begin:end] @ data[:, columns]
            begin = end
        return total

    def moved(
        self,
        coefficients: Matrix,
        surprise: Vector,
        mean: Vector,
        variance: Vector,
        prior_variance: Vector,
    ) -> tuple[Vector, Vector]:
        """Return the means and variances after what combinations of the rows say.

        Args:
            coefficients: of the rows in every combination, shape (k, length).
            surprise: the weight of every combination in the means, shape (k,).
            mean: of all n arms.
            variance: likewise.
            prior_variance: likewise, beside which rounding is told from what cannot be.
        """
        mean, variance = mean.copy(), variance.copy()
        for part in tiles(mean.size):
            moves = self.combine(coefficients, part)
            mean[part] += surprise @ moves
            variance[part] -= np.einsum("ij,ij->j", moves, moves)
        return mean, clipped_variance(variance, prior_variance)

    def nothing(self) -> "KernelRows":
        """Return no rows of the same kind."""
        return KernelRows(self.n_columns)

    def entries(self, slots: Rows, columns: Rows) -> Matrix:
        """Return the entries at some rows and columns, shape (len(slots), len(columns))."""
        picked = np.empty((slots.size, columns.size))
        for number, data in enumerate(self._parts()):
            inside = slots - number * self._capacity
            mine = np.flatnonzero((inside >= 0) & (inside < data.shape[0]))
            for place in mine:  # row by row: far fewer cache misses than a two-way gather
                data[inside[place]].take(columns, out=picked[place], mode="clip")
        return picked

    def matrix(self) -> Matrix:
        """Return a copy of all rows."""
        parts = list(self._parts())
        return np.concatenate(parts) if parts else np.empty((0, self.n_columns))

    @property
    def held_bytes(self) -> int:
        """Return what the rows take, without what is only claimed."""
        return 8 * self.length * self.n_columns

    def stored(self) -> dict[str, object]:
        """Return the rows without their spare storage."""
        return {"rows": self.matrix()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the locks of shared storage."""
        return KernelRows.restored, (self.stored(),)

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "KernelRows":
        """Return rows as they were."""
        return cls.from_matrix(parts["rows"])

    @property
    def _capacity(self) -> int:
        rows = max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * self.n_columns))
        return int(min(rows, self.n_columns))

    def _parts(self) -> Iterator[Matrix]:
        for number, block in enumerate(self.blocks):
            yield block.data[: self.length - number * self._capacity]

    def _writable(self, blocks: list[Block], inside: int, count: int) -> Block:
        if inside == 0:
            blocks.append(Block(np.empty((self._capacity, self.n_columns)), count))
        elif not blocks[-1].claim(inside, inside + count):
            fork = Block(np.empty((self._capacity, self.n_columns)), inside + count)
            fork.data[:inside] = blocks[-1].data[:inside]
            blocks[-1] = fork
        return blocks[-1]


@dataclass(frozen=True, eq=False)
class Ready:
    """Rows of a matrix that is there already."""

    matrix: Matrix

    def fill(self, rows: Rows, out: Matrix) -> None:
        """Write some of the rows."""
        out[:] = self.matrix[rows]


@dataclass(frozen=True, eq=False)
class Combination:
    """Rows that are combinations of others: row i is coefficients[i] times the base rows."""

    base: KernelRows
    coefficients: Matrix

    def fill(self, rows: Rows, out: Matrix) -> None:
        """Write some of the combinations, a range of columns at a time."""
        for columns in tiles(self.base.n_columns):
            out[:, columns] = self.base.combine(self.coefficients[rows], columns)


def tiles(size: int) -> Iterator[slice]:
    """Cut a range into slices of at most `TILE`."""
    for begin in range(0, size, TILE):
        yield slice(begin, min(begin + TILE, size))
