"""Two kinds of arms in one universe that say nothing of each other."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_count
from superarm.kernels.base import Kernel


@dataclass(frozen=True)
class Beside(Kernel):
    """One kernel for arms with ids below a number, another for the rest; independent.

    Arms of the second kind are shown to their kernel with the ids they have.

    >>> from superarm.kernels import Constant, PerArm
    >>> kernel = Beside(Constant(2.0), 2, PerArm(0.5))
    >>> arms = Arms([0, 1, 2, 3])
    >>> kernel.gram(arms, arms)[1].tolist(), kernel.gram(arms, arms)[2].tolist()
    ([2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0])

    Args:
        first: of arms with ids below `n_first`.
        n_first: how many ids the first kernel has.
        second: of all other arms.
    """

    first: Kernel
    n_first: int
    second: Kernel

    def __post_init__(self) -> None:
        """Check the number."""
        as_count("n_first", self.n_first)

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the covariances of every left with every right arm."""
        total = np.zeros((len(left), len(right)))
        pairs = zip(self.parts(left), self.parts(right), strict=True)
        for (kernel, rows), (_, columns) in pairs:
            if rows.size and columns.size:
                block = kernel.gram(left.take(rows), right.take(columns))
                total[np.ix_(rows, columns)] = block
        return total

    def diagonal(self, arms: Arms) -> Vector:
        """Return the prior variances."""
        total = np.empty(len(arms))
        for kernel, rows in self.parts(arms):
            if rows.size:
                total[rows] = kernel.diagonal(arms.take(rows))
        return total

    def parts(self, arms: Arms) -> tuple[tuple[Kernel, Rows], tuple[Kernel, Rows]]:
        """Return both kernels with the positions of their arms."""
        mine = arms.ids < self.n_first
        return (self.first, np.flatnonzero(mine)), (self.second, np.flatnonzero(~mine))

    def parameters(self) -> dict[str, float]:
        """Return those of both parts."""
        found = {f"first.{name}": value for name, value in self.first.parameters().items()}
        return found | {f"second.{n}": value for n, value in self.second.parameters().items()}

    def replaced(self, values: Mapping[str, float]) -> "Beside":
        """Return both parts replaced."""

        def mine(part: str) -> dict[str, float]:
            return {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{part}.")}

        return Beside(
            self.first.replaced(mine("first")), self.n_first, self.second.replaced(mine("second"))
        )

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return those of both parts, each of its own arms."""
        return np.concatenate(
            [
                kernel.slopes(arms.take(rows), np.ascontiguousarray(weights[np.ix_(rows, rows)]))
                for kernel, rows in self.parts(arms)
            ]
        )

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Return independent draws of both parts."""
        total = np.empty(len(arms))
        for kernel, rows in self.parts(arms):
            if rows.size:
                total[rows] = kernel.draw_many(arms.take(rows), rng)
        return total
