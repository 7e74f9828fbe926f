"""Nothing acknowledged is lost, nothing is learned twice: real servers, really killed."""

import http.client
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from parts import require_command, require_module
from services import (
    Server,
    add_key,
    eventually,
    fresh_database,
    postgresql,
    running,
    small_city,
    trip_between,
)
from superarm.roads.network import RoadNetwork

require_module("fastapi", "service")

from superarm.roads.models.fleet import Fleet  # noqa: E402
from superarm.roads.models.likelihood import Reader  # noqa: E402
from superarm.service.database import Database  # noqa: E402
from superarm.service.learning.snapshots import Learned, Snapshots  # noqa: E402
from superarm.service.trips.device_state import read_state  # noqa: E402
from superarm.service.trips.history import Blocks, Cursor, History  # noqa: E402

LONG = os.environ.get("SUPERARM_FAULTS") == "1"
KILLS = 75 if LONG else 20
LEARNER_KILLS = 30 if LONG else 3
CITY = small_city()
WHEN = "2026-03-01T10:00:00Z"
A_BLOCK = 20  # trips that end the first block, so that there is something to save


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, str, str]:
    """A folder with a network, a database in it, and an admin's key."""
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "trips.db")
    return tmp_path, database, add_key(database, "admin")


def options(database: str, *more: str) -> list[str]:
    return ["--network", "city.npz", "--database", database, "--rate", "1000000", *more]


def snapshots_in(folder: Path, url: str, network: RoadNetwork = CITY) -> Snapshots:
    database = Database(url)
    identity = database.identity()
    database.close()
    fleet = Fleet(network)
    return Snapshots(folder, fleet.fingerprint(), identity, fleet.time_model, fleet.resumed)


def newest_snapshot(database: str, network: RoadNetwork = CITY) -> Learned:
    folder = Path(f"{database}-state") / "snapshots"
    learned, problems = snapshots_in(folder, database, network).newest()
    assert learned is not None
    assert problems == []
    return learned


def assert_as_rebuilt(learned: Learned, url: str) -> None:
    """The belief equals the one made at once from all trips of the blocks it knows."""
    fleet = Fleet(CITY)
    database = Database(url)
    with database.reading() as connection:
        state = read_state(connection)
    assert learned.cursor.number == state.reached
    blocks = Blocks(state, lambda _: state.reached)
    news = History(database, Reader.of(fleet)).since(Cursor(), blocks)
    database.close()
    expected: Any = fleet.prior().condition_evidence(news.evidence)
    found: Any = learned.belief
    assert learned.trips == news.trips
    assert_array_equal(learned.visits, news.visits)
    assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-9)
    assert_allclose(found.matrix, expected.matrix, rtol=0, atol=1e-9)


def has_ended_a_block(url: str) -> bool:
    database = Database(url)
    try:
        with database.reading() as connection:
            return read_state(connection).reached > 0
    finally:
        database.close()


def kill_learner(server: Server) -> None:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    if pids := children.read_text().split():
        os.kill(int(pids[0]), signal.SIGKILL)


def all_trips(server: Server) -> list[str]:
    found: list[str] = []
    after = 0
    while some := server.client().trips(after=after, limit=1000):
        found += [trip["trip_id"] for trip in some]
        after = some[-1]["sequence"]
    return found


class Fleetful:
    """Clients that report trips, one at a time and in batches, and note what was acknowledged."""

    def __init__(self, seed: int) -> None:
        self.acknowledged: set[str] = set()
        self.sent: dict[str, dict[str, Any]] = {}
        self._rng = np.random.default_rng(seed)
        self._open: list[str] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, server: Server, clients: int = 3) -> None:
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._report, args=(server, number), daemon=True)
            for number in range(clients)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _next(self, count: int) -> list[dict[str, Any]]:
        with self._lock:
            again, self._open = self._open[:count], self._open[count:]
            while len(again) < count:
                edges, energies = trip_between(CITY, self._rng, 6)
                name = f"trip-{len(self.sent)}"
                trip: dict[str, Any] = {
                    "trip_id": name,
                    "edges": edges,
                    "driven_at": "2026-03-01T10:00:00Z",
                }
                match len(self.sent) % 3:
                    case 0:
                        trip["total_energy_wh"] = sum(energies)
                    case 1:
                        trip["edge_energy_wh"] = energies
                    case _:
                        parts = ((0, 1), (2, 5))
                        trip["spans"] = [
                            {"first": f, "last": e, "energy_wh": sum(energies[f : e + 1])}
                            for f, e in parts
                        ]
                self.sent[name] = trip
                again.append(name)
            return [self.sent[name] for name in again]

    def _report(self, server: Server, number: int) -> None:
        while not self._stop.is_set():
            trips = self._next(1 if number else 40)
            names = [trip["trip_id"] for trip in trips]
            body = trips[0] if len(trips) == 1 else {"trips": trips}
            try:
                answer = server.ask("POST", "/v1/trips", body)
                # what is put aside is safe, too; of a thousand honest trips one is
                fine = answer.status in {200, 201}
                if answer.status in {207, 422} and isinstance(body, dict):
                    rows = answer.json.get("trips", [answer.json])
                    kept = {row["trip_id"] for row in rows if row["status"] != "quarantined"}
                    names, fine = [name for name in names if name in kept], True
            except (OSError, http.client.HTTPException, ValueError):  # cut off in the middle
                fine = False
            with self._lock:
                if fine:
                    self.acknowledged |= set(names)
                else:
                    self._open += names
            if not fine:
                time.sleep(0.02)


@pytest.mark.slow
def test_every_acknowledged_trip_survives_being_killed(place: tuple[Path, str, str]) -> None:
    folder, database, key = place
    rng = np.random.default_rng(11)
    fleet = Fleetful(1)
    snapshots = Path(f"{database}-state") / "snapshots"
    while_writing = 0
    server = Server(*options(database, "--snapshot-every", "20"), folder=folder)
    server.key = key
    for number in range(KILLS):
        server.ready()
        # of one client's trips all are learned at once, so that a snapshot ends every block
        one_by_one = number % 2 == 0
        fleet.start(server, clients=1 if one_by_one else 3)
        time.sleep(rng.uniform(0.05, 0.6))
        if one_by_one:  # wait for a snapshot to be written just now
            until = time.monotonic() + 60
            while not list(snapshots.glob(".writing-*")) and time.monotonic() < until:
                pass
            kill_learner(server)  # first, since a snapshot takes less time than a server's end
        server.kill()
        while_writing += bool(list(snapshots.glob(".writing-*")))
        fleet.end()
        server.start()
    server.ready()
    stored = all_trips(server)
    assert len(stored) == len(set(stored))  # exactly once
    assert fleet.acknowledged <= set(stored)
    assert len(fleet.acknowledged) > 20 * KILLS
    assert while_writing > 0
    server.learned(len(stored))
    assert server.stop() == 0
    assert_as_rebuilt(newest_snapshot(database), database)


def test_sigterm_drains(place: tuple[Path, str, str]) -> None:
    folder, database, key = place
    fleet = Fleetful(2)
    with running(folder, *options(database), key=key) as server:
        fleet.start(server)
        eventually(lambda: len(fleet.acknowledged) > 40 and has_ended_a_block(database))
        assert server.stop() == 0
        fleet.end()
    assert_as_rebuilt(newest_snapshot(database), database)
    with running(folder, *options(database), key=key) as server:
        stored = all_trips(server)
        assert fleet.acknowledged <= set(stored)
        assert len(stored) == len(set(stored))
        server.learned(len(stored))
        server.stop()


def test_a_damaged_snapshot_is_set_aside_and_the_belief_made_again(
    place: tuple[Path, str, str],
) -> None:
    folder, database, key = place
    snapshots = Path(f"{database}-state") / "snapshots"
    with running(folder, *options(database), key=key) as server:
        edges, energies = trip_between(CITY, np.random.default_rng(0))
        client = server.client()
        for number in range(A_BLOCK):
            client.report(f"t{number}", WHEN, edges=edges, total_energy_wh=sum(energies))
        server.learned(A_BLOCK)
        server.stop()
    for path in snapshots.glob("*/belief"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with running(folder, *options(database), key=key) as server:
        server.learned(A_BLOCK)
        assert list(snapshots.glob("damaged-*"))
        assert any("set aside" in line for line in server.lines)
        server.stop()
    assert_as_rebuilt(newest_snapshot(database), database)


def test_a_learner_that_dies_is_started_again(place: tuple[Path, str, str]) -> None:
    folder, database, key = place
    with running(folder, *options(database), key=key) as server:
        edges, energies = trip_between(CITY, np.random.default_rng(0))
        client = server.client()
        for number in range(A_BLOCK - 1):
            client.report(f"t{number}", WHEN, edges=edges, total_energy_wh=sum(energies))
        server.learned(A_BLOCK - 1)
        kill_learner(server)
        query = {"start": edges[0], "goal": edges[-1]}
        assert server.ask("POST", "/v1/routes", query).status == 200  # the posterior is still there
        client.report("last", WHEN, edges=edges, total_energy_wh=sum(energies))
        server.learned(A_BLOCK)
        assert server.ask("POST", "/v1/routes", query).status == 200
        server.stop()
    assert_as_rebuilt(newest_snapshot(database), database)


@pytest.mark.slow
def test_a_learner_killed_while_it_writes_a_snapshot(place: tuple[Path, str, str]) -> None:
    folder, database, key = place
    snapshots = Path(f"{database}-state") / "snapshots"
    fleet = Fleetful(9)
    with running(folder, *options(database, "--snapshot-every", "5"), key=key) as server:
        fleet.start(server, clients=1)
        for _ in range(LEARNER_KILLS):
            until = time.monotonic() + 20
            while not list(snapshots.glob(".writing-*")) and time.monotonic() < until:
                pass
            kill_learner(server)
            time.sleep(0.5)
        fleet.end()
        stored = all_trips(server)
        assert fleet.acknowledged <= set(stored)
        server.learned(len(stored))
        assert server.stop() == 0
    assert_as_rebuilt(newest_snapshot(database), database)


def test_retained_trips_are_folded_while_serving(place: tuple[Path, str, str]) -> None:
    folder, database, key = place
    with running(folder, *options(database), key=key) as server:
        edges, energies = trip_between(CITY, np.random.default_rng(0))
        for number in range(4):
            server.client().report(
                f"t{number}", edges=edges, edge_energy_wh=energies, driven_at=WHEN
            )
        server.learned(4)
        before = server.client().belief()
        server.stop()
    with running(folder, *options(database, "--retain-days", "0.0000001"), key=key) as server:
        stats = server.learned(4)
        assert stats["trips"] == 4
        assert server.client().trips() == []
        assert server.client().belief() == before
        client = server.client()
        again = client.report("t1", edges=edges, edge_energy_wh=energies, driven_at=WHEN)
        assert again["status"] == "duplicate"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--network", "other.npz"], "another network or model"),
        (["--demo"], "is no demo"),
    ],
)
def test_a_database_of_something_else_is_refused(
    place: tuple[Path, str, str], more: list[str], message: str
) -> None:
    folder, database, key = place
    small_city(600).save(folder / "other.npz")
    with running(folder, *options(database), key=key) as server:
        server.stop()
    with pytest.raises(AssertionError, match=message):
        Server(*more, "--database", database, folder=folder).ready()


def test_a_demo_database_is_refused_outside_a_demo(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    with running(tmp_path, "--demo", "--database", "d.db") as server:
        server.stop()
    with pytest.raises(AssertionError, match="is a demo: start with --demo"):
        Server("--network", "city.npz", "--database", "d.db", folder=tmp_path).ready()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_command("pg_ctlcluster", "postgresql")
    with postgresql(tmp_path_factory.mktemp("pg2")) as url:
        yield url


def test_two_workers_on_postgresql_learn_each_trip_once_and_agree(
    cluster: str, tmp_path: Path
) -> None:
    CITY.save(tmp_path / "city.npz")
    url = fresh_database(cluster, "workers")
    key = add_key(url, "admin")
    both = [options(url, "--state", name, "--snapshot-every", "30") for name in ("one", "two")]
    fleet = Fleetful(5)
    with running(tmp_path, *both[0], key=key) as one, running(tmp_path, *both[1], key=key) as two:
        fleet.start(one, 2)
        other = Fleetful(6)
        other.sent = {f"other-{i}": {} for i in range(5000)}  # names of its own
        other.start(two, 2)
        time.sleep(2.0)
        fleet.end()
        other.end()
        stored = all_trips(one)
        assert len(stored) == len(set(stored))
        assert fleet.acknowledged | other.acknowledged <= set(stored)
        one.learned(len(stored))
        two.learned(len(stored))
        assert one.client().belief() == two.client().belief()
        assert one.stop() == 0
        assert two.stop() == 0
    for name in ("one", "two"):
        learned, _ = snapshots_in(tmp_path / name / "snapshots", url).newest()
        assert learned is not None
        assert_as_rebuilt(learned, url)
