"""The learner of an ensemble reads a long history in pieces, and shows what routes may follow."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_module
from services import small_city, trip_between

require_module("fastapi", "service")

from superarm.service.database import Database, bump_epoch  # noqa: E402
from superarm.service.learning import learner as learning  # noqa: E402
from superarm.service.learning.learner import Learner, LearnerSettings  # noqa: E402
from superarm.service.learning.shared import SLOTS, SharedPosteriors  # noqa: E402
from superarm.service.learning.snapshots import Learned, Snapshots  # noqa: E402
from superarm.service.learning.trust import Trust  # noqa: E402
from superarm.service.model import fleet as fleets  # noqa: E402
from superarm.service.model.fleet import Fleet  # noqa: E402
from superarm.service.model.posterior import RoadPosterior  # noqa: E402
from superarm.service.model.trip import Reader  # noqa: E402
from superarm.service.routes.tokens import RouteTokens  # noqa: E402
from superarm.service.trips.history import Cursor, History  # noqa: E402
from superarm.service.trips.intake import Intake  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402
from superarm.service.trips.standings import Standing  # noqa: E402
from superarm.service.trips.store import TripStore  # noqa: E402

CITY = small_city()
TRIPS, PIECE = 11, 4


class World:
    """A database with some trips, and learners whose messages are kept."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fleets, "MOST_ARMS", 100)  # an ensemble, however small the city
        monkeypatch.setattr(learning, "_PIECE", PIECE)
        monkeypatch.setattr(learning, "_tell", self._told)
        self.folder, self.url = folder, str(folder / "trips.db")
        CITY.save(folder / "city.npz")
        self.fleet = Fleet(CITY)
        self.database = Database(self.url)
        self.database.migrate()
        self.database.claim(self.fleet.fingerprint(), demo=False)
        self.store = TripStore(self.database, CITY, self.fleet.n_slots)
        self.reader: Reader[Any] = Reader.of(self.fleet)
        self._news = threading.Condition()
        self.shared = self._memory()
        self.keep(range(TRIPS))

    def _memory(self) -> SharedPosteriors:
        return SharedPosteriors(self.fleet.n_arms, self.fleet.n_draws, self.fleet.time_model)

    def keep(self, numbers: range) -> None:
        intake = Intake(CITY, self.reader, RouteTokens(CITY, b"secret"))
        prior = RoadPosterior.of(self.fleet, self.fleet.prior(), np.zeros(CITY.n_edges), trips=0)
        for number in numbers:
            edges, energies = trip_between(CITY, np.random.default_rng(number))
            when = datetime(2026, 3, 1, 12, tzinfo=UTC)
            trip = TripIn(
                trip_id=f"t{number}", edges=edges, driven_at=when, total_energy_wh=sum(energies)
            )
            self.store.keep(intake.checked([trip], "k", "k", Standing("k"), prior))

    def begin(self, stop_at: int | None = None) -> None:
        """Start a learner; it may be told to stop once it knows so many trips."""
        self.shown: list[int] = []
        self.notes: list[str] = []
        self.slot, self._stop_at = -1, stop_at
        self.learner = Learner(
            LearnerSettings(
                network=str(self.folder / "city.npz"),
                database=self.url,
                snapshots=str(self.folder / "snapshots"),
                handle=self.shared.handle,
                busy_slot=-1,
                snapshot_every=1_000,
                poll_s=0.02,
                retain_days=0.0,
            )
        )
        self._thread = threading.Thread(target=self.learner.run)
        self._thread.start()

    def _told(self, message: dict[str, Any]) -> None:
        json.dumps(message)
        with self._news:
            if "posterior" in message:
                facts = message["posterior"]
                self.shown.append(facts["trips"])
                self.slot = facts["slot"]
                for slot in range(SLOTS):
                    if slot != self.slot:
                        self.learner.obey({"free": slot})
                if facts["trips"] == self._stop_at:
                    self.learner.obey({"stop": True})
            else:
                self.notes.append(str(message))
            self._news.notify_all()

    def wait(self, pieces: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.shown) >= pieces, 60), self.notes

    def kept(self) -> list[int]:
        """Return of how many trips the snapshots are."""
        found = sorted((self.folder / "snapshots").glob("[0-9]*/manifest.json"))
        return [json.loads(path.read_text())["trips"] for path in found]

    def end(self) -> None:
        self.learner.obey({"stop": True})
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    world = World(tmp_path, monkeypatch)
    yield world
    world.end()
    world.database.close()


def test_routes_follow_every_piece_at_first_and_only_the_end_of_a_second_reading(
    world: World,
) -> None:
    world.begin()
    world.wait(3)
    assert world.shown == [4, 8, TRIPS]
    with world.database.engine.begin() as connection:
        bump_epoch(connection)
    world.wait(4)
    assert world.shown[3:] == [TRIPS]  # not less than was known before
    assert any("reading all trips again" in note for note in world.notes)
    world.keep(range(TRIPS, TRIPS + 1))
    world.wait(5)
    assert world.shown[4:] == [TRIPS + 1]
    posterior = world.shared.read(world.slot, world.fleet, version=1, trips=TRIPS + 1)
    news = History(world.database, world.reader).since(Cursor())
    whole = world.fleet.prior().condition_evidence(news.evidence)
    apart = np.abs(posterior.belief.mean - whole.mean)
    assert (apart <= fleets.TOLERANCE * np.sqrt(whole.variance)).all()
    assert (posterior.counts == news.visits).all()


def test_a_learner_that_stops_within_a_history_goes_on_from_there(world: World) -> None:
    world.begin(stop_at=PIECE)
    world.wait(1)
    world.end()
    assert world.shown == [PIECE]
    world.begin()
    world.wait(2)
    assert world.shown == [2 * PIECE, TRIPS]
    assert not world.notes
    world.end()
    world.begin()
    world.wait(1)
    assert world.shown == [TRIPS]
    assert not world.notes


def test_a_stop_does_not_wait_for_a_long_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was known before it is saved, and its trips are learned at the next start."""
    within, ended, go_on = (threading.Event() for _ in range(3))
    before = Learner._conditioned  # noqa: SLF001 - the part that takes long
    monkeypatch.setattr(learning, "_GRACE_S", 0.05)
    monkeypatch.setattr("superarm.service.learning.learner.os._exit", lambda _: ended.set())

    def slow(self: Learner, belief: Any, evidence: Any) -> Any:
        if belief.count:
            within.set()
            assert go_on.wait(60)
        return before(self, belief, evidence)

    monkeypatch.setattr(Learner, "_conditioned", slow)
    world.begin()
    assert within.wait(60)
    world.learner.obey({"stop": True})
    assert ended.wait(60)
    assert world.kept() == [PIECE]
    assert any("stopped within a batch" in note for note in world.notes)
    world.learner._last.release()  # noqa: SLF001 - nothing has really ended
    go_on.set()
    world.end()


def test_a_long_history_is_saved_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "_BETWEEN_SAVES_S", 0.0)
    saved, before = [], Snapshots.write

    def write(self: Snapshots, learned: Learned) -> Path:
        saved.append(learned.trips)
        return before(self, learned)

    monkeypatch.setattr(Snapshots, "write", write)
    world.begin()
    world.wait(3)
    world.end()
    assert saved[0] == PIECE
    assert world.kept()[-1] == TRIPS


def test_keys_are_judged_where_a_history_ends_with_a_whole_piece(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.keep(range(TRIPS, 3 * PIECE))
    judged = threading.Event()

    def suspects(*_: object) -> dict[str, str]:
        judged.set()
        return {}

    monkeypatch.setattr(Trust, "suspects", suspects)
    world.begin()
    assert judged.wait(60)
    assert world.shown[-1] == 3 * PIECE
