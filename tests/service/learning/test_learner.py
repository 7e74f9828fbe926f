"""The learner reads a long history in pieces, shows what routes may follow, and loses nothing."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from services import small_city

require_module("fastapi", "service")

from learners import Stored  # noqa: E402
from superarm.roads.models import fleet as fleets  # noqa: E402
from superarm.service.database import bump_epoch  # noqa: E402
from superarm.service.learning import fold as folding  # noqa: E402
from superarm.service.learning import learner as learning  # noqa: E402
from superarm.service.learning.conditioning import Conditioner  # noqa: E402
from superarm.service.learning.learner import Learner, LearnerSettings  # noqa: E402
from superarm.service.learning.shared import SLOTS, SharedPosteriors  # noqa: E402
from superarm.service.learning.snapshots import Learned, Snapshots  # noqa: E402
from superarm.service.learning.trust import Trust  # noqa: E402
from superarm.service.trips.device_state import store_state  # noqa: E402
from superarm.service.trips.history import Cursor, History  # noqa: E402

CITY = small_city()
TRIPS, PIECE = 11, 4


class World:
    """A database with some trips, and a learner whose messages are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, str(folder / "trips.db")
        CITY.save(folder / "city.npz")
        self.stored = Stored(CITY, self.url)
        self.fleet = self.stored.fleet
        self._news = threading.Condition()
        self.shared = SharedPosteriors(self.fleet.n_arms, self.fleet.n_draws, self.fleet.time_model)
        self.stored.keep(range(TRIPS))

    def begin(self, stop_at: int | None = None, retain_days: float = 0.0) -> None:
        """Start a learner; it may be told to stop once it knows so many trips."""
        self.shown: list[int] = []
        self.notes: list[str] = []
        self.facts: dict[str, Any] = {}
        self._stop_at = stop_at
        settings = LearnerSettings(
            network=str(self.folder / "city.npz"),
            database=self.url,
            snapshots=str(self.folder / "snapshots"),
            handle=self.shared.handle,
            busy_slot=-1,
            snapshot_every=1_000,
            poll_s=0.02,
            retain_days=retain_days,
        )
        self.learner = Learner(settings, self._told)
        self._thread = threading.Thread(target=self.learner.run)
        self._thread.start()

    def _told(self, message: dict[str, Any]) -> None:
        json.dumps(message)
        with self._news:
            if "posterior" in message:
                self.facts = message["posterior"]
                self.shown.append(self.facts["trips"])
                for slot in range(SLOTS):
                    if slot != self.facts["slot"]:
                        self.learner.obey({"free": slot})
                if self.facts["trips"] == self._stop_at:
                    self.learner.obey({"stop": True})
            else:
                self.notes.append(str(message))
            self._news.notify_all()

    def wait(self, posteriors: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.shown) >= posteriors, 60), self.notes

    def wait_for(self, trips: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.shown[-1:] == [trips], 60), self.notes

    def kept(self) -> list[int]:
        """Return of how many trips the snapshots are."""
        found = sorted((self.folder / "snapshots").glob("[0-9]*/manifest.json"))
        return [json.loads(path.read_text())["trips"] for path in found]

    def end(self) -> None:
        self.learner.obey({"stop": True})
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.end()
    world.stored.close()


@pytest.fixture
def long_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Trips that others have compared before, which an ensemble learns in pieces."""
    monkeypatch.setattr(fleets, "MOST_ARMS", 100)  # an ensemble, however small the city
    monkeypatch.setattr(folding, "_PIECE", PIECE)
    monkeypatch.setattr(learning, "_BETWEEN_SHOWN_S", 0.0)
    world = World(tmp_path)
    assert store_state(world.stored.database, 0, TRIPS, "{}") is not None
    yield world
    world.end()
    world.stored.close()


def test_routes_follow_every_piece_at_first_and_only_the_end_of_a_second_reading(
    long_history: World,
) -> None:
    world = long_history
    world.begin()
    world.wait(3)
    assert world.shown == [4, 8, TRIPS]
    with world.stored.database.engine.begin() as connection:
        bump_epoch(connection)
    world.wait(4)
    assert world.shown[3:] == [TRIPS]  # not less than was known before
    assert any("reading all trips again" in note for note in world.notes)
    world.stored.keep(range(TRIPS, TRIPS + 1))
    world.wait(5)
    assert world.shown[4:] == [TRIPS + 1]
    slot = world.facts["slot"]
    posterior = world.shared.read(slot, world.fleet, version=1, trips=TRIPS + 1)
    news = History(world.stored.database, world.stored.intake.reader).since(Cursor())
    whole = world.fleet.prior().condition_evidence(news.evidence)
    apart = np.abs(posterior.belief.mean - whole.mean)
    assert (apart <= fleets.TOLERANCE * np.sqrt(whole.variance)).all()
    assert (posterior.counts == news.visits).all()


def test_a_learner_that_stops_within_a_history_goes_on_from_there(long_history: World) -> None:
    world = long_history
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
    long_history: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was known before it is saved, and its trips are learned at the next start."""
    world = long_history
    within, ended, go_on = (threading.Event() for _ in range(3))
    before = Conditioner._conditioned  # noqa: SLF001 - the part that takes long
    monkeypatch.setattr(learning, "_GRACE_S", 0.05)
    monkeypatch.setattr("superarm.service.learning.learner.os._exit", lambda _: ended.set())

    def slow(self: Conditioner, belief: Any, evidence: Any) -> Any:
        if belief.count:
            within.set()
            assert go_on.wait(60)
        return before(self, belief, evidence)

    monkeypatch.setattr(Conditioner, "_conditioned", slow)
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
    long_history: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = long_history
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
    long_history: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = long_history
    world.stored.keep(range(TRIPS, 3 * PIECE))
    judged = threading.Event()

    def suspects(*_: object) -> dict[str, str]:
        judged.set()
        return {}

    monkeypatch.setattr(Trust, "suspects", suspects)
    world.begin()
    assert judged.wait(60)
    world.wait_for(3 * PIECE)


def test_an_exact_belief_is_shown_when_all_of_a_history_is_known(world: World) -> None:
    world.stored.keep(range(TRIPS, 150))
    world.begin()
    world.wait(1)
    assert world.shown == [150]


def test_what_is_published_is_the_same_after_a_restart(world: World) -> None:
    """With a snapshot, which knows no tail, and with none."""
    world.stored.keep(range(TRIPS, 150))
    world.begin()
    world.wait_for(150)
    before = world.facts
    world.end()
    assert world.kept() == [128]
    assert before["spread"] < 0.12
    for snapshots in ("with", "without"):
        if snapshots == "without":
            (world.folder / "snapshots").rename(world.folder / "elsewhere")
        world.begin()
        world.wait(1)
        assert world.shown == [150]
        assert not world.notes
        for name in ("spread", "spreads", "surprises"):
            after = world.facts[name]
            if name == "spread":
                assert after == pytest.approx(before[name], rel=1e-6)
                continue
            assert after.keys() == before[name].keys()
            assert_allclose(list(after.values()), list(before[name].values()), rtol=1e-6)
        world.end()


def test_what_is_too_old_to_be_kept_is_compared_before_it_is_folded(world: World) -> None:
    world.begin(retain_days=1e-9)
    world.wait_for(TRIPS)
    assert world.stored.store.stored_trips(0, 100, 0) == []
    assert any("were folded" in note for note in world.notes)
    spread, surprises = world.facts["spread"], world.facts["surprises"]
    assert len(surprises) == world.stored.keys
    world.end()
    world.begin()
    world.wait_for(TRIPS)
    assert world.facts["spread"] == spread
    assert world.facts["surprises"] == surprises


@pytest.mark.parametrize("times", [2, 3])
def test_a_snapshot_whose_list_of_contents_has_changed_is_set_aside(
    world: World, times: int
) -> None:
    """A cursor that is further back would count trips twice."""
    world.stored.keep(range(TRIPS, 70))
    world.begin()
    world.wait_for(70)
    world.end()
    (manifest,) = (world.folder / "snapshots").glob("[0-9]*/manifest.json")
    content = manifest.read_text()
    digits = [place for place, letter in enumerate(content) if letter.isdigit()]
    place = digits[len(digits) // times]
    changed = str((int(content[place]) + 1) % 10)
    manifest.write_text(content[:place] + changed + content[place + 1 :])
    world.begin()
    world.wait_for(70)
    assert list((world.folder / "snapshots").glob("damaged-*"))
    assert any("checksum" in note for note in world.notes)


def test_a_snapshot_of_an_earlier_version_is_left_alone(world: World) -> None:
    world.stored.keep(range(TRIPS, 70))
    world.begin()
    world.wait_for(70)
    world.end()
    (manifest,) = (world.folder / "snapshots").glob("[0-9]*/manifest.json")
    known = json.loads(manifest.read_text())
    del known["format"], known["sha256"]
    manifest.write_text(json.dumps(known))
    world.begin()
    world.wait_for(70)
    assert any("earlier version" in note for note in world.notes)
    assert manifest.exists()


@pytest.mark.parametrize("content", ["[1, 2]", "7", '{"format": 2}', "{", "[" * 100_000, "\x00"])
def test_no_list_of_contents_keeps_the_learner_from_starting(tmp_path: Path, content: str) -> None:
    stored = Stored(CITY, str(tmp_path / "trips.db"))
    stored.keep(range(3))
    snapshots = Snapshots(
        tmp_path / "snapshots", "model", "database", stored.fleet.time_model, stored.fleet.resumed
    )
    written = snapshots.write(stored.fold().read().progress.now)
    (written / "manifest.json").write_text(content)
    learned, problems = snapshots.newest()
    assert learned is None
    assert "set aside" in problems[0]
    stored.close()
