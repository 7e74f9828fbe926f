"""Enumerate every super arm: the yardstick of all oracles, for small problems."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from superarm.arms import SuperArm
from superarm.arrays import Vector
from superarm.errors import CapacityError, InfeasibleError
from superarm.oracles.checks import fitting
from superarm.protocols import FeasibleSet


class Enumerable(FeasibleSet, Protocol):
    """A feasible set that can list its super arms."""

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        ...

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every super arm."""
        ...


@dataclass(frozen=True)
class Exhaustive:
    """Try every super arm; refuses after `limit` of them."""

    limit: int = 1_000_000

    def select(self, feasible: Enumerable, indices: Vector) -> SuperArm:
        """Return the first super arm of greatest summed index."""
        indices = fitting(self, feasible, indices)
        best: SuperArm | None = None
        value = -np.inf
        for number, super_arm in enumerate(feasible.super_arms()):
            if number >= self.limit:
                msg = (
                    f"{type(feasible).__name__} holds more than {self.limit} super arms; "
                    "use an oracle made for it, or raise limit"
                )
                raise CapacityError(msg)
            total = float(indices[super_arm].sum())
            if total > value:
                best, value = super_arm, total
        if best is None:
            msg = f"{type(feasible).__name__} holds no super arm"
            raise InfeasibleError(msg)
        return best
