"""Stored trips become a belief, and what is known of devices, block by block.

The belief at the end of a block is the new *base*. The trips since then, the *tail*, are compared
with the base, all of them jointly, again whenever there are more. So what is known at any time
follows from what was known at the base and from the trips since, however these came in batches, and
it is the same in every process:

    known  o---------------------- block -----------------------o  known
    base   | trip | trip | trip | ... the tail, compared jointly |  base

Now and then what is known goes into the database, for those who begin later.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.beliefs import DenseGP, EnsembleGP
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import Reader
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import TravelTimes
from superarm.service.database import Database
from superarm.service.learning.blocks import block_of, next_cut
from superarm.service.learning.comparing import Comparer
from superarm.service.learning.conditioning import Conditioner
from superarm.service.learning.gains import gains_of
from superarm.service.learning.snapshots import Learned
from superarm.service.learning.trust import Trust
from superarm.service.trips.device_state import DeviceState, store_state
from superarm.service.trips.history import Blocks, Cursor, History, NewTrips
from superarm.service.trips.reading import ReadTrip
from superarm.service.trips.standings import Standing, set_aside, set_durations_aside

_PIECE = 50_000
"""Trips that an ensemble sums up and learns at one time: no long history lies in memory twice."""
_LARGE = 2_000
"""Arms; on smaller matrices threads wait for each other longer than they work."""
_BETWEEN_STORES_S = 10.0
"""Within a long history; at its end it is stored at once."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far the fold has come.

    Attributes:
        base: what is believed after the last block that is complete.
        now: what is believed after all trips that were read.
        tail: the trips between the two.
        known: what is known of devices, from the trips up to the number `reached`: that of the
            base, or a later one if others know more trips than were read here.
        reached: which number that is.
        trust: what is known of devices now.
        state: what is known of devices, as it was last seen in the database.
        standings: how keys stand.
    """

    base: Learned
    now: Learned
    tail: tuple[ReadTrip, ...] = ()
    known: Trust = field(default_factory=Trust)
    reached: int = 0
    trust: Trust = field(default_factory=Trust)
    state: DeviceState = field(default_factory=DeviceState)
    standings: Mapping[str, Standing] = field(default_factory=dict)

    @property
    def is_stored(self) -> bool:
        """Whether the database knows as much of devices as the base; else it is of no use alone."""
        return self.base.cursor.number <= self.state.reached

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
        self._conditioner = Conditioner(database, self.history, self._reader, self._note)
        self._block = block_of(fleet.n_arms, exact=fleet.n_draws == 0)
        self._closing = 0  # where to end the block before it is full, if anywhere
        self._compared: tuple[Learned, Comparer] | None = None
        self._stored_s = time.monotonic()

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
            progress.reached,
            _PIECE if self._fleet.n_draws else None,
            closing=self._closing > progress.now.cursor.number,
        )
        news = self.history.since(progress.now.cursor, blocks, again=again)
        if news.unreadable:
            self._note(f"{news.unreadable} trips made no sense and were put aside")
        before = self._unlearned(progress) if news.restart else progress
        after = self._adopted(before, news.state, news.standings)
        with threadpool_limits(self._threads(news)):
            now, singly = self._conditioner.after(after.now, news)
        after = replace(after, now=now, tail=after.tail + singly)
        with threadpool_limits(1):
            if news.trips or after.known is not progress.known:
                after = replace(after, trust=self._trust(after))
        if news.restart or now.cursor.number > after.base.cursor.number:
            after = self._with_base(after)
        if not news.more or time.monotonic() - self._stored_s > _BETWEEN_STORES_S:
            after = self.store(after)
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
        return names + self._judge_durations(progress)

    def _judge_durations(self, progress: Progress) -> list[str]:
        """Set durations aside that surprise beyond chance; times are learned without them."""
        standings = progress.standings
        reasons = {
            name: reason
            for name, reason in progress.trust.durations.suspects().items()
            if name in standings and standings[name].durations_aside_at is None
        }
        names = set_durations_aside(self._database, reasons) if reasons else []
        for name in names:
            told = {"key": name, "reason": reasons[name], "kind": "durations set aside"}
            self._tell({"alarm": told})
        return names

    def store(self, progress: Progress) -> Progress:
        """Store what is known of devices after the last block, if it is more than what is stored.

        If another worker has been faster, the next reading finds what it has stored.
        """
        number = progress.base.cursor.number
        if progress.is_stored or progress.reached != number:
            return progress
        self._stored_s = time.monotonic()
        content, epoch = json.dumps(progress.known.stored()), progress.now.cursor.epoch
        stored = store_state(self._database, epoch, number, content)
        return progress if stored is None else replace(progress, state=stored)

    def _threads(self, news: NewTrips[Any]) -> int | None:
        """Return how many threads to learn with: one, unless much is to be done before routes."""
        if self._fleet.n_draws:
            return os.cpu_count()
        much = (news.restart or news.cursor.anew) and self._fleet.n_arms > _LARGE
        return os.cpu_count() if much else 1

    def _cut(self, number: int) -> int:
        """Return where the block after a number ends."""
        cut = next_cut(number, self._block)
        return min(cut, self._closing) if self._closing > number else cut

    def _note(self, text: str) -> None:
        self._tell({"note": text})

    def _unlearned(self, progress: Progress) -> Progress:
        """Return what is believed before the first trip."""
        if progress.base.cursor.epoch < 0 and not progress.now.trips:
            return progress  # this is the first reading
        if progress.now.cursor.epoch >= 0:
            self._note("the history was changed; reading all trips again")
        belief = progress.now.belief
        nothing = self.beginning(belief.unlearned() if isinstance(belief, EnsembleGP) else None)
        return replace(nothing, standings=progress.standings)

    def _trust(self, progress: Progress) -> Trust:
        """Return what is known of devices after all trips that were read."""
        if progress.reached > progress.base.cursor.number:
            return progress.known
        return progress.known.after(*self._comparer(progress.base).compare(progress.tail))

    def _comparer(self, base: Learned) -> Comparer:
        if self._compared is None or self._compared[0] is not base:
            posterior = RoadPosterior.of(self._fleet, base.belief, base.visits, trips=base.trips)
            posterior = replace(posterior, learned_times=base.times.posterior)
            self._compared = base, Comparer(posterior, self._reader, self._secret, self._note)
        return self._compared[1]

    @cached_property
    def _secret(self) -> str:
        return self._database.identity()

    @staticmethod
    def _adopted(
        progress: Progress, state: DeviceState, standings: Mapping[str, Standing]
    ) -> Progress:
        """Return the progress with what is stored of devices, if that is from as many trips."""
        known, reached = progress.known, progress.reached
        news = state.revision != progress.state.revision
        if news and state.reached >= max(reached, progress.base.cursor.number):
            known, reached = Trust.restored(json.loads(state.content)), state.reached
        if standings != progress.standings or known is not progress.known:
            aside = [key for key in known.tracks if key in standings and standings[key].is_aside]
            known = known.without(aside) if aside else known
            late = [key for key, how in standings.items() if how.durations_aside_at is not None]
            known = replace(known, durations=known.durations.without(late))
        return replace(progress, known=known, reached=reached, state=state, standings=standings)

    def _with_base(self, progress: Progress) -> Progress:
        """Return the progress after a block: what is believed now is what comes is compared with.

        Before a block is over that nobody has finished before, keys are set aside that surprise
        beyond chance, and it is read once more without them: no base learns from them.
        """
        begin, end = progress.base.cursor.number, progress.now.cursor.number
        if progress.reached < end:  # this one is the first to come here
            if progress.reached > begin or self.judge(progress):
                return progress.to_be_read_again
            progress = replace(progress, known=progress.trust, reached=end)
        if any(one.sequence > end for one in progress.tail):  # another worker has ended it before
            return progress.to_be_read_again
        return replace(progress, base=progress.now, tail=())
