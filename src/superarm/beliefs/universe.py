"""The finite universe of a belief: which position an arm id has."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Rows


@dataclass(frozen=True, eq=False)
class Universe:
    """All arms a belief knows, by distinct ids; contexts, where given, belong to the id."""

    arms: Arms

    def __post_init__(self) -> None:
        """Refuse an empty universe and repeated ids."""
        if len(self.arms) == 0:
            msg = "the universe holds no arms"
            raise ValueError(msg)
        if not self._dense and np.unique(self.arms.ids).size != len(self.arms):
            values, counts = np.unique(self.arms.ids, return_counts=True)
            msg = (
                f"arm id {int(values[counts > 1][0])} occurs twice in the universe; give every "
                "arm its own id, or use ExactGP for arms that are seen with several contexts"
            )
            raise ValueError(msg)

    def __len__(self) -> int:
        """Return the number of arms."""
        return len(self.arms)

    def positions(self, arms: Arms) -> Rows:
        """Return where these arms stand in the universe, or say which one does not."""
        if arms is self.arms:
            return np.arange(len(self))
        where = arms.ids if self._dense else self._search(arms.ids)
        known = (where >= 0) & (where < len(self))
        if not self._dense:
            known &= self.arms.ids[where * known] == arms.ids
        if not known.all():
            msg = (
                f"arm id {int(arms.ids[~known][0])} is unknown; this belief was built for "
                f"{len(self)} arms with ids from {int(self.arms.ids.min())} "
                f"to {int(self.arms.ids.max())}"
            )
            raise ValueError(msg)
        self._require_same_contexts(arms, where)
        return where

    @cached_property
    def _dense(self) -> bool:
        return bool(np.array_equal(self.arms.ids, np.arange(len(self.arms))))

    @cached_property
    def _order(self) -> Rows:
        return np.argsort(self.arms.ids, kind="stable")

    def _search(self, ids: Rows) -> Rows:
        place = np.searchsorted(self.arms.ids, ids, sorter=self._order)
        return self._order[np.minimum(place, len(self) - 1)]

    def _require_same_contexts(self, arms: Arms, where: Rows) -> None:
        if arms.n_features == 0 or self.arms.n_features == 0:
            return
        if not np.array_equal(self.arms.contexts[where], arms.contexts):
            msg = (
                "these arms come with other contexts than in the universe of this belief; "
                "use ExactGP where contexts change from round to round"
            )
            raise ValueError(msg)
