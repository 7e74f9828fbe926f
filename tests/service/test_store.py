"""The database: each trip once, on SQLite and PostgreSQL; folding and purging; late commits."""

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from parts import require_command, require_module
from services import fresh_database, postgresql, small_city, trip_between
from superarm import DataError

require_module("fastapi", "service")

from alembic.autogenerate import compare_metadata  # noqa: E402
from alembic.migration import MigrationContext  # noqa: E402
from sqlalchemy import text  # noqa: E402

from superarm.service.database import Database, lock_epoch, now_us  # noqa: E402
from superarm.service.fleet import CLASSES, Fleet  # noqa: E402
from superarm.service.history import Cursor, History  # noqa: E402
from superarm.service.keys import KeyRing  # noqa: E402
from superarm.service.measurements import Reader  # noqa: E402
from superarm.service.posterior import RoadPosterior  # noqa: E402
from superarm.service.routing import RouteQuery, Router  # noqa: E402
from superarm.service.schemas import TripIn  # noqa: E402
from superarm.service.store import (  # noqa: E402
    Issued,
    Reported,
    TripStore,
    forget_quarantined,
    forget_routes,
    new_route_id,
    purge,
)
from superarm.service.tables import metadata  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
READER = Reader(FLEET)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_command("pg_ctlcluster", "postgresql")
    with postgresql(tmp_path_factory.mktemp("pg")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = str(tmp_path / "trips.db")
    else:
        url = fresh_database(request.getfixturevalue("cluster"), tmp_path.name)
    opened = Database(url)
    opened.migrate()
    opened.claim(FLEET.fingerprint(), demo=False)
    yield opened
    opened.close()


def store_of(database: Database) -> TripStore:
    return TripStore(database, CITY, READER)


def reported(number: int, *, key: str = "k", total: bool = False) -> Reported:
    edges, energies = trip_between(CITY, np.random.default_rng(number))
    measured: dict[str, Any] = (
        {"total_energy_wh": sum(energies)} if total else {"edge_energy_wh": energies}
    )
    return Reported(key, TripIn(trip_id=f"t{number}", edges=edges, driven_at=NOW, **measured))


def believed(database: Database) -> tuple[Any, Any, int]:
    news = History(database, READER).since(Cursor())
    return FLEET.prior().condition_evidence(news.evidence), news.visits, news.trips


def assert_same_belief(left: Any, right: Any) -> None:
    assert_allclose(left[0].mean, right[0].mean, rtol=0, atol=1e-9)
    assert_allclose(left[0].matrix, right[0].matrix, rtol=0, atol=1e-9)
    assert_array_equal(left[1], right[1])
    assert left[2] == right[2]


def test_the_migrations_make_the_tables(database: Database) -> None:
    database.migrate()  # again: nothing happens
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []


def test_a_trip_is_kept_once_and_other_content_is_refused(database: Database) -> None:
    store = store_of(database)
    assert [o and o.status for o in store.keep([reported(1), reported(1), reported(2)])] == [
        "accepted",
        "duplicate",
        "accepted",
    ]
    other = reported(3).trip.model_copy(update={"trip_id": "t1"})
    found = store.keep([Reported("k", other), Reported("someone", other), reported(2)])
    assert [o and o.status for o in found] == ["conflict", "accepted", "duplicate"]
    assert store.counts() == (3, 0)
    assert believed(database)[2] == 3


def test_new_trips_are_read_once(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    cursor, seen = Cursor(), 0
    belief = FLEET.prior()
    for begin in range(0, 12, 3):
        store.keep([reported(i, total=i % 2 == 0) for i in range(begin, begin + 3)])
        news = history.since(cursor)
        assert news.trips == 3
        assert news.restart == (begin == 0)
        cursor, seen = news.cursor, seen + news.trips
        belief = belief.condition_evidence(news.evidence)
        assert history.since(cursor).trips == 0
    assert_allclose(belief.mean, believed(database)[0].mean, atol=1e-9)


def test_folding_changes_no_belief_and_forgets_no_id(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i, key=f"k{i % 2}", total=i % 3 == 0) for i in range(10)])
    before, sums = believed(database), store.calibration()
    cursor = history.since(Cursor()).cursor
    middle = now_us()
    store.keep([reported(i) for i in range(10, 14)])
    everything = believed(database)
    assert history.fold(middle) == 10
    assert history.fold(middle) == 0
    assert_same_belief(believed(database), everything)
    assert history.since(cursor).restart  # it may not have learned what was folded
    assert store.counts() == (14, 0)
    again = store.keep([reported(5, key="k1"), reported(5, key="k0"), reported(12)])
    assert [o and o.status for o in again] == ["duplicate", "accepted", "duplicate"]
    assert store.calibration() == sums
    assert before[2] == 10
    with database.engine.connect() as connection:
        left = connection.execute(text("SELECT count(*) FROM trips")).scalar()
    assert left == 5
    assert history.fold(now_us()) == 5  # a second fold adds to the first
    assert believed(database)[2] == 15


def test_calibration_survives_folding(database: Database) -> None:
    store = store_of(database)
    posterior = RoadPosterior.of(FLEET.prior(), np.zeros(CITY.n_edges), trips=0)
    drivetrain = FLEET.drivetrain(CLASSES["car"])
    z = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        start, goal = rng.choice(CITY.n_edges, 2, replace=False)
        answer = Router(CITY).answer(RouteQuery(int(start), int(goal)), posterior, drivetrain, rng)
        issued = Issued(
            new_route_id(), "k", CLASSES["car"], "explore", answer.route, answer.best.mean_wh
        )
        z.append(rng.normal())
        total = answer.route.mean_wh + z[-1] * answer.route.std_wh
        trip = TripIn(
            trip_id=f"r{seed}", route_id=issued.route_id, driven_at=NOW, total_energy_wh=total
        )
        store.keep([issued])
        outcome = store.keep([Reported("k", trip)])[0]
        assert outcome is not None
        assert outcome.status == "accepted"
    for _ in range(2):
        sums, recent = store.calibration()
        assert sums.trips == 6
        assert_allclose([sums.z, sums.squares], [sum(z), sum(v * v for v in z)], atol=1e-9)
        assert sums.inside == sum(abs(v) <= 1.6448536 for v in z)
        if recent.trips:
            assert_allclose(recent, sums)
        History(database, READER).fold(now_us())
    assert store.calibration()[1].trips == 0  # recent ones are not folded


def test_a_purged_key_leaves_no_trace_in_the_belief(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i, key="mine") for i in range(3)])
    mine = believed(database)
    cursor = history.since(Cursor()).cursor
    store.keep([reported(i, key="theirs") for i in range(3, 6)])
    history.fold(now_us())
    store.keep([reported(i, key="theirs") for i in range(6, 8)])
    assert purge(database, "theirs") == 2
    assert history.since(cursor).restart
    assert_same_belief(believed(database), mine)


def test_keys_are_stored_as_hashes_and_stop_when_revoked(database: Database) -> None:
    ring = KeyRing(database)
    key = ring.add("fleet", "report")
    _, identity, secret = key.split(".")
    assert len(secret) >= 43  # 256 bits
    found = ring.check(key)
    assert found is not None
    assert (found.id, found.role) == (identity, "report")
    for wrong in ("", "superarm", f"superarm.{identity}.x", f"superarm.x.{secret}", key + "."):
        assert ring.check(wrong) is None
    with database.engine.connect() as connection:
        dump = str(connection.execute(text("SELECT * FROM keys")).all())
    assert secret not in dump
    ring.revoke(identity)
    assert ring.check(key) is None
    with pytest.raises(DataError, match="keys list"):
        ring.revoke("nobody")


def test_databases_of_other_networks_and_demos_are_refused(database: Database) -> None:
    other = Fleet(small_city(600)).fingerprint()
    with pytest.raises(DataError, match=f"{FLEET.fingerprint()}.*{other}"):
        database.claim(other, demo=False)
    with pytest.raises(DataError, match="is no demo: start without --demo"):
        database.claim(FLEET.fingerprint(), demo=True)
    database.claim(FLEET.fingerprint(), demo=False)


def test_a_transaction_that_commits_late_is_not_missed(cluster: str, tmp_path: Path) -> None:
    """Its sequence number is lower than that of a trip which was learned before it."""
    url = fresh_database(cluster, f"{tmp_path.name}-late")
    one, two = Database(url), Database(url)
    one.migrate()
    one.claim(FLEET.fingerprint(), demo=False)
    history = History(one, READER)
    cursor = history.since(Cursor()).cursor
    slow = two.engine.connect()
    waiting = slow.begin()
    store = store_of(two)
    kept = store._keep_trip(slow, reported(1), _number(slow))  # noqa: SLF001
    assert kept.status == "accepted"
    store_of(one).keep([reported(2)])
    news = history.since(cursor)  # the later one is visible, but not certain yet
    learned = news.trips
    waiting.commit()
    slow.close()
    store_of(one).keep([reported(3)])
    rest = history.since(news.cursor)
    assert learned + rest.trips == 3
    assert_same_belief(
        (
            FLEET.prior().condition_evidence(news.evidence + rest.evidence),
            news.visits + rest.visits,
            3,
        ),
        believed(one),
    )
    numbers = [trip["sequence"] for trip in store_of(one).stored_trips(0, 10)]
    assert numbers == sorted(numbers)
    one.close()
    two.close()


def _number(connection: Any) -> int:
    from superarm.service.database import transaction_number  # noqa: PLC0415

    return transaction_number(connection)


def test_trips_restored_from_another_cluster_are_read(cluster: str, tmp_path: Path) -> None:
    url = fresh_database(cluster, f"{tmp_path.name}-restored")
    database = Database(url)
    database.migrate()
    database.claim(FLEET.fingerprint(), demo=False)
    store_of(database).keep([reported(1)])
    with database.engine.begin() as connection:  # as if from a cluster that was much busier
        connection.execute(text("UPDATE trips SET xact = 1000000000000"))
    assert believed(database)[2] == 0
    database.adopt_restored_trips()
    assert believed(database)[2] == 1
    database.close()


@pytest.mark.parametrize("url", ["mysql://nowhere/x", "postgresql://nobody:secret@127.0.0.1:1/x"])
def test_unusable_databases_are_named_without_their_password(url: str) -> None:
    with pytest.raises(DataError) as caught:
        Database(url).migrate()
    assert "secret" not in str(caught.value)


def test_a_restored_backup_is_noticed_whatever_was_learned_since(tmp_path: Path) -> None:
    file, backup = tmp_path / "trips.db", tmp_path / "backup.db"

    def opened() -> Database:
        database = Database(str(file))
        database.migrate()
        database.claim(FLEET.fingerprint(), demo=False)
        return database

    database = opened()
    store_of(database).keep([reported(i) for i in range(10)])
    identity = database.identity()
    database.close()
    shutil.copy(file, backup)
    database = opened()
    store_of(database).keep([reported(i) for i in range(10, 30)])
    cursor = History(database, READER).since(Cursor()).cursor
    database.close()
    for more in (range(100, 115), range(100, 120), range(100, 140)):  # fewer, as many, more
        for leftover in tmp_path.glob("trips.db*"):
            leftover.unlink()
        shutil.copy(backup, file)
        database = opened()
        assert database.identity() == identity
        store_of(database).keep([reported(i) for i in more])
        news = History(database, READER).since(cursor)
        assert news.restart
        assert news.trips == 10 + len(more)
        assert not History(database, READER).since(news.cursor).restart
        database.close()


def test_folding_and_purging_take_turns(database: Database) -> None:
    """A fold that has begun waits for a purge, and then finds nothing to fold."""
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i, key="leaving") for i in range(5)])
    purge(database, "leaving")
    assert history.fold(now_us()) == 0
    store.keep([reported(i, key="staying") for i in range(3)])
    assert history.fold(now_us()) == 3
    purge(database, "leaving")
    assert believed(database)[2] == 3


def test_a_fold_beside_a_purge_brings_nothing_back(cluster: str, tmp_path: Path) -> None:
    url = fresh_database(cluster, f"{tmp_path.name}-fold")
    one, two = Database(url), Database(url)
    one.migrate()
    one.claim(FLEET.fingerprint(), demo=False)
    store_of(one).keep([reported(i, key="leaving") for i in range(5)])
    with one.engine.begin() as purging:
        lock_epoch(purging)
        folding = threading.Thread(target=History(two, READER).fold, args=(now_us(),))
        folding.start()
        folding.join(0.5)
        assert folding.is_alive()  # it waits
        purging.execute(text("DELETE FROM trips"))
    folding.join(20)
    assert believed(one)[2] == 0
    one.close()
    two.close()


def test_a_revoked_key_leaves_nothing_in_the_queue(database: Database) -> None:
    ring, store = KeyRing(database), store_of(database)
    identity = ring.add("fleet", "report").split(".")[1]
    assert store.keep([reported(1, key=identity)])[0].status == "accepted"  # type: ignore[union-attr]
    ring.revoke(identity)
    purge(database, identity)
    outcome = store.keep([reported(2, key=identity)])[0]
    assert outcome is not None
    assert outcome.status == "rejected"
    assert believed(database)[2] == 0


def test_keys_of_one_name_share_their_trip_ids(database: Database) -> None:
    store = store_of(database)
    trip = reported(1).trip
    found = store.keep([Reported("old", trip, "fleet"), Reported("new", trip, "fleet")])
    assert [o and o.status for o in found] == ["accepted", "duplicate"]
    other = store.keep([Reported("new", trip, "another fleet")])
    assert [o and o.status for o in other] == ["accepted"]


def test_many_workers_may_claim_a_new_database_at_once(cluster: str, tmp_path: Path) -> None:
    url = fresh_database(cluster, f"{tmp_path.name}-claim")
    problems: list[BaseException] = []

    def start() -> None:
        database = Database(url)
        try:
            database.migrate()
            database.claim(FLEET.fingerprint(), demo=False)
        except BaseException as error:  # noqa: BLE001 - looked at below
            problems.append(error)
        finally:
            database.close()

    workers = [threading.Thread(target=start) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert problems == []


def test_routes_and_quarantine_are_forgotten(database: Database) -> None:
    store = store_of(database)
    posterior = RoadPosterior.of(FLEET.prior(), np.zeros(CITY.n_edges), trips=0)
    answer = Router(CITY).answer(
        RouteQuery(0, 50), posterior, FLEET.drivetrain(CLASSES["car"]), np.random.default_rng(0)
    )
    store.keep([Issued(new_route_id(), "k", CLASSES["car"], "best", answer.route, 1.0)])
    absurd = reported(1).trip.model_copy(update={"edge_energy_wh": None, "total_energy_wh": 1e9})
    for _ in range(3):  # sent again and again, kept once
        assert store.keep([Reported("k", absurd)])[0].status == "rejected"  # type: ignore[union-attr]
    assert store.counts() == (0, 1)
    forget_routes(database, now_us() + 1)
    forget_quarantined(database, now_us() + 1)
    assert store.counts() == (0, 0)
    with database.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM routes")).scalar() == 0
