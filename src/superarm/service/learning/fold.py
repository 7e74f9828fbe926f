"""Stored trips become a belief, and what is known of devices, block by block.

After each block the belief is the new *base*, and what is known of devices goes into the database.
The trips since then, the *tail*, are compared with the base, all of them jointly, again whenever
there are more. So what is known at any time follows from the stored state and from the trips that
are stored since, however these came in batches, and it is the same in every process:

    stored state  o---------------- block ---------------o  next stored state
                  base        tail, compared jointly       next base
                  |  trip | trip | trip | ...              |
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.beliefs import DenseGP, EnsembleGP, MatrixMemory
from superarm.errors import SuperarmError
from superarm.navigation.times import TravelTimes
from superarm.service.database import Database
from superarm.service.learning.blocks import ENSEMBLE_BLOCK, EXACT_BLOCK, next_cut
from superarm.service.learning.comparing import Comparer
from superarm.service.learning.snapshots import Learned
from superarm.service.learning.trust import Trust, informed
from superarm.service.model.fleet import GAIN_VARIANCE, Fleet
from superarm.service.model.posterior import RoadPosterior
from superarm.service.model.trip import Reader
from superarm.service.trips.device_state import DeviceState, read_state, store_state
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.history import Blocks, Cursor, History, NewTrips
from superarm.service.trips.quarantine import move_aside
from superarm.service.trips.reading import ReadTrip, bisected, sound_evidence, sound_times
from superarm.service.trips.standings import Standing, set_aside

_PIECE = 50_000
"""Trips that an ensemble sums up and learns at one time: no long history lies in memory twice."""
_UNLEARNABLE = (ArithmeticError, ValueError, np.linalg.LinAlgError, SuperarmError)
_MATRICES = 4
"""The base, what is believed now, what will be believed next, and a base that is being saved."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far the fold has come.

    Attributes:
        base: what is believed after the last block that is complete.
        now: what is believed after all trips that were read.
        tail: the trips between the two.
        state: what is known of devices after the base, as it is stored.
        known: the same, without keys that are set aside.
        trust: what is known of devices now.
        standings: how keys stand.
    """

    base: Learned
    now: Learned
    tail: tuple[ReadTrip, ...] = ()
    state: DeviceState = field(default_factory=DeviceState)
    known: Trust = field(default_factory=Trust)
    trust: Trust = field(default_factory=Trust)
    standings: Mapping[str, Standing] = field(default_factory=dict)

    @property
    def to_be_read_again(self) -> "Progress":
        """The same, but that the next reading begins with the first trip."""
        return replace(self, now=replace(self.now, cursor=Cursor()))


class Fold:
    """Reads trips and folds them.

    Args:
        fleet: whose roads.
        database: where trips are.
        tell: called with notes and alarms.
    """

    def __init__(
        self, fleet: Fleet, database: Database, tell: Callable[[dict[str, object]], None]
    ) -> None:
        """Remember these; nothing is read yet."""
        self._fleet = fleet
        self._database = database
        self._tell = tell
        self._reader: Reader[Any] = Reader.of(fleet)
        self.history: History[Any] = History(database, self._reader)
        self._memory = MatrixMemory(_MATRICES)
        self._block = ENSEMBLE_BLOCK if fleet.n_draws else EXACT_BLOCK
        self._closing = 0  # where to end the block before it is full, if anywhere
        self._compared: tuple[Learned, Comparer] | None = None

    def beginning(self, belief: DenseGP | EnsembleGP | None = None) -> Progress:
        """Return what is known before the first trip.

        Args:
            belief: of all arms then, if it was made before.
        """
        times = TravelTimes.before(self._fleet.time_model)
        visits = np.zeros(self._fleet.network.n_edges)
        nothing = Learned(belief or self._fleet.prior(), visits, 0, Cursor(), times)
        return Progress(nothing, nothing)

    def further(self, progress: Progress, *, again: bool = True) -> tuple[Progress, NewTrips[Any]]:
        """Return what is known after the next part of the history, and that part.

        Args:
            progress: what is known so far.
            again: whether to begin again if the history was changed.
        """
        blocks = Blocks(
            progress.state,
            self._cut,
            _PIECE if self._fleet.n_draws else None,
            closing=self._closing > progress.now.cursor.number,
        )
        news = self.history.since(progress.now.cursor, blocks, again=again)
        if news.unreadable:
            self._note(f"{news.unreadable} trips made no sense and were put aside")
        after = self._adopted(progress, news.state, news.standings)
        if news.restart:
            after = self._unlearned(after)
        alone = news.restart or news.cursor.anew or self._fleet.n_draws > 0
        with threadpool_limits(os.cpu_count() if alone else 1):
            after = self._learned(after, news)
            if news.trips or news.restart or after.known is not progress.known:
                after = replace(after, trust=self._trust(after))
            if news.restart or after.now.cursor.number > after.base.cursor.number:
                after = self._with_base(after)
        return after, news

    def end_block(self, progress: Progress) -> None:
        """Let the next reading end the block that is open."""
        self._closing = max(one.sequence for one in progress.tail)

    def judge(self, progress: Progress) -> list[str]:
        """Set keys aside that surprise beyond chance; all beliefs begin again without them."""
        gains = gains_of(self._fleet, progress.now.belief, progress.standings)
        suspects = progress.trust.suspects(gains)
        reasons = {
            name: reason
            for name, reason in suspects.items()
            if name in progress.standings and not progress.standings[name].is_aside
        }
        names = set_aside(self._database, reasons) if reasons else []
        for name in names:
            self._tell({"alarm": {"key": name, "reason": reasons[name]}})
        return names

    def _cut(self, number: int) -> int:
        """Return where the block after a number ends."""
        cut = next_cut(number, self._block)
        return min(cut, self._closing) if self._closing > number else cut

    def _note(self, text: str) -> None:
        self._tell({"note": text})

    # ---- what is believed

    def _unlearned(self, progress: Progress) -> Progress:
        """Return what is believed before the first trip, with what is known of devices."""
        if progress.base.cursor.epoch < 0 and not progress.now.trips:
            return progress  # this is the first reading
        if progress.now.cursor.epoch >= 0:
            self._note("the history was changed; reading all trips again")
        belief = progress.now.belief
        nothing = self.beginning(belief.unlearned() if isinstance(belief, EnsembleGP) else None)
        return replace(progress, base=nothing.base, now=nothing.now, tail=())

    def _learned(self, progress: Progress, news: NewTrips[Any]) -> Progress:
        """Return what is believed after new trips; what cannot be learned is put aside."""
        before = progress.now
        try:
            now = Learned(
                self._conditioned(before.belief, news.evidence),
                before.visits + news.visits,
                before.trips + news.trips,
                news.cursor,
                before.times.after(news.times),
            )
            return replace(progress, now=now, tail=progress.tail + news.singly)
        except _UNLEARNABLE as error:
            self._note(f"a batch of {news.trips} trips cannot be learned: {error}")
            now, bad = self._one_by_one(replace(before, cursor=news.cursor), news)
            good = tuple(one for one in news.singly if one.sequence not in bad)
            return replace(progress, now=now, tail=progress.tail + good)

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
        for some in self.history.again(news):
            if isinstance(some, FoldedTrips):
                try:
                    belief = self._conditioned(belief, some.evidence)
                except _UNLEARNABLE as error:
                    self._note(f"{some.trips} folded trips cannot be learned: {error}")
                else:
                    visits, trips = visits + some.visits, trips + some.trips
                    times = times.after(some.times)
            else:
                bad += bisected(some, use)
        if bad:
            reason = "the learner cannot condition on this trip"
            count = move_aside(self._database, [one.sequence for one in bad], reason)
            self._note(f"{count} trips could not be learned and were put aside")
        now = replace(learned, belief=belief, visits=visits, trips=trips, times=times)
        return now, {one.sequence for one in bad}

    # ---- what is known of devices

    def _trust(self, progress: Progress) -> Trust:
        """Return what is known of devices after all trips that were read."""
        if progress.state.reached > progress.base.cursor.number:  # others know more trips than this
            return progress.known
        return progress.known.after(self._comparer(progress.base).compare(progress.tail))

    def _comparer(self, base: Learned) -> Comparer:
        if self._compared is None or self._compared[0] is not base:
            posterior = RoadPosterior.of(self._fleet, base.belief, base.visits, trips=base.trips)
            self._compared = base, Comparer(posterior, self._reader, self._secret, self._note)
        return self._compared[1]

    @cached_property
    def _secret(self) -> str:
        return self._database.identity()

    @staticmethod
    def _adopted(
        progress: Progress, state: DeviceState, standings: Mapping[str, Standing]
    ) -> Progress:
        """Return the progress with what is stored about devices and how keys stand."""
        if state.revision == progress.state.revision and standings == progress.standings:
            return progress
        known = Trust.restored(json.loads(state.content))
        aside = [name for name in known.tracks if name in standings and standings[name].is_aside]
        known = known.without(aside) if aside else known
        return replace(progress, state=state, known=known, standings=standings)

    def _with_base(self, progress: Progress) -> Progress:
        """Return the progress after a block: what is believed now is what comes is compared with.

        A block that nobody has finished before is finished here: first keys are set aside that
        surprise beyond chance, and it is read once more without them; then what is known of devices
        is stored, unless another worker has been faster.
        """
        begin, end = progress.base.cursor.number, progress.now.cursor.number
        while progress.state.reached < end:
            if progress.state.reached > begin or self.judge(progress):
                return progress.to_be_read_again
            content = json.dumps(progress.trust.stored())
            stored = store_state(self._database, progress.state, end, content)
            if stored is None:
                with self._database.reading() as connection:
                    stored = read_state(connection, progress.state)
            progress = self._adopted(progress, stored, progress.standings)
            progress = replace(progress, trust=self._trust(progress))
        if any(one.sequence > end for one in progress.tail):  # another worker has ended it before
            return progress.to_be_read_again
        return replace(progress, base=progress.now, tail=())


def gains_of(
    fleet: Fleet, belief: DenseGP | EnsembleGP, standings: Mapping[str, Standing]
) -> dict[str, float]:
    """Return the gains of keys over their own deviations, of those that are not vouched for."""
    n_edges = fleet.network.n_edges
    gains = {}
    for name, how in standings.items():
        if how.slot is None or how.is_aside or how.vouched_at is not None:
            continue
        place = n_edges + how.slot
        z = informed(float(belief.mean[place]), float(belief.variance[place]), GAIN_VARIANCE)
        if z is not None:
            gains[name] = z
    return gains
