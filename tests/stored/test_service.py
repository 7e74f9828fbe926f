"""What a service of an earlier version has kept: its database, its route ids, its snapshots."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from parts import require_command, require_module
from services import fresh_database, postgresql
from stored.files import DATA, assert_same, read_json, unpack
from superarm import DataError
from superarm.roads.network import RoadNetwork
from superarm.saving import load_value

require_module("fastapi", "service")

from alembic.autogenerate import compare_metadata  # noqa: E402
from alembic.migration import MigrationContext  # noqa: E402
from sqlalchemy import (  # noqa: E402
    inspect,
    select,
    text,
)

from stored.asking.service import (  # noqa: E402
    ask_belief,
    ask_database,
    ask_folded,
    ask_route,
    ask_sums,
)
from superarm.roads.models.fleet import MODEL_VERSION, Fleet  # noqa: E402
from superarm.roads.models.likelihood import Reader  # noqa: E402
from superarm.roads.models.posterior import RoadPosterior  # noqa: E402
from superarm.roads.vehicle import CLASSES, Vehicle  # noqa: E402
from superarm.service import tables  # noqa: E402
from superarm.service.database import Database  # noqa: E402
from superarm.service.http.keys import KeyRing  # noqa: E402
from superarm.service.learning.snapshots import Snapshots  # noqa: E402
from superarm.service.routes.tokens import RouteTokens, UnknownRouteError  # noqa: E402
from superarm.service.trips.intake import Intake  # noqa: E402
from superarm.service.trips.packing import content_digest  # noqa: E402
from superarm.service.trips.quarantine import quarantined  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402
from superarm.service.trips.standings import Standing  # noqa: E402
from superarm.service.trips.store import TripStore  # noqa: E402

STORED = DATA / "service"
EXACT = 1e-12
"""Of numbers that are stored as they are; texts of JSON hold all of their digits."""

SOLVED = 1e-8
"""Of means and deviations, which follow from stored sums by solves of condition numbers up to
1e6: priors of roads over the noise of trips."""


@cache
def fleet() -> Fleet:
    return Fleet(RoadNetwork.load(STORED / "network.npz"))


@cache
def truth(name: str) -> Any:
    return read_json(STORED / f"{name}.json.gz")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_command("pg_ctlcluster", "postgresql")
    with postgresql(tmp_path_factory.mktemp("pg")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A copy of the database of migration 0005, opened as a server opens it."""
    if request.param == "sqlite":
        path = tmp_path / "trips.db"
        path.write_bytes(gzip.decompress((STORED / "0005.db.gz").read_bytes()))
        opened = Database(str(path))
    else:
        url = fresh_database(request.getfixturevalue("cluster"), tmp_path.name)
        restore(url, gzip.decompress((STORED / "0005.postgresql.sql.gz").read_bytes()))
        opened = Database(url)
    opened.migrate()
    opened.adopt_restored_trips()
    yield opened
    opened.close()


def restore(url: str, dump: bytes) -> None:
    """Run what pg_dump has written."""
    import psycopg  # noqa: PLC0415 - an optional part

    with psycopg.connect(url) as connection:
        connection.execute(dump)


def test_it_upgrades_in_one_step_to_the_tables_of_today(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, tables.metadata) == []


def test_every_trip_key_and_sum_is_read_as_it_was_written(database: Database) -> None:
    says, expected = ask_database(database, fleet()), dict(truth("0005")["says"])
    facts = dict(expected.pop("facts"))
    epoch = int(facts.pop("epoch"))
    assert_same(says, expected, EXACT)
    assert_same(says["facts"], facts, EXACT)
    assert int(says["facts"]["epoch"]) >= epoch  # beliefs may begin again
    assert len(says["trips"]) > 80
    assert_same(ask_folded(database, fleet()), truth("0005")["folded"], EXACT)


def test_vehicles_that_were_stored_by_position_are_stored_by_name(database: Database) -> None:
    with database.engine.connect() as connection:
        texts = set(connection.execute(select(tables.trips.c.vehicle)).scalars())
    named = [json.loads(text) for text in texts - set(CLASSES)]
    assert named
    for numbers in named:
        assert list(numbers) == sorted(field.name for field in fields(Vehicle))


def test_the_same_is_believed_or_the_folded_trips_are_refused(database: Database) -> None:
    if truth("0005")["model"] != MODEL_VERSION:
        with pytest.raises(DataError, match="trips that an earlier model has folded"):
            database.claim(fleet().fingerprint(), demo=False)
        return
    database.claim(fleet().fingerprint(), demo=False)
    assert_same(ask_belief(database, fleet()), truth("0005")["belief"], SOLVED)


def test_keys_open_what_they_opened(database: Database) -> None:
    ring = KeyRing(database)
    ring.refresh()
    roles = {name: ring.check(secret) for name, secret in truth("0005")["texts"].items()}
    assert {name: key and key.role for name, key in roles.items()} == {
        "van fleet": "report",
        "cars": "report",
        "sold": "report",
        "vouched": "report",
        "page": "read",
        "operator": "admin",
        "gone": None,  # revoked
        "late": None,  # expired
    }


def test_trips_sent_again_are_known_and_quarantined_ones_are_released(database: Database) -> None:
    reader: Reader[Any] = Reader.of(fleet())
    network, belief = fleet().network, fleet().prior()
    posterior = RoadPosterior.of(fleet(), belief, reader.visits(()), trips=0)
    tokens = RouteTokens(network, database.route_secret())
    store = TripStore(database, network, fleet().n_slots)
    intake = Intake(network, reader, tokens)
    (key,) = (key for key in KeyRing(database).all() if key.name == "van fleet")
    sent = [TripIn.model_validate_json(report["sent"]) for report in truth("reports")]
    again = [*sent[:40:4], *sent[60:90:3]]  # folded, and not; by edges, and by route ids
    items = intake.checked(again, key.id, key.name, Standing(key.id), posterior)
    assert {outcome.status for outcome in store.keep(items)} == {"duplicate"}
    other = [trip.model_copy(update={"driven_at": sent[2].driven_at}) for trip in sent[60:62]]
    items = intake.checked(other, key.id, key.name, Standing(key.id), posterior)
    assert {outcome.status for outcome in store.keep(items)} == {"conflict"}
    (row,) = (row for row in quarantined(database, 0, 100) if row["kind"] == "implausible")
    trip = TripIn.model_validate_json(row["body"])
    (item,) = intake.checked([trip], row["key_id"], row["owner"], Standing(key.id), posterior)
    released = store.release(item, row["sequence"])
    assert released is not None
    assert released.status == "accepted"


def test_comparisons_are_there_or_gone_as_a_whole(database: Database) -> None:
    names = set(inspect(database.engine).get_table_names())
    if "comparisons" not in tables.metadata.tables:  # removed in 0.2
        assert "comparisons" not in names
        return
    with database.reading() as connection:
        rows = connection.execute(text("SELECT * FROM comparisons ORDER BY trip_id, rival"))
        assert_same([list(row) for row in rows], truth("0005")["comparisons"], EXACT)


def test_route_ids_are_read_as_they_were_issued() -> None:
    stored = truth("routes")
    tokens = RouteTokens(fleet().network, bytes.fromhex(stored["secret"]))
    for route in stored["routes"]:
        assert_same(ask_route(tokens.read(route["route_id"])), route["says"], EXACT)
    with pytest.raises(UnknownRouteError):
        RouteTokens(fleet().network, b"other").read(stored["routes"][0]["route_id"])


def test_reports_have_the_digests_they_had() -> None:
    reports = truth("reports")
    assert len(reports) == 200
    trips = [TripIn.model_validate_json(report["sent"]) for report in reports]
    digests = [content_digest(trip) for trip in trips]
    assert digests == [report["digest"] for report in reports]
    assert len(set(digests)) == 200


@pytest.mark.parametrize("kind", ["dense", "ensemble"])
def test_a_snapshot_of_an_earlier_version_is_left_alone(kind: str, tmp_path: Path) -> None:
    """It holds what was known of devices, which the database keeps now: trips are read again."""
    says = truth("snapshots")
    prior = load_value(STORED / "ensemble-prior.superarm")
    unpack(STORED / f"snapshot-{kind}.tar.gz", tmp_path)
    before = sorted(tmp_path.rglob("*"))

    def resumed(state: Any) -> Any:
        return state.resumed(prior["prior"], prior["root"])

    mark, times = fleet().fingerprint(), fleet().time_model
    learned, problems = Snapshots(tmp_path, mark, says["database"], times, resumed).newest()
    assert learned is None
    assert any("earlier version" in problem or "of another" in problem for problem in problems)
    assert sorted(tmp_path.rglob("*")) == before


def test_folded_trips_of_large_networks_are_read() -> None:
    data = gzip.decompress((STORED / "folded-rows.npz.gz").read_bytes())
    assert_same(ask_sums(data, fleet()), truth("folded-rows"), EXACT)
