r"""Adaptive discretisation of contexts: the tree of ACC-UCB (Nika et al. 2020)."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen, require_positive
from superarm.beliefs.prior import require_own_noise
from superarm.gaussian import Marginals
from superarm.values import changed

MOST_FEATURES = 10
"""A cell has two to this power children at most."""


@dataclass(frozen=True, eq=False, init=False)
class AdaptivePartition:
    r"""Cells of context space that are halved where enough is known.

    A cell of depth h that was played C times with average :math:`\bar y` has the confidence
    :math:`c = s\sqrt{2 \log T / C}` and a diameter of at most :math:`v_1 \rho^h`. Every arm in it
    has the index

    .. math::
        \min\{\bar y + c,\; \bar y_p + c_p + v_1 \rho^{h-1}\} + v_1 \rho^h
        + N \tfrac{v_1}{v_2} v_1 \rho^h, \qquad N = 2^d,

    p its parent cell. A cell is halved across every side, into N, when :math:`c \le v_1 \rho^h`, so
    that diameters shrink by :math:`\rho = 1/2`. The index is the "mean" of the posterior, with no
    deviation: play it
    with `superarm.policies.Greedy`.

    Args:
        low: lower corner of the box that holds all contexts, shape (d,).
        high: its upper corner.
        horizon: T.
        diameter: v_1, how much rewards can differ within the whole box.
        inner: v_2, the radius of a ball that the box is sure to hold, in the same unit; at most
            half of the diameter, which divided by the root of d is the default.
        scale: s, the range of rewards; for Gaussian noise twice its standard deviation.
        noise_std: of one reward; half of the scale if none is given.
    """

    low: Vector
    high: Vector
    horizon: int
    diameter: float
    inner: float
    scale: float
    noise_std: float
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
        inner: float | None = None,
        scale: float = 1.0,
        noise_std: float | None = None,
    ) -> None:
        """Check the box; it is one cell."""
        corner = as_vector("low", np.atleast_1d(low))
        other = as_vector("high", np.atleast_1d(high), corner.size)
        if corner.size == 0 or not (corner < other).all():
            msg = f"low must lie below high in every feature, got {corner} and {other}"
            raise ValueError(msg)
        ball = diameter / 2 / math.sqrt(corner.size) if inner is None else inner
        noise = scale / 2 if noise_std is None else noise_std
        for name, value in (
            ("diameter", diameter), ("inner", ball), ("scale", scale), ("noise_std", noise),
        ):  # fmt: skip
            require_positive(name, value)
        if corner.size > MOST_FEATURES or horizon < 1 or ball > diameter / 2:
            msg = (
                f"there must be at most {MOST_FEATURES} features, a round to play, and inner at "
                f"most half the diameter: {corner.size}, {horizon}, {ball} and {diameter}"
            )
            raise ValueError(msg)
        parts = {
            "low": corner, "high": other, "horizon": horizon, "diameter": float(diameter),
            "inner": float(ball), "scale": float(scale), "noise_std": float(noise),
            "boxes": np.concatenate([corner, other])[None, :],
            "depth": np.zeros(1, dtype=np.intp), "parent": np.zeros(1, dtype=np.intp) - 1,
            "leaf": np.ones(1, dtype=np.intp), "counts": np.zeros(1), "sums": np.zeros(1),
        }  # fmt: skip
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def posterior(self, arms: Arms) -> Marginals:
        """Return the index of every arm as its mean."""
        index = self._indices()[self.cells(arms)]
        return Marginals(index, np.zeros(index.size), np.full(index.size, self.noise_std))

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "AdaptivePartition":
        """Return the partition after one reward per arm; cells that are known are halved.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, shape (k,): refused, since one is given when it is
                made.
        """
        require_own_noise(self, noise_variance)
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
        size = self.diameter * 0.5 ** self.depth.astype(np.float64)
        by_parent = np.where(self.parent >= 0, upper[self.parent] + size[self.parent], np.inf)
        best = np.minimum(upper, by_parent)
        # nothing is known of the whole box: all its arms are alike
        best = np.where(np.isfinite(best), best, 0.0)
        index: Vector = best + size + 2**self.low.size * self.diameter / self.inner * size
        return index

    def _halved(self, cell: int) -> "AdaptivePartition":
        size = self.low.size
        radius = self.diameter * 0.5 ** float(self.depth[cell])
        confidence = self.scale * math.sqrt(2 * math.log(max(self.horizon, 2)) / self.counts[cell])
        if confidence > radius:
            return self
        low, high = self.boxes[cell, :size], self.boxes[cell, size:]
        middle = (low + high) / 2
        upper = np.array(list(itertools.product((False, True), repeat=size)))
        children = np.hstack([np.where(upper, middle, low), np.where(upper, high, middle)])
        count = children.shape[0]
        leaf = self.leaf.copy()
        leaf[cell] = 0
        return changed(
            self,
            boxes=frozen(np.vstack([self.boxes, children])),
            depth=frozen(np.append(self.depth, [self.depth[cell] + 1] * count)),
            parent=frozen(np.append(self.parent, [cell] * count)),
            leaf=frozen(np.append(leaf, [1] * count)),
            counts=frozen(np.append(self.counts, np.zeros(count))),
            sums=frozen(np.append(self.sums, np.zeros(count))),
        )
