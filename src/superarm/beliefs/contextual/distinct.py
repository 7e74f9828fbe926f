"""Which arms have been seen before, by id *and* context, in time that depends on the new ones."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Mask, Rows
from superarm.beliefs.prior import require_same_features

Keys: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class DistinctArms:
    """Distinct pairs of id and context in order of first sight; a value.

    Attributes:
        arms: the pairs, none before the first.
        keys: a hash of every pair, rising.
        slots: which arm each key belongs to.
    """

    arms: Arms | None = None
    keys: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    slots: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def __len__(self) -> int:
        """Return how many there are."""
        return int(self.slots.size)

    def located(self, arms: Arms) -> "tuple[DistinctArms, Rows]":
        """Return all distinct arms, new ones last, and the slot of every arm given.

        Two pairs of one hash are told apart by looking; the second then is new every time it is
        seen, which costs memory once in 2^64 and changes no posterior.
        """
        require_same_features(self.arms, arms)
        keys = _keys(arms)
        found = np.full(len(arms), -1, dtype=np.intp)
        if self.arms is not None:
            place = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
            slots = self.slots[place]
            same = (self.keys[place] == keys) & _equal(self.arms.take(slots), arms)
            found[same] = slots[same]
        new = np.flatnonzero(found < 0)
        if new.size == 0:
            return self, found
        _, first, which = np.unique(keys[new], return_index=True, return_inverse=True)
        first = new[first]
        alone = ~_equal(arms.take(first[which]), arms.take(new))
        leaders = np.unique(np.concatenate([first, new[alone]]))  # in order of first sight
        number = np.full(len(arms), -1, dtype=np.intp)
        number[leaders] = len(self) + np.arange(leaders.size)
        found[new] = np.where(alone, number[new], number[first[which]])
        fresh = arms.take(leaders)
        at = np.searchsorted(self.keys, keys[leaders])
        order = np.lexsort((keys[leaders], at))
        return DistinctArms(
            fresh if self.arms is None else self.arms.joined(fresh),
            np.insert(self.keys, at[order], keys[leaders][order]),
            np.insert(self.slots, at[order], number[leaders][order]),
        ), found


def _keys(arms: Arms) -> Keys:
    """Return a hash of every id and context; zero and minus zero are one context."""
    mixed = _scrambled(arms.ids.astype(np.int64).view(np.uint64))
    columns = np.ascontiguousarray(arms.contexts + 0.0).view(np.uint64)
    for column in columns.T:
        mixed = _scrambled(mixed * _ODD + column)
    return mixed


def _scrambled(keys: Keys) -> Keys:
    keys = (keys ^ (keys >> np.uint64(30))) * _MIX[0]
    keys = (keys ^ (keys >> np.uint64(27))) * _MIX[1]
    return keys ^ (keys >> np.uint64(31))


def _equal(left: Arms, right: Arms) -> Mask:
    same: Mask = (left.ids == right.ids) & (left.contexts == right.contexts).all(axis=1)
    return same
