"""The nouns of Algorithm 1: available arms A_t, a round (t, A_t, S_t), a super arm a_t, a step."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from superarm.arrays import (
    Matrix,
    Rows,
    Vector,
    as_matrix,
    as_positions,
    as_rows,
    as_vector,
    frozen,
)
from superarm.values import assembled

SuperArm: TypeAlias = Rows
"""Positions in the round's arms, in playing order."""

S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, eq=False, init=False)
class Arms:
    """Base arms: row i is element ``ids[i]`` of the universe, seen with ``contexts[i]``.

    Args:
        ids: shape (n,), integers; an id may occur twice with different contexts.
        contexts: shape (n, d), finite; may be omitted, then d = 0.

    >>> arms = Arms(ids=[3, 7], contexts=[[0.5], [1.5]])
    >>> len(arms), arms.take([1]).ids.tolist()
    (2, [7])
    """

    ids: Rows
    contexts: Matrix

    def __init__(self, ids: ArrayLike, contexts: ArrayLike | None = None) -> None:
        """Copy and check the arrays."""
        rows = as_rows("ids", ids)
        features = np.empty((rows.size, 0)) if contexts is None else as_matrix("contexts", contexts)
        if features.shape[0] != rows.size:
            msg = (
                f"contexts must have one row per arm: {rows.size} ids, {features.shape[0]} contexts"
            )
            raise ValueError(msg)
        object.__setattr__(self, "ids", rows)
        object.__setattr__(self, "contexts", frozen(features))

    def __len__(self) -> int:
        """Return the number of arms n."""
        return int(self.ids.size)

    @property
    def n_features(self) -> int:
        """The number of context features d."""
        return int(self.contexts.shape[1])

    def take(self, rows: ArrayLike) -> "Arms":
        """Return the arms at these positions, in this order, or where a mask is true."""
        return self._at(as_positions("rows", rows, len(self)))

    def _at(self, positions: Rows) -> "Arms":
        """Return the arms at positions that were checked."""
        return assembled(
            Arms, ids=frozen(self.ids[positions]), contexts=frozen(self.contexts[positions])
        )

    def __repr__(self) -> str:
        """Return one line."""
        return f"Arms({len(self):,} arms, {self.n_features} features)"

    def joined(self, other: "Arms") -> "Arms":
        """Return these arms followed by the others."""
        return assembled(
            Arms,
            ids=frozen(np.concatenate([self.ids, other.ids])),
            contexts=frozen(np.concatenate([self.contexts, other.contexts])),
        )


@dataclass(frozen=True, eq=False)
class Round(Generic[S_co]):
    """What round t offers: the arms A_t and the feasible super arms S_t."""

    t: int
    arms: Arms
    feasible: S_co

    def __post_init__(self) -> None:
        """Refuse a round that cannot be played."""
        if self.t < 1:
            msg = f"rounds are numbered from 1, got t = {self.t}"
            raise ValueError(msg)
        if len(self.arms) == 0:
            msg = f"round {self.t} offers no arms; skip it or wait for one with arms"
            raise ValueError(msg)

    def __repr__(self) -> str:
        """Return one line."""
        return f"Round(t={self.t}, {len(self.arms):,} arms, {type(self.feasible).__name__})"

    def checked_super_arm(self, super_arm: ArrayLike) -> SuperArm:
        """Return the positions as an array, or say why they are no set of this round's arms."""
        rows = as_rows("super_arm", super_arm)
        outside = (rows < 0) | (rows >= len(self.arms))
        if outside.any():
            msg = (
                f"super_arm holds position {int(rows[outside][0])}, but round {self.t} "
                f"offers positions 0 to {len(self.arms) - 1}; pass positions, not arm ids"
            )
            raise ValueError(msg)
        if np.unique(rows).size != rows.size:
            values, counts = np.unique(rows, return_counts=True)
            msg = (
                f"super_arm repeats position {int(values[counts > 1][0])}; "
                "an arm is played at most once per round"
            )
            raise ValueError(msg)
        return rows

    def played(self, super_arm: ArrayLike) -> Arms:
        """Return the arms at these positions, which are checked here and nowhere else."""
        return self.arms._at(self.checked_super_arm(super_arm))  # noqa: SLF001 - its own kind

    def checked_rewards(self, super_arm: SuperArm, rewards: ArrayLike) -> Vector:
        """Return the rewards as an array, or say why they do not fit the super arm."""
        return as_vector("rewards", rewards, super_arm.size)


@dataclass(frozen=True, eq=False)
class Step(Generic[S_co]):
    """One played round: what was offered, the indices, the choice and what it returned."""

    round: Round[S_co]
    indices: Vector
    super_arm: SuperArm
    rewards: Vector

    @property
    def t(self) -> int:
        """The number of the round, from 1."""
        return self.round.t

    def __repr__(self) -> str:
        """Return one line."""
        total = float(np.sum(self.rewards))
        return f"Step(t={self.t}, {self.super_arm.size} arms played, rewards {total:.4g} in all)"

    @property
    def ids(self) -> Rows:
        """The ids of the arms played, in playing order."""
        return self.round.arms.ids[self.super_arm]
