"""What is known of devices follows from stored trips, whoever reads them, and however they came."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_command, require_module
from services import fresh_database, postgresql, small_city

require_module("fastapi", "service")

from sqlalchemy import text  # noqa: E402

from learners import Stored, Worker  # noqa: E402
from superarm.roads.battery import Battery  # noqa: E402
from superarm.roads.routing.arrival import probability_of_arrival  # noqa: E402
from superarm.roads.vehicle import Vehicle  # noqa: E402
from superarm.service.database import bump_epoch, now_us  # noqa: E402
from superarm.service.learning import comparing  # noqa: E402
from superarm.service.learning import fold as folding  # noqa: E402
from superarm.service.learning.blocks import next_cut  # noqa: E402
from superarm.service.learning.gains import gains_of  # noqa: E402
from superarm.service.trips.device_state import DeviceState, read_state, store_state  # noqa: E402
from superarm.service.trips.standings import all_standings, let_in, set_aside  # noqa: E402
from superarm.service.trips.store import purge  # noqa: E402

CITY = small_city()
TRIPS = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_command("pg_ctlcluster", "postgresql")
    with postgresql(tmp_path_factory.mktemp("pg")) as url:
        yield url


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    monkeypatch.setattr(comparing, "MOST_SPANS", 4)  # of twelve, so that chance has a say
    opened = Stored(CITY, str(tmp_path / "trips.db"))
    yield opened
    opened.close()


def numbers_of(stored: Stored, worker: Worker) -> dict[str, Any]:
    """Return all that is known of devices, and what routes are told because of it."""
    trust, posterior = worker.progress.trust, worker.posterior
    gains = gains_of(stored.fleet, worker.progress.now.belief, worker.progress.standings)
    rng, drivetrain = np.random.default_rng(7), stored.fleet.drivetrain(Vehicle())
    found: dict[str, Any] = {"spread": trust.spread} | trust.spreads()
    for name, track in trust.tracks.items():
        parts = ("trips", "mean", "up", "down", "wild", "heard", "parted", "scatter", "rough")
        found |= {f"{part} of {name}": getattr(track, part) for part in parts}
    for number in range(5):
        edges = rng.choice(CITY.n_edges, 12, replace=False)
        mean, covariance = posterior.along(edges, drivetrain)
        deviation = float(np.sqrt(covariance.sum()))
        found[f"std {number}"] = deviation
        battery = Battery(float(mean.sum()) + deviation, 1e5)
        found[f"arrival {number}"] = probability_of_arrival(battery, mean, covariance)
    found |= {f"suspect {name}": 1.0 for name in trust.suspects(gains)}
    return found


def assert_same(stored: Stored, left: Worker, right: Worker) -> None:
    before, after = numbers_of(stored, left), numbers_of(stored, right)
    assert before.keys() == after.keys()
    names = list(before)
    assert_allclose([after[n] for n in names], [before[n] for n in names], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("batch", [1, 7])
def test_devices_are_known_the_same_however_trips_came(
    stored: Stored, tmp_path: Path, batch: int
) -> None:
    other = Stored(CITY, str(tmp_path / "other.db"))
    with other.database.engine.begin() as connection:  # the same spans of long trips are compared
        same = text("UPDATE facts SET value = :value WHERE name = 'identity'")
        connection.execute(same, {"value": stored.database.identity()})
    stored.keep(range(TRIPS))
    at_once = stored.fold().read()
    slow = other.fold()
    for begin in range(0, TRIPS, batch):
        other.keep(range(begin, min(begin + batch, TRIPS)))
        slow.read()
    assert at_once.progress.now.trips == slow.progress.now.trips == TRIPS
    assert_same(stored, at_once, slow)
    other.close()


def test_a_restart_forgets_nothing_and_neither_does_another_worker(
    stored: Stored, tmp_path: Path
) -> None:
    stored.keep(range(100))
    watching = stored.fold().read()
    snapshot = watching.restarted(tmp_path / "snapshots")
    stored.keep(range(100, TRIPS))
    watching.read()
    assert watching.progress.trust.spread < 0.12  # it has seen something
    with_snapshot, without = snapshot.read(), stored.fold().read()
    for other in (with_snapshot, without):
        assert_same(stored, watching, other)
    begin = watching.progress.base.cursor.number
    assert begin == without.progress.base.cursor.number == 128
    stored.keep(range(TRIPS, TRIPS + 60))  # over the end of a block
    for worker in (watching, with_snapshot, without):
        worker.read()
        assert_same(stored, watching, worker)
        assert worker.progress.base.cursor.number == 256


def test_intervals_do_not_wait_for_a_block_to_end(stored: Stored) -> None:
    stored.keep(range(40))
    worker = stored.fold().read()
    before = worker.progress.trust.tracks["k0"].trips
    stored.keep([42])
    assert worker.read().progress.trust.tracks["k0"].trips == before + 1


def test_every_trip_is_compared_once(stored: Stored) -> None:
    stored.keep(range(150))
    worker = stored.fold().read()
    assert sum(track.trips for track in worker.progress.trust.tracks.values()) == 150
    stored.keep(range(150, 290))
    assert sum(track.trips for track in worker.read().progress.trust.tracks.values()) == 290


def test_folding_old_trips_keeps_what_is_known_of_devices(stored: Stored) -> None:
    stored.keep(range(90))
    worker = stored.fold().read()
    with stored.database.reading() as connection:
        assert read_state(connection).reached == 64
    history = worker.fold.history
    assert history.retention.oldest_not_compared(now_us() + 1)
    assert history.fold(now_us() + 1) == 64  # the others have not become a part of the state yet
    assert_same(stored, worker, stored.fold().read())
    worker.fold.end_block(worker.progress)
    worker.read()
    assert not history.retention.oldest_not_compared(now_us() + 1)
    before = numbers_of(stored, worker)
    assert history.fold(now_us() + 1) == 26
    other = stored.fold().read()
    after = numbers_of(stored, other)
    assert_allclose([after[n] for n in before], list(before.values()), rtol=1e-6, atol=1e-9)
    _, news = other.fold.further(other.progress)
    assert not news.restart  # no trip is left, and all are read
    stored.keep(range(90, 130))
    assert worker.read().progress.base.cursor.number == 128
    assert_same(stored, worker, stored.fold().read())


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_of_two_workers_one_ends_a_block_and_both_know_the_same(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "trips.db")
    if kind == "postgresql":
        url = fresh_database(request.getfixturevalue("cluster"), tmp_path.name)
    stored = Stored(CITY, url)
    stored.keep(range(20))
    one, two = stored.fold().read(), stored.fold().read()
    stored.keep(range(20, 100))
    # both have read the rest of a block, and neither knows of the other
    first, _ = one.fold.further(one.progress)
    second, _ = two.fold.further(two.progress)
    assert first.reached == second.reached == 32
    assert first.state.reached == second.state.reached == 16
    one.progress, two.progress = first, second
    for worker in (one.read(), two.read()):
        assert worker.progress.base.cursor.number == worker.progress.state.reached == 64
    assert one.progress.state == two.progress.state
    assert_same(stored, one, two)
    for reached in (63, 64):
        assert store_state(stored.database, 0, reached, "{}") is None
    assert store_state(stored.database, 1, 65, "{}") is None  # of another history
    stored.close()


def test_a_block_that_somebody_else_has_stored_is_not_stored_twice(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.keep(range(30))
    one, two = stored.fold().read(), stored.fold().read()
    stored.keep(range(30, 50))

    def after_another(*given: Any) -> DeviceState | None:
        monkeypatch.setattr(folding, "store_state", store_state)
        one.read()
        return store_state(*given)

    monkeypatch.setattr(folding, "store_state", after_another)
    two.read()
    two.read()
    assert two.progress.state.revision == one.progress.state.revision == 2
    assert_same(stored, one, two)


def test_a_worker_may_be_ahead_of_what_is_stored(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a long history: whoever stores something then, all know the same."""
    stored.keep(range(30))
    ahead, other = stored.fold().read(), stored.fold().read()
    monkeypatch.setattr(folding, "store_state", lambda *_: None)
    stored.keep(range(30, 70))
    ahead.read()
    stored.keep(range(70, 140))
    ahead.read()
    assert ahead.progress.base.cursor.number == 128
    assert ahead.progress.state.reached == 16
    assert not ahead.progress.is_stored
    monkeypatch.setattr(folding, "store_state", store_state)
    assert_same(stored, ahead, stored.fold().read())
    assert ahead.read().progress.is_stored
    assert_same(stored, ahead, other.read())


def bad_trips(stored: Stored, count: int) -> None:
    """Store what key 0 reports after a while: far too much."""
    stored.keep(range(102, 102 + 6 * count, 6), factor=1.5)


def test_a_device_one_trip_before_it_is_set_aside_stays_there(
    stored: Stored, tmp_path: Path
) -> None:
    stored.keep(range(100))
    worker, count = stored.fold().read(), 0
    while worker.fold.judge(worker.progress) == []:
        count += 1
        bad_trips(stored, count)
        worker.read()
    assert count > 3
    other = Stored(CITY, str(tmp_path / "other.db"))
    other.keep(range(100))
    bad_trips(other, count - 1)
    before = other.fold().read()
    assert before.fold.judge(before.progress) == []
    bad_trips(other, count)
    after = other.fold().read()  # a process that has seen nothing yet
    assert after.fold.judge(after.progress) == ["k0"]
    other.close()


def test_what_is_known_of_a_key_goes_when_its_standing_changes(stored: Stored) -> None:
    stored.keep(range(70))
    worker = stored.fold().read()
    for name in ("k1", "k2"):
        assert name in worker.progress.trust.tracks
        if name == "k1":
            set_aside(stored.database, {name: "odd"})
        else:
            purge(stored.database, name)
        with stored.database.reading() as connection:
            state = read_state(connection)
        assert name not in json.loads(state.content)["devices"]
        assert state.reached == 64
        assert name not in worker.read().progress.trust.tracks
        assert_same(stored, worker, stored.fold().read())
    assert let_in(stored.database, "k1")
    worker.read()
    assert "k1" not in worker.progress.trust.tracks  # what it did before is not held against it
    stored.keep([73])
    assert worker.read().progress.trust.tracks["k1"].trips == 1
    assert worker.progress.standings["k1"].vouched_at is not None


def test_a_key_beyond_chance_is_set_aside_before_its_block_becomes_a_base(stored: Stored) -> None:
    stored.keep(range(60))
    worker = stored.fold().read()
    stored.keep(range(60, 300, 6), factor=1.9)  # key 0
    stored.keep(range(61, 300, 6))
    worker.read()
    with stored.database.reading() as connection:
        assert all_standings(connection)["k0"].is_aside
        assert "k0" not in json.loads(read_state(connection).content)["devices"]
    assert "k0" not in worker.progress.trust.tracks
    assert_same(stored, worker, stored.fold().read())


def test_a_backup_that_knows_less_is_read_from_the_beginning(stored: Stored) -> None:
    stored.keep(range(70))
    worker = stored.fold().read()
    with stored.database.engine.begin() as connection:  # as of before the last block
        connection.execute(text("DELETE FROM device_state"))
    assert worker.read().progress.now.trips == 70
    assert worker.progress.state.reached == 64
    assert_same(stored, worker, stored.fold().read())


def test_a_history_that_changes_is_read_again_with_the_same_state(stored: Stored) -> None:
    stored.keep(range(80))
    worker = stored.fold().read()
    before = worker.progress.state
    with stored.database.engine.begin() as connection:
        bump_epoch(connection)
    other = stored.fold().read()
    assert worker.read().progress.state == before
    assert worker.progress.now.trips == 80
    assert_same(stored, worker, other)


def copy_trip(connection: Any, number: Any, name: str) -> None:
    """Store the first trip once more, in an open transaction, under a number and a name."""
    columns = (
        "xact, key_id, owner, trip_id, content_sha256, received_at, driven_at, vehicle, edges, "
        "spans, energies_wh, vehicle_class, spread, widened, measured_wh, predicted_wh, "
        "predicted_std_wh, inside"
    )
    copied = columns.replace("xact", "pg_current_xact_id()::text::bigint", 1)
    copied = copied.replace("trip_id", f"'{name}'")
    connection.execute(
        text(
            f"INSERT INTO trips (sequence, {columns}) SELECT {number}, {copied} FROM trips "  # noqa: S608
            "WHERE trip_id = 't0'"
        )
    )


def test_a_transaction_under_way_keeps_a_block_open(cluster: str, tmp_path: Path) -> None:
    """Its trip has a lower number than those that are there; it belongs to the block before."""
    stored = Stored(CITY, fresh_database(cluster, f"{tmp_path.name}-late"))
    stored.keep(range(14))
    worker = stored.fold().read()
    with stored.database.engine.begin() as slow:
        slow.execute(text("SELECT pg_current_xact_id()"))
        number = slow.execute(text("SELECT nextval('trips_sequence_seq')")).scalar()
        stored.keep(range(14, 40))
        worker.read()
        assert worker.progress.base.cursor.number == 0  # trips beyond the first block wait
        assert worker.progress.now.trips <= 16
        copy_trip(slow, number, "late")
    worker.read()
    assert worker.progress.now.trips == 41
    assert worker.progress.base.cursor.number == 32
    assert sum(track.trips for track in worker.progress.trust.tracks.values()) == 41
    assert_same(stored, worker, stored.fold().read())
    stored.close()


def test_a_transaction_begun_after_all_that_committed_keeps_it_open_too(
    cluster: str, tmp_path: Path
) -> None:
    """No snapshot shows it: its number is beyond the upper end of all of them."""
    stored = Stored(CITY, fresh_database(cluster, f"{tmp_path.name}-last"))
    stored.keep(range(14))
    worker = stored.fold().read()
    take_number = text("SELECT nextval('trips_sequence_seq')")
    with stored.database.engine.begin() as slow:
        with stored.database.engine.begin() as early:
            early.execute(text("SELECT pg_current_xact_id()"))
            slow.execute(text("SELECT pg_current_xact_id()"))
            number = slow.execute(take_number).scalar()
            for copy in range(20):
                copy_trip(early, early.execute(take_number).scalar(), f"early{copy}")
        worker.read()
        assert worker.progress.base.cursor.number == 0
        copy_trip(slow, number, "late")
    worker.read()
    assert worker.progress.now.trips == 35
    assert_same(stored, worker, stored.fold().read())
    stored.close()


def test_workers_agree_on_trips_that_come_at_once_from_all_sides(
    cluster: str, tmp_path: Path
) -> None:
    """Writers take numbers and commit in any order, while workers read and end blocks."""
    url = fresh_database(cluster, f"{tmp_path.name}-many")
    stored = Stored(CITY, url)
    stored.keep(range(6))  # every key is known
    sides = [Stored(CITY, url) for _ in range(3)]
    workers = [side.fold() for side in sides]
    writing = [
        threading.Thread(target=side.keep, args=(range(6 + place, 186, 3),))
        for place, side in enumerate(sides)
    ]
    for thread in writing:
        thread.start()
    while any(thread.is_alive() for thread in writing):
        for worker in workers:
            worker.read()
    for worker in workers:
        worker.read()
        assert worker.progress.now.trips == 186
        assert worker.progress.base.cursor.number == 128
        assert_same(stored, workers[0], worker)
    assert_same(stored, workers[0], stored.fold().read())
    assert sum(track.trips for track in workers[0].progress.trust.tracks.values()) == 186
    for side in (stored, *sides):
        side.close()


def test_blocks_end_where_everybody_expects_it() -> None:
    cuts = [next_cut(number, 128) for number in range(1_000)]
    assert cuts[0] == 16
    assert all(cut > number for number, cut in enumerate(cuts))
    assert sorted(set(cuts)) == [16, 32, 64, *range(128, 1_025, 128)]
    assert all(next_cut(cut - 1, 128) == cut for cut in set(cuts))
