"""The database goes away, fills up, is damaged; the clock jumps: said clearly, nothing lost."""

import contextlib
import os
import resource
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_command, require_module
from services import (
    Cluster,
    Server,
    add_key,
    eventually,
    fresh_database,
    running,
    small_city,
    trip_between,
)
from superarm.client import Client

require_module("fastapi", "service")

from superarm.service.database import Database, now_us  # noqa: E402
from superarm.service.http.watching import Watch  # noqa: E402
from superarm.service.learning.housekeeping import Housekeeping  # noqa: E402

CITY = small_city()
IDS = CITY.edge_ids.tolist()
WHEN = "2026-03-01T10:00:00Z"
QUERY = {"start": IDS[0], "goal": IDS[60]}


def a_trip(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    edges, energies = trip_between(CITY, rng)
    while abs(sum(energies)) < 20:  # next to nothing is taken for no measurement
        edges, energies = trip_between(CITY, rng)
    return {
        "trip_id": f"t{number}",
        "edges": edges,
        "driven_at": WHEN,
        "total_energy_wh": sum(energies),
    }


def until(server: Server, status: int) -> None:
    """Wait until readiness has a status."""
    eventually(lambda: server.ask("GET", "/readyz").status == status)


def test_postgresql_goes_away_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_command("pg_ctlcluster", "postgresql")
    CITY.save(tmp_path / "city.npz")
    cluster = Cluster(tmp_path_factory.mktemp("away"))
    try:
        url = fresh_database(cluster.url, "away").replace("postgres@", "postgres:hunter2@")
        key = add_key(url, "admin")
        monkeypatch.setenv("SUPERARM_DATABASE", url)
        with running(tmp_path, "--network", "city.npz", "--state", "state", key=key) as server:
            assert secrets_shown(server, "hunter2") == []
            for number in range(5):
                assert server.ask("POST", "/v1/trips", a_trip(number)).status == 201
            server.learned(5)
            cluster.stop()
            answer = server.ask("POST", "/v1/trips", a_trip(5))
            assert answer.status == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert "database" in answer.json["detail"]
            until(server, 503)
            assert server.ask("POST", "/v1/routes", QUERY).status == 200
            assert server.ask("GET", "/healthz").status == 200
            assert server.ask("GET", "/v1/stats").status in {200, 503}
            outcome: dict[str, Any] = {}
            patient = Client(server.url, key, patience_s=300)
            trip = a_trip(6)
            waiting = threading.Thread(
                target=lambda: outcome.update(patient.report(trip.pop("trip_id"), **trip))
            )
            waiting.start()
            time.sleep(3)
            assert waiting.is_alive()  # it has not given up
            cluster.start()
            waiting.join(300)
            assert outcome["status"] == "accepted"
            until(server, 200)
            server.learned(6)
            assert not any("hunter2" in line for line in server.lines)
            assert server.stop() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            cluster.stop()


def secrets_shown(server: Server, secret: str) -> list[str]:
    """The command lines of a server and all its children that show a secret."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    pids = [str(server.process.pid), *children.split()]
    assert len(pids) > 1
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in pids]
    return [line for line in lines if secret in line]


@pytest.mark.slow
def test_a_database_that_starts_later_is_waited_for_by_the_learner(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    require_command("pg_ctlcluster", "postgresql")
    CITY.save(tmp_path / "city.npz")
    cluster = Cluster(tmp_path_factory.mktemp("later"))
    try:
        url = fresh_database(cluster.url, "later")
        key = add_key(url, "admin")
        options = ["--network", "city.npz", "--database", url, "--state", "state"]
        with running(tmp_path, *options, key=key) as server:
            assert server.ask("POST", "/v1/trips", a_trip(1)).status == 201
            server.learned(1)
            cluster.stop()
            path = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
            os.kill(int(Path(path).read_text().split()[0]), 9)  # and the learner dies, too
            time.sleep(3)
            assert server.ask("POST", "/v1/routes", QUERY).status == 200
            cluster.start()
            until(server, 200)
            assert server.ask("POST", "/v1/trips", a_trip(2)).status == 201
            server.learned(2)
    finally:
        with contextlib.suppress(ProcessLookupError):
            cluster.stop()


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """The same for a disk that becomes read-only: nothing can be written any more."""
    CITY.save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "admin")
    with running(tmp_path, "--network", "city.npz", "--database", "t.db", key=key) as server:
        for number in range(4):
            assert server.ask("POST", "/v1/trips", a_trip(number)).status == 201
        pid, free = server.process.pid, (resource.RLIM_INFINITY,) * 2
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        answers = [server.ask("POST", "/v1/trips", a_trip(number)) for number in range(4, 30)]
        refused = [answer for answer in answers if answer.status == 503]
        assert refused  # some may still fit into files that are there
        assert "retry-after" in refused[0].headers
        assert {answer.status for answer in answers} <= {201, 503}
        assert server.ask("POST", "/v1/routes", QUERY).status == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, free)
        until(server, 200)
        again = [server.ask("POST", "/v1/trips", a_trip(number)) for number in range(4, 30)]
        assert {answer.status for answer in again} <= {200, 201}
        for before, after in zip(answers, again, strict=True):  # what was taken is there
            assert after.status == {201: 200, 503: 201}[before.status]
        server.learned(30)
        assert any("the database does not answer" in line for line in server.lines)


class _Ring:
    def refresh(self) -> None:
        """Nothing to read."""


def told(watch: Watch) -> str | None:
    return watch.problem


def test_what_cannot_be_written_is_not_ready_until_it_can(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.db"))
    database.migrate()
    database.claim("x", demo=False)
    full = [True]

    def require_writable() -> None:
        if full[0]:
            raise OSError(28, "No space left on device")

    vars(database)["require_writable"] = require_writable
    watch = Watch(database, _Ring())  # type: ignore[arg-type]
    assert told(watch) is None
    watch.failed(OSError(28, "No space left on device"))
    for _ in range(20):
        time.sleep(0.05)
        assert "No space left" in str(told(watch))
    full[0] = False
    end = time.monotonic() + 5
    while told(watch) is not None:
        assert time.monotonic() < end
        time.sleep(0.05)
    watch.close()
    database.close()


def test_overwritten_pages_are_noticed(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    file = tmp_path / "t.db"
    key = add_key(str(file), "admin")
    with running(tmp_path, "--network", "city.npz", "--database", str(file), key=key) as server:
        for begin in range(0, 200, 50):
            batch = {"trips": [a_trip(number) for number in range(begin, begin + 50)]}
            assert server.ask("POST", "/v1/trips", batch).status == 201
        server.learned(200)
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = file.stat().st_size
        with file.open("r+b") as pages:
            for page in range(3, size // 4096):
                pages.seek(page * 4096)
                pages.write(os.urandom(4096))
        server.ask("POST", "/v1/trips", a_trip(900))
        until(server, 503)
        assert server.ask("POST", "/v1/routes", QUERY).status == 200
        told = [line for line in server.lines if "the database does not answer" in line]
        assert told
        assert any(
            "malformed" in line or "damaged" in line or "not a database" in line for line in told
        )


def test_a_clock_that_jumps_folds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    for days in (-2, 3650):
        told: list[Any] = []
        monkeypatch.setattr(time, "time", real)
        housekeeping = Housekeeping(30.0, told.append)
        due = housekeeping.due_us()
        assert due is not None
        assert due < now_us()
        monkeypatch.setattr(time, "time", lambda days=days: real() + 86_400 * days)
        assert housekeeping.due_us() is None
        assert f"the clock has jumped by {86_400 * days // 100}" in told[0]["note"]
        assert housekeeping.due_us() is None  # for a day
        assert len(told) == 1
