"""The database: each trip once, on SQLite and PostgreSQL; folding and purging; late commits."""

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from parts import require_command, require_module
from services import fresh_database, postgresql, small_city, trip_between
from superarm import DataError
from superarm.beliefs import EnsembleGP
from superarm.beliefs.ensemble import Observations
from superarm.roads.physics import kinetic_energy

require_module("fastapi", "service")

from alembic import command  # noqa: E402
from alembic.autogenerate import compare_metadata  # noqa: E402
from alembic.config import Config  # noqa: E402
from alembic.migration import MigrationContext  # noqa: E402
from sqlalchemy import Connection, text  # noqa: E402

import superarm.service  # noqa: E402
from superarm.roads.models.fleet import Fleet  # noqa: E402
from superarm.roads.models.likelihood import Reader  # noqa: E402
from superarm.roads.models.posterior import RoadPosterior  # noqa: E402
from superarm.roads.routing.query import RouteQuery  # noqa: E402
from superarm.roads.routing.router import Router  # noqa: E402
from superarm.roads.vehicle import CLASSES  # noqa: E402
from superarm.service.database import Database, lock_epoch, now_us  # noqa: E402
from superarm.service.http.keys import KeyRing  # noqa: E402
from superarm.service.routes.tokens import IssuedRoute, RouteTokens  # noqa: E402
from superarm.service.tables import metadata  # noqa: E402
from superarm.service.trips.device_state import DeviceState, read_state, store_state  # noqa: E402
from superarm.service.trips.folding import FoldedTrips  # noqa: E402
from superarm.service.trips.history import Blocks, Cursor, History  # noqa: E402
from superarm.service.trips.intake import Checked, Intake  # noqa: E402
from superarm.service.trips.packing import content_digest  # noqa: E402
from superarm.service.trips.quarantine import forget_quarantined  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402
from superarm.service.trips.standings import Standing, let_in, set_aside, standings_of  # noqa: E402
from superarm.service.trips.store import TripStore, purge  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
READER = Reader.of(FLEET)
TOKENS = RouteTokens(CITY, b"secret")
INTAKE = Intake(CITY, READER, TOKENS)
PRIOR = RoadPosterior.of(FLEET, FLEET.prior(), np.zeros(CITY.n_edges), trips=0)
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
    return TripStore(database, CITY, FLEET.n_slots)


def checked(trip: TripIn, key: str = "k", owner: str | None = None) -> Checked:
    return INTAKE.checked([trip], key, owner or key, Standing(key), PRIOR)[0]


def reported(number: int, *, key: str = "k", total: bool = False) -> Checked:
    edges, energies = trip_between(CITY, np.random.default_rng(number))
    measured: dict[str, Any] = (
        {"total_energy_wh": sum(energies)} if total else {"edge_energy_wh": energies}
    )
    return checked(TripIn(trip_id=f"t{number}", edges=edges, driven_at=NOW, **measured), key)


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


def test_motion_between_edges_is_not_charged_to_roads() -> None:
    edges, energies = trip_between(CITY, np.random.default_rng(5))
    size = len(edges)
    speeds = [0.0, *np.random.default_rng(6).uniform(0, 30, size - 1).tolist(), 0.0]
    plain = TripIn(trip_id="a", edges=edges, driven_at=NOW, edge_energy_wh=[*energies])
    fast = plain.model_copy(update={"speeds_ms": speeds})
    before, after = (INTAKE.measured(trip)[0].energies_wh for trip in (plain, fast))
    assert_allclose(before - after, np.diff(kinetic_energy(CLASSES["car"], speeds)), atol=1e-9)
    assert_allclose(before.sum(), after.sum())  # it begins and ends at rest
    ends: Any = {"edge_energy_wh": None, "total_energy_wh": 100.0}
    total = INTAKE.measured(fast.model_copy(update=ends))[0]
    assert_allclose(total.energies_wh, [100.0])
    short = checked(fast.model_copy(update={"speeds_ms": speeds[:-1]}))
    assert short.problem is not None
    assert f"speeds_ms has {size} entries" in short.problem
    with pytest.raises(ValueError, match="across gaps"):
        TripIn.model_validate(fast.model_dump() | {"gaps": [1]})
    with pytest.raises(ValueError, match="speeds_ms"):
        TripIn(trip_id="a", edges=edges, driven_at=NOW, total_energy_wh=1.0, speeds_ms=[0.0, 1e9])


@pytest.mark.parametrize("offset", ["+00:00", "+05:30"])
def test_trips_without_what_came_later_have_the_checksum_they_always_had(offset: str) -> None:
    edges, _ = trip_between(CITY, np.random.default_rng(5))
    whole, when = {"first": 0, "last": 3, "energy_wh": 5.0}, f"2026-03-01T12:00:00{offset}"
    plain = TripIn.model_validate(
        {"trip_id": "a", "edges": edges, "driven_at": when, "spans": [whole]}
    )
    utc = {"+00:00": "2026-03-01T12:00:00Z", "+05:30": "2026-03-01T06:30:00Z"}[offset]
    body: dict[str, object] = {"route_id": None, "edges": edges, "gaps": [], "vehicle": None}
    body |= {"driven_at": utc, "edge_energy_wh": None, "spans": [whole], "total_energy_wh": None}
    known = hashlib.sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()
    assert content_digest(plain) == known
    for change in (
        {"speeds_ms": [0.0] * (len(edges) + 1)},
        {"duration_s": 3.0},
        {"edge_duration_s": [1.0] * len(edges)},
        {"temperature_c": 0.0},
        {"payload_kg": 0.0},
    ):
        assert content_digest(plain.model_copy(update=change)) != known


def test_a_trip_is_kept_once_and_other_content_is_refused(database: Database) -> None:
    store = store_of(database)
    assert [o.status for o in store.keep([reported(1), reported(1), reported(2)])] == [
        "accepted",
        "duplicate",
        "accepted",
    ]
    other = reported(3).trip.model_copy(update={"trip_id": "t1"})
    found = store.keep([checked(other), checked(other, "someone"), reported(2)])
    assert [o.status for o in found] == ["conflict", "accepted", "duplicate"]
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


def in_pieces(database: Database, at_most: int) -> Blocks:
    """Return how to read trips all of which have been compared before."""
    with database.reading() as connection:
        newest = int(connection.execute(text("SELECT max(sequence) FROM trips")).scalar_one())
    state = store_state(database, 0, newest, "{}")
    assert state is not None
    return Blocks(state, lambda number: number + 16, at_most=at_most)


@pytest.mark.parametrize("at_most", [1, 3, 4, 100])
def test_trips_read_in_pieces_are_all_read_and_once(database: Database, at_most: int) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i, total=i % 2 == 0) for i in range(9)])
    blocks = in_pieces(database, at_most)
    cursor, seen, pieces = Cursor(), [], 0
    belief, visits = FLEET.prior(), np.zeros(CITY.n_edges)
    while True:
        news = history.since(cursor, blocks)
        assert news.restart == (pieces == 0)
        assert news.trips <= at_most
        assert news.oldest_us == 0  # nobody waits for what is old
        parts = [part for part in history.again(news) if isinstance(part, list)]
        found = [one.sequence for part in parts for one in part]
        assert len(found) == news.trips
        seen += found
        assert news.singly == ()  # they were compared with predictions long ago
        cursor, pieces = news.cursor, pieces + 1
        belief = belief.condition_evidence(news.evidence)
        visits = visits + news.visits
        if cursor.number == blocks.held.reached and news.trips < at_most:
            break
    assert not news.more
    assert pieces == 9 // at_most + 1
    store.keep([reported(9)])
    later = history.since(cursor, blocks)
    assert later.trips == 1
    assert later.oldest_us > 0
    assert len(later.singly) == 1
    assert len(set(seen)) == len(seen) == 9
    belief, visits = belief.condition_evidence(later.evidence), visits + later.visits
    assert_same_belief((belief, visits, 10), believed(database))


def test_a_piece_may_end_with_a_trip_that_makes_no_sense(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i) for i in range(6)])
    blocks = in_pieces(database, 2)
    first = history.since(Cursor(), blocks)
    with database.engine.begin() as connection:
        last = first.cursor.sequence + 2
        spoil = text("UPDATE trips SET vehicle = '\"x\"' WHERE sequence = :last")
        connection.execute(spoil, {"last": last})
    second = history.since(first.cursor, blocks)
    assert (second.trips, second.unreadable, second.more) == (1, 1, True)
    third = history.since(second.cursor, replace(blocks, at_most=5), again=False)
    assert (third.trips, third.restart, third.more) == (2, False, False)


def test_a_history_that_changes_between_pieces_is_read_again(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i) for i in range(6)])
    blocks = in_pieces(database, 2)
    piece = history.since(Cursor(), blocks)
    assert history.fold(now_us() + 1) == 6
    again = history.since(piece.cursor, blocks)
    assert again.restart
    assert again.trips == 6
    assert not again.more
    assert_same_belief(
        (FLEET.prior().condition_evidence(again.evidence), again.visits, 6), believed(database)
    )


def test_blocks_are_read_up_to_their_ends_and_one_by_one(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i) for i in range(10)])
    with database.reading() as connection:
        first = int(connection.execute(text("SELECT min(sequence) FROM trips")).scalar_one())
    blocks = Blocks(DeviceState(), lambda number: max(number, first - 1) + 4)
    cursor, sizes = Cursor(), []
    for ends in (False, True, True, False):  # what is known is no trip's; two are whole
        news = history.since(cursor, blocks)
        sizes.append(len(news.singly))
        assert news.trips == sizes[-1]
        assert (news.cursor.number > cursor.number) == ends
        assert news.more == (ends or not sizes[1:])
        cursor = news.cursor
        if ends:
            state = store_state(database, 0, cursor.number, "{}")
            assert state is not None
            blocks = replace(blocks, held=state)
    assert sizes == [0, 4, 4, 2]
    assert history.since(cursor, blocks).trips == 0
    end = cursor.sequence
    ended = history.since(cursor, replace(blocks, cut=lambda _: end, closing=True))
    assert ended.cursor.number == end
    assert not ended.more


def test_folding_changes_no_belief_and_forgets_no_id(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i, key=f"k{i % 2}", total=i % 3 == 0) for i in range(10)])
    before, sums = believed(database), store.calibration()["k1", "car"]
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
    assert [o.status for o in again] == ["duplicate", "accepted", "duplicate"]
    assert store.calibration()["k1", "car"] == sums
    assert before[2] == 10
    with database.engine.connect() as connection:
        left = connection.execute(text("SELECT count(*) FROM trips")).scalar()
    assert left == 5
    assert history.fold(now_us()) == 5  # a second fold adds to the first
    assert believed(database)[2] == 15


def test_calibration_survives_folding(database: Database) -> None:
    store = store_of(database)
    drivetrain = FLEET.drivetrain(CLASSES["car"])
    z = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        start, goal = rng.choice(CITY.n_edges, 2, replace=False)
        answer = Router(CITY).answer(
            RouteQuery(start=int(start), goal=int(goal)), PRIOR, drivetrain, rng
        )
        route = answer.route
        issued = IssuedRoute(route.edges, CLASSES["car"], route.mean_wh, route.std_wh, 1.0, 0)
        trip = TripIn(
            trip_id=f"r{seed}",
            route_id=TOKENS.written(issued),
            driven_at=NOW,
            total_energy_wh=route.mean_wh + 0.3 * rng.normal() * route.std_wh,
        )
        item = checked(trip)
        z.append(item.z)
        assert store.keep([item])[0].status == "accepted"
    for _ in range(2):
        sums = store.calibration()["k", "car"]
        assert sums.trips == sums.routed == 6
        assert_allclose([sums.z, sums.squares], [sum(z), sum(v * v for v in z)], atol=1e-9)
        assert sums.inside == sum(abs(v) <= 1.6448536 for v in z)
        if (recent := store.recent()).trips:
            assert_allclose(recent, sums)
        History(database, READER).fold(now_us())
    assert store.recent().trips == 0  # recent ones are not folded
    store.keep([reported(9)])
    assert store.delete_trip("k", "t9")
    left = store.calibration()["k", "car"]
    assert_allclose(left, sums, atol=1e-6)


def test_a_key_set_aside_is_not_learned_from_until_it_is_let_in_again(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i, key="good") for i in range(4)])
    good = believed(database)
    store.keep([reported(i, key="bad") for i in range(4, 8)])
    history.fold(now_us())
    store.keep([reported(i, key="bad") for i in range(8, 10)])
    everything = believed(database)
    assert set_aside(database, {"bad": "reads nonsense"}) == ["bad"]
    assert set_aside(database, {"bad": "again"}) == []
    assert_same_belief(believed(database), good)
    outcome = store.keep([reported(11, key="bad")])[0]
    assert outcome.status == "quarantined"
    assert "reads nonsense" in str(outcome.detail)
    assert let_in(database, "bad")
    assert not let_in(database, "bad")
    assert believed(database)[2] == everything[2]
    assert store.keep([reported(11, key="bad")])[0].status == "accepted"


@pytest.mark.parametrize(
    "damage",
    [
        {"edges": b"abc"},
        {"edges": b"\xff\xff\xff\x7f" * 12},
        {"spans": b""},
        {"energies_wh": b"\x00" * 3},
        {"energies_wh": np.full(12, np.nan).tobytes()},
        {"vehicle": "no vehicle"},
        {"vehicle": "[1, 2"},
        {"vehicle": "[5e-324, 5e-324, 5e-324, 5e-324, 5e-324, 5e-324, 5e-324, 5e-324]"},
        {"vehicle": "[1e308, 1, 1e308, 1e308, 1, 1, 1e308, 1e308]"},
        {"spread": float("inf")},
        {"spread": -1.0},
    ],
)
def test_no_stored_trip_keeps_others_from_being_learned(
    database: Database, damage: dict[str, Any]
) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i) for i in range(7)])
    name, value = next(iter(damage.items()))
    if name == "spread" and database.is_sqlite and value == float("inf"):
        value = 1e308
    with database.engine.begin() as connection:
        statement = text(f"UPDATE trips SET {name} = :value WHERE trip_id = 't3'")  # noqa: S608
        connection.execute(statement, {"value": value})
    news = history.since(Cursor())
    assert np.isfinite(news.evidence.weighted).all()
    assert news.trips == 6 + (news.unreadable == 0)
    if news.unreadable:
        state = store.state_of("k", "t3", 10**9)
        assert state is not None
        assert state["state"] == "quarantined"
    again = history.since(Cursor())
    assert (again.trips, again.unreadable) == (news.trips, 0)
    assert not history.since(again.cursor).restart
    mean = FLEET.prior().condition_evidence(again.evidence).mean
    assert np.isfinite(mean).all()


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
    _, key = ring.add("fleet", "report")
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
    with one.engine.begin() as connection:  # both have reported before
        standings_of(connection, ["k", "other"], 4)
    history = History(one, READER)
    cursor = history.since(Cursor()).cursor
    slow = two.engine.connect()
    waiting = slow.begin()
    store = store_of(two)
    number, how = _number(slow), standings_of(slow, ["k"], 4)["k"]
    kept = store._keep_one(slow, reported(1), number, (), how, {}, False)  # noqa: SLF001
    assert kept.status == "accepted"
    store_of(one).keep([reported(2, key="other")])
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
    numbers = [trip["sequence"] for trip in store_of(one).stored_trips(0, 10, 0)]
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
    identity = ring.add("fleet", "report")[0].id
    assert store.keep([reported(1, key=identity)])[0].status == "accepted"
    ring.revoke(identity)
    purge(database, identity)
    assert store.keep([reported(2, key=identity)])[0].status == "rejected"
    assert believed(database)[2] == 0


def test_keys_of_one_name_share_their_trip_ids(database: Database) -> None:
    store = store_of(database)
    trip = reported(1).trip
    found = store.keep([checked(trip, "old", "fleet"), checked(trip, "new", "fleet")])
    assert [o.status for o in found] == ["accepted", "duplicate"]
    other = store.keep([checked(trip, "new", "another fleet")])
    assert [o.status for o in other] == ["accepted"]


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


def test_folding_changes_nothing_for_keys_without_a_slot(database: Database) -> None:
    store, history = TripStore(database, CITY, 0), History(database, READER)
    store.keep([reported(i, key="late", total=i % 2 == 0) for i in range(12)])
    before = believed(database)
    assert history.fold(now_us()) == 12
    after = believed(database)
    # folded trips of one key share its gain, single ones have a noise each: close, not equal
    assert_allclose(after[0].variance, before[0].variance, rtol=0.3)
    assert_allclose(after[0].mean, before[0].mean, atol=0.3 * np.sqrt(before[0].variance.max()))
    assert after[2] == before[2]


def test_a_fold_puts_aside_what_it_cannot_sum_up(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i) for i in range(5)])
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE trips SET vehicle = 'no vehicle' WHERE trip_id = 't2'"))
    assert history.fold(now_us()) in {4, 5}
    assert believed(database)[2] == 4
    state = store.state_of("k", "t2", 10**9)
    assert state is not None
    assert state["state"] == "quarantined"


def test_what_was_read_can_be_read_once_more_in_pieces(database: Database) -> None:
    store, history = store_of(database), History(database, READER)
    store.keep([reported(i) for i in range(6)])
    history.fold(now_us())
    store.keep([reported(i) for i in range(6, 11)])
    news = history.since(Cursor())
    counts = [
        piece.trips if isinstance(piece, FoldedTrips) else len(piece)
        for piece in history.again(news)
    ]
    assert counts == [6, 5]
    cursor = news.cursor
    store.keep([reported(i) for i in range(11, 14)])
    later = history.since(cursor)
    assert [len(piece) for piece in history.again(later)] == [3]  # type: ignore[arg-type]


def test_a_trip_sent_again_into_quarantine_is_the_same_trip(database: Database) -> None:
    store = store_of(database)
    absurd = reported(1).trip.model_copy(update={"edge_energy_wh": None, "total_energy_wh": 1e7})
    assert [store.keep([checked(absurd)])[0].again for _ in range(3)] == [False, True, True]


def test_batches_in_any_order_do_not_lock_each_other(cluster: str, tmp_path: Path) -> None:
    url = fresh_database(cluster, f"{tmp_path.name}-order")
    databases = [Database(url), Database(url)]
    databases[0].migrate()
    databases[0].claim(FLEET.fingerprint(), demo=False)
    problems: list[BaseException] = []

    def keep(place: int) -> None:
        store = store_of(databases[place])
        try:
            for number in range(40):
                items = [reported(1000 * place + 2 * number + i, key="ab"[i]) for i in range(2)]
                store.keep(items[:: 1 if place else -1])
        except BaseException as error:  # noqa: BLE001 - looked at below
            problems.append(error)

    workers = [threading.Thread(target=keep, args=(place,)) for place in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert problems == []
    for one in databases:
        one.close()


def test_the_quarantine_is_forgotten_in_small_steps(database: Database) -> None:
    store = store_of(database)
    absurd = reported(1).trip.model_copy(update={"edge_energy_wh": None, "total_energy_wh": 1e8})
    for _ in range(3):  # sent again and again, kept once
        assert store.keep([checked(absurd)])[0].status == "quarantined"
    assert store.counts() == (0, 1)
    assert forget_quarantined(database, now_us() + 1) == 1
    assert store.counts() == (0, 0)


def test_a_quarantine_that_is_full_takes_no_more(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superarm.service.trips.store.MOST_QUARANTINED", 3)
    store = store_of(database)
    absurd = reported(1).trip.model_copy(update={"edge_energy_wh": None, "total_energy_wh": 1e8})
    items = [checked(absurd.model_copy(update={"trip_id": f"q{i}"})) for i in range(5)]
    found = [outcome.status for outcome in store.keep(items)]
    assert found == ["quarantined"] * 3 + ["rejected"] * 2
    assert store.counts() == (0, 3)


def migrated(connection: Connection, revision: str, *, down: bool = False) -> None:
    """Bring tables to a revision."""
    config = Config()
    scripts = Path(superarm.service.__file__).parent / "migrations"
    config.set_main_option("script_location", str(scripts))
    config.attributes["connection"] = connection
    (command.downgrade if down else command.upgrade)(config, revision)


def test_a_database_with_trips_of_an_earlier_model_is_refused(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "old.db"))
    with database.engine.begin() as connection:
        migrated(connection, "0001")
        columns = "xact, key_id, owner, trip_id, content_sha256, received_at, driven_at, vehicle"
        connection.execute(
            text(
                f"INSERT INTO trips ({columns}, edges, spans, energies_wh) "  # noqa: S608
                "VALUES (0, 'k', 'k', 't', 'x', 0, 0, '', '', '', '')"
            )
        )
    with pytest.raises(DataError, match="1 trips of an earlier model"):
        database.migrate()
    with database.engine.connect() as connection:  # nothing was lost
        assert connection.execute(text("SELECT count(*) FROM trips")).scalar() == 1
    database.close()


@pytest.mark.parametrize("trips", [3, 20_050])
def test_a_database_of_before_begins_with_its_last_trips(database: Database, trips: int) -> None:
    """In one step, whichever version it was of; of a long history the last trips are compared."""
    store_of(database).keep([reported(1)])
    with database.engine.begin() as connection:
        migrated(connection, "0005", down=True)
        connection.execute(text("UPDATE trips SET sequence = :trips"), {"trips": trips})
    database.migrate()
    with database.reading() as connection:
        state = read_state(connection)
    assert (state.reached, state.revision) == ((0, 0) if trips == 3 else (50, 1))
    assert believed(database)[2] == 1


def test_another_model_learns_the_same_trips_but_for_folded_ones(database: Database) -> None:
    store = store_of(database)
    store.keep([reported(1), reported(2)])
    later = f"{CITY.fingerprint()}-later"
    database.claim(later, demo=False)
    assert believed(database)[2] == 2
    with pytest.raises(DataError, match="another network"):
        database.claim("other-later", demo=False)
    assert History(database, READER).fold(now_us() + 1) == 2
    database.claim(later, demo=False)
    with pytest.raises(DataError, match="earlier model has folded"):
        database.claim(FLEET.fingerprint(), demo=False)


def test_large_networks_learn_from_rows_and_their_sums_are_those_of_evidence(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What trips say as rows is what it says summed up, read at once, in pieces or folded."""
    monkeypatch.setattr("superarm.service.trips.history._AT_ONCE", 5)
    store_of(database).keep([reported(i, total=i % 2 == 0) for i in range(12)])
    summed = History(database, READER).since(Cursor()).evidence
    reader = Reader(FLEET, Observations)
    rows = History(database, reader).since(Cursor()).evidence
    assert rows.keys is not None
    assert np.unique(rows.keys).size == rows.n_rows
    scale = np.abs(summed.precision.toarray()).max()
    assert History(database, reader).fold(now_us() + 1) == 12
    folded = History(database, reader).since(Cursor()).evidence
    for found in (rows, folded):
        there = found.evidence()
        assert_allclose(there.precision.toarray(), summed.precision.toarray(), atol=1e-9 * scale)
        assert_allclose(there.weighted, summed.weighted, rtol=1e-9, atol=1e-9 * scale)
        assert found.count == summed.count
    assert folded.keys is not None
    assert_array_equal(np.sort(folded.keys), np.sort(rows.keys))
    # a belief that holds all covariances does not read them: it says so instead of guessing
    exact = FLEET.prior().condition_evidence(folded.evidence())
    prior = EnsembleGP.from_kernel(FLEET.arms, FLEET.kernel, 1.0, n_draws=3, tolerance=1e-6)
    assert_allclose(prior.condition_evidence(folded).mean, exact.mean, atol=1e-3)


def test_what_was_folded_as_sums_is_read_as_rows(database: Database) -> None:
    store_of(database).keep([reported(i, total=True) for i in range(3)])
    summed = History(database, READER).since(Cursor()).evidence
    assert History(database, READER).fold(now_us() + 1) == 3
    rows = History(database, Reader(FLEET, Observations)).since(Cursor()).evidence.evidence()
    scale = np.abs(summed.precision.toarray()).max()
    assert_allclose(rows.precision.toarray(), summed.precision.toarray(), atol=1e-8 * scale)
