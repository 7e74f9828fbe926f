r"""Adaptive discretisation of contexts: the tree of ACC-UCB (Nika et al. 2020)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen, require_positive
from superarm.gaussian import Marginals
from superarm.values import changed

CHILDREN = 2


@dataclass(frozen=True, eq=False, init=False)
class AdaptivePartition:
    r"""Cells of context space that are halved where enough is known.

    A cell of depth h that was played C times with average :math:`\bar y` has the confidence
    :math:`c = s\sqrt{2 \log T / C}` and a diameter of at most :math:`v_1 \rho^h`. Every arm in it
    has the index

    .. math::
        \min\{\bar y + c,\; \bar y_p + c_p + v_1 \rho^{h-1}\} + v_1 \rho^h
        + 2 \tfrac{v_1}{v_2} v_1 \rho^h,

    p its parent cell. A cell is halved, across its longest side, when
    :math:`c \le v_1 \rho^h`. The index is the "mean" of the posterior, with no deviation: play it
    with `superarm.policies.Greedy`.

    Args:
        low: lower corner of the box that holds all contexts, shape (d,).
        high: its upper corner.
        horizon: T.
        diameter: v_1, how much rewards can differ within the whole box.
        inner: v_2, the radius that a cell is sure to hold, in the same unit.
        shrink: rho, by which factor diameters shrink with depth.
        scale: s, the range of rewards.
    """

    low: Vector
    high: Vector
    horizon: int
    diameter: float
    inner: float
    shrink: float
    scale: float
    boxes: Matrix
    depth: Rows
    parent: Rows
    leaf: Rows
    counts: Vector
    sums: Vector

    def __init__(  # noqa: PLR0913 - the algorithm has these parameters
        self,
        low: ArrayLike,
        high: ArrayLike,
        horizon: int,
        *,
        diameter: float = 1.0,
        inner: float = 1.0,
        shrink: float = 0.5,
        scale: float = 1.0,
    ) -> None:
        """Check the box; it is one cell."""
        corner = as_vector("low", np.atleast_1d(low))
        other = as_vector("high", np.atleast_1d(high), corner.size)
        if corner.size == 0 or not (corner < other).all():
            msg = f"low must lie below high in every feature, got {corner} and {other}"
            raise ValueError(msg)
        for name, value in (("diameter", diameter), ("inner", inner), ("scale", scale)):
            require_positive(name, value)
        if not 0 < shrink < 1 or horizon < 1:
            msg = f"shrink must lie in (0, 1) and horizon be at least 1: {shrink}, {horizon}"
            raise ValueError(msg)
        parts = {
            "low": corner, "high": other, "horizon": horizon, "diameter": float(diameter),
            "inner": float(inner), "shrink": float(shrink), "scale": float(scale),
            "boxes": np.concatenate([corner, other])[None, :],
            "depth": np.zeros(1, dtype=np.intp), "parent": np.zeros(1, dtype=np.intp) - 1,
            "leaf": np.ones(1, dtype=np.intp), "counts": np.zeros(1), "sums": np.zeros(1),
        }  # fmt: skip
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def posterior(self, arms: Arms) -> Marginals:
        """Return the index of every arm as its mean."""
        index = self._indices()[self.cells(arms)]
        return Marginals(index, np.zeros(index.size), np.full(index.size, self.scale))

    def condition(self, arms: Arms, rewards: Vector) -> "AdaptivePartition":
        """Return the partition after one reward per arm; cells that are known are halved."""
        seen = as_vector("rewards", rewards, len(arms))
        where = self.cells(arms)
        counts, sums = self.counts.copy(), self.sums.copy()
        np.add.at(counts, where, 1.0)
        np.add.at(sums, where, seen)
        grown = changed(self, counts=frozen(counts), sums=frozen(sums))
        for cell in np.unique(where):
            grown = grown._halved(int(cell))  # noqa: SLF001 - its own kind
        return grown

    def cells(self, arms: Arms) -> Rows:
        """Return the leaf that every arm lies in."""
        if arms.n_features != self.low.size:
            msg = f"these arms have {arms.n_features} features, the box has {self.low.size}"
            raise ValueError(msg)
        outside = ((arms.contexts < self.low) | (arms.contexts > self.high)).any(axis=1)
        if outside.any():
            msg = f"context {arms.contexts[outside][0]} lies outside the box"
            raise ValueError(msg)
        found = np.zeros(len(arms), dtype=np.intp)
        size = self.low.size
        for cell in np.flatnonzero(self.leaf):
            low, high = self.boxes[cell, :size], self.boxes[cell, size:]
            last = high >= self.high  # the upper border belongs to the outermost cells
            inside = (arms.contexts >= low) & ((arms.contexts < high) | last)
            found[inside.all(axis=1)] = cell
        return found

    def _indices(self) -> Vector:
        counts = np.maximum(self.counts, 1e-300)
        confidence = self.scale * np.sqrt(2 * math.log(max(self.horizon, 2)) / counts)
        upper = np.where(self.counts > 0, self.sums / counts + confidence, np.inf)
        size = self.diameter * self.shrink ** self.depth.astype(np.float64)
        by_parent = np.where(self.parent >= 0, upper[self.parent] + size[self.parent], np.inf)
        best = np.minimum(upper, by_parent)
        # nothing is known of the whole box: all its arms are alike
        best = np.where(np.isfinite(best), best, 0.0)
        return best + size + CHILDREN * self.diameter / self.inner * size

    def _halved(self, cell: int) -> "AdaptivePartition":
        size = self.low.size
        radius = self.diameter * self.shrink ** float(self.depth[cell])
        confidence = self.scale * math.sqrt(2 * math.log(max(self.horizon, 2)) / self.counts[cell])
        if confidence > radius:
            return self
        box = self.boxes[cell]
        side = int(np.argmax((box[size:] - box[:size]) / (self.high - self.low)))
        middle = (box[side] + box[size + side]) / 2
        lower, upper = box.copy(), box.copy()
        lower[size + side], upper[side] = middle, middle
        leaf = self.leaf.copy()
        leaf[cell] = 0
        return changed(
            self,
            boxes=frozen(np.vstack([self.boxes, lower, upper])),
            depth=frozen(np.append(self.depth, [self.depth[cell] + 1] * CHILDREN)),
            parent=frozen(np.append(self.parent, [cell] * CHILDREN)),
            leaf=frozen(np.append(leaf, [1] * CHILDREN)),
            counts=frozen(np.append(self.counts, [0.0] * CHILDREN)),
            sums=frozen(np.append(self.sums, [0.0] * CHILDREN)),
        )
