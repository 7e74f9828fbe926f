"""New trips are learned; one that cannot be is found by halving, and keeps no other from it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from superarm.beliefs import DenseGP, EnsembleGP, MatrixMemory
from superarm.errors import SuperarmError
from superarm.roads.models.likelihood import Reader
from superarm.service.database import Database
from superarm.service.learning.snapshots import Learned
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.history import History, NewTrips
from superarm.service.trips.quarantine import move_aside
from superarm.service.trips.reading import ReadTrip, bisected, sound_evidence, sound_times

_UNLEARNABLE = (ArithmeticError, ValueError, np.linalg.LinAlgError, SuperarmError)
_MATRICES = 4
"""The base, what is believed now, what will be believed next, and a base that is being saved."""


class Conditioner:
    """Conditions beliefs on trips.

    Args:
        database: where trips are put aside that cannot be learned.
        history: from where they are read once more then.
        reader: knows what they say.
        say: called with what went wrong.
    """

    def __init__(
        self,
        database: Database,
        history: History[Any],
        reader: Reader[Any],
        say: Callable[[str], None],
    ) -> None:
        """Remember these."""
        self._database = database
        self._history = history
        self._reader = reader
        self._say = say
        self._memory = MatrixMemory(_MATRICES)

    def after(self, before: Learned, news: NewTrips[Any]) -> tuple[Learned, tuple[ReadTrip, ...]]:
        """Return what is believed after new trips, and those that were read one by one."""
        try:
            now = Learned(
                self._conditioned(before.belief, news.evidence),
                before.visits + news.visits,
                before.trips + news.trips,
                news.cursor,
                before.times.after(news.times),
            )
        except _UNLEARNABLE as error:
            self._say(f"a batch of {news.trips} trips cannot be learned: {error}")
            now, bad = self._one_by_one(replace(before, cursor=news.cursor), news)
            return now, tuple(one for one in news.singly if one.sequence not in bad)
        return now, news.singly

    def _conditioned(self, belief: DenseGP | EnsembleGP, evidence: Any) -> DenseGP | EnsembleGP:  # noqa: ANN401 - as the reader sums up
        if isinstance(belief, DenseGP):
            after: DenseGP | EnsembleGP = belief.condition_evidence(evidence, self._memory)
        else:
            after = belief.condition_evidence(evidence)
        if not np.isfinite(after.mean).all():
            msg = "the posterior means are not finite"
            raise ArithmeticError(msg)
        return after

    def _one_by_one(self, learned: Learned, news: NewTrips[Any]) -> tuple[Learned, set[int]]:
        """Return what is believed after the trips that can be learned, and which cannot."""
        belief, visits, trips = learned.belief, learned.visits, learned.trips
        times = learned.times

        def use(some: Sequence[ReadTrip]) -> None:
            nonlocal belief, visits, trips, times
            belief = self._conditioned(belief, sound_evidence(self._reader, some))
            times = times.after(sound_times(self._reader, some))
            visits = visits + self._reader.visits(one.trip for one in some)
            trips += len(some)

        bad: list[ReadTrip] = []
        for some in self._history.again(news):
            if isinstance(some, FoldedTrips):
                try:
                    belief = self._conditioned(belief, some.evidence)
                except _UNLEARNABLE as error:
                    self._say(f"{some.trips} folded trips cannot be learned: {error}")
                else:
                    visits, trips = visits + some.visits, trips + some.trips
                    times = times.after(some.times)
            else:
                bad += bisected(some, use)
        if bad:
            reason = "the learner cannot condition on this trip"
            count = move_aside(self._database, [one.sequence for one in bad], reason)
            self._say(f"{count} trips could not be learned and were put aside")
        now = replace(learned, belief=belief, visits=visits, trips=trips, times=times)
        return now, {one.sequence for one in bad}
