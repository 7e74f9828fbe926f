"""It is said plainly what is learned of a key's trips, what is not and why."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parts import require_module
from services import Server, add_key, eventually, running, small_city, trip_between
from superarm.cli.app import make_app
from superarm.client import Client

require_module("fastapi", "service")

from superarm.service.database import Database  # noqa: E402
from superarm.service.http.verdicts import KeyFacts  # noqa: E402
from superarm.service.trips.standings import Standing, set_durations_aside  # noqa: E402

CITY = small_city()
ASIDE = Standing("k", 0, 1, "it reads nonsense")


def test_of_a_key_that_is_set_aside_nothing_is_learned() -> None:
    facts = KeyFacts(ASIDE, trips=6, waiting=2, devices=4)
    assert facts.learned == 0
    assert facts.verdict.startswith("None of its 6 trips is learned: it reads nonsense.")
    assert "ask an administrator" in facts.verdict


@pytest.mark.parametrize(("devices", "said"), [(1, "no other device"), (2, "only one other")])
def test_few_devices_are_compared_with_physics(devices: int, said: str) -> None:
    std = 0.03  # of 0.05 before the data: what was learned has a deviation of 0.04
    facts = KeyFacts(Standing("k", 0), 6, 0, devices, gain=-0.4, gain_std=std, ratio=0.52)
    assert facts.verdict.startswith("6 of its 6 trips are learned. Its trips take 0.52 times")
    assert "10.0 deviations less than physics expect" in facts.verdict
    assert said in facts.verdict
    assert "others" not in facts.verdict
    chance = KeyFacts(Standing("k", 0), 60, 0, devices, gain=0.15, gain_std=std, ratio=1.2)
    assert chance.advice is None


def test_many_devices_are_compared_with_each_other() -> None:
    facts = KeyFacts(Standing("k", 0), 20, 3, 5, gain=0.1, gain_std=0.02)
    assert facts.verdict.startswith("17 of its 20 trips are learned, 3 wait. Its logger reads")
    assert "more than those of others" in facts.verdict


@pytest.mark.parametrize(("gain", "std"), [(0.01, 0.01), (0.2, 0.01), (None, None)])
def test_what_may_be_chance_is_not_said_after_few_trips(
    gain: float | None, std: float | None
) -> None:
    facts = KeyFacts(Standing("k", 0), 6, 0, 3, gain, std)
    assert facts.advice is None
    assert facts.verdict == "6 of its 6 trips are learned."


def test_what_is_made_of_durations_is_said_beside_energies() -> None:
    late = Standing("k", 0, durations_aside_at=1, durations_reason="they are twice the others'")
    told = KeyFacts(late, 20, 0, 5, gain=0.1, gain_std=0.02).verdict
    assert told.startswith("20 of its 20 trips are learned. Its logger reads about 10% more")
    assert "Its durations are not learned, its energies are: they are twice the others'." in told
    slow = KeyFacts(Standing("k", 0), 20, 0, 5, time_factor=1.2).verdict
    assert "Its durations are about 20% longer than those of others, and are corrected" in slow
    assert "durations" not in KeyFacts(Standing("k", 0), 20, 0, 5, time_factor=1.02).verdict


def report_by_command(
    server: Server, key: str, bodies: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Return what the command prints that sends these trips."""
    monkeypatch.setenv("SUPERARM_KEY", key)
    monkeypatch.setattr("superarm.cli.trips.open_network", lambda _: CITY)
    monkeypatch.setattr("superarm.cli.trips.read_trips", lambda *_: [])
    monkeypatch.setattr("superarm.cli.trips.reports_of", lambda *_: bodies)
    command = ["trips", "report", "trips.parquet", "--service", server.url, "--network", "x"]
    done = CliRunner().invoke(make_app("trips"), command)
    assert done.exit_code == 0, done.output
    return done.output


def trips_of(name: str, factor: float, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    number = 0
    while len(found) < count:
        edges, energies = trip_between(CITY, np.random.default_rng(number), 20)
        number += 1
        if sum(energies) < 100:  # little is won back
            continue
        trip: dict[str, Any] = {"trip_id": f"{name}-{number}", "edges": edges}
        trip |= {"driven_at": "2026-03-01T10:00:00Z"}
        trip |= {"edge_energy_wh": [factor * energy for energy in energies]}
        found.append(trip)
    return found


def test_the_only_device_is_learned_from_and_told_how_far_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more than physics expect, six times, and nobody to compare it with."""
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "t.db")
    key = add_key(database, "report")
    options = ["--network", "city.npz", "--database", database, "--rate", "1000000"]
    with running(tmp_path, *options, key=key) as server:
        printed = report_by_command(server, key, trips_of("a", 1.8, 6), monkeypatch)
        assert "6 accepted" in printed
        assert "This key: 6 of its 6 trips are learned." in printed
        assert "more than physics expect, and there is no other device" in printed
        stats = server.learned(6)
        assert (stats["trips_waiting"], stats["trips_set_aside"]) == (0, 0)
        (told,) = stats["keys"]
        assert told["trusted"]
        assert (told["trips_learned"], told["trips_waiting"]) == (6, 0)


def test_of_trips_that_are_not_learned_nobody_says_that_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "t.db")
    key = add_key(database, "report")
    admin = add_key(database, "admin", "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "1000000"]
    with running(tmp_path, *options, key=key) as server:
        bodies = trips_of("b", 1.0, 4) + trips_of("c", 40.0, 4)
        printed = report_by_command(server, key, bodies, monkeypatch)
        assert "4 accepted, 4 quarantined" in printed
        assert "None of its 4 trips is learned: 4 of its last 8 trips are not plausible" in printed
        assert "ask an administrator" in printed
        stats = server.learned(0)
        assert (stats["trips"], stats["trips_set_aside"], stats["trips_waiting"]) == (4, 4, 0)
        (told,) = Client(server.url, admin).stats()["keys"]
        assert (told["trips_learned"], told["trusted"]) == (0, False)


def test_durations_are_set_aside_said_so_and_let_in_again(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    url = str(tmp_path / "t.db")
    key, admin = add_key(url, "report"), add_key(url, "admin", "admin")
    options = ["--network", "city.npz", "--database", url, "--rate", "1000000"]
    with running(tmp_path, *options, key=key) as server:
        client = Client(server.url, key)
        allowed = {"authorization": f"Bearer {admin}"}
        client.report_many(trips_of("d", 1.0, 3))
        server.learned(3)
        told = client.key()
        assert (told["durations_trusted"], told["time_factor"]) == (True, 1.0)
        database = Database(url)
        set_durations_aside(database, {told["key"]: "they are nonsense"})
        database.close()
        eventually(lambda: not client.key()["durations_trusted"])
        told = client.key()
        assert told["trusted"]
        assert told["durations_reason"] == "they are nonsense"
        assert "Its durations are not learned, its energies are" in told["verdict"]
        late = trips_of("e", 1.0, 1)[0] | {"duration_s": 120.0}
        (outcome,) = client.report_many([late])
        assert outcome["status"] == "accepted"
        assert "durations of this key are set aside" in outcome["detail"]
        assert server.ask("POST", f"/v1/keys/{told['key']}/trust", headers=allowed).json["trusted"]
        eventually(lambda: client.key()["durations_trusted"])
