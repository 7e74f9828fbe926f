"""The service on a large network with a million trips: start, routes, lag, memory.

Usage: python benchmarks/run.py country [-- --edges 1000000 --trips 1000000 --rate 5 --km 20]

At a hundred thousand edges: --edges 100000 --rate 20 --km 10. With --folder what is prepared stays;
with --tolerances beside it: what tolerances leave of errors when a batch is learned.

The server is a real one in a temporary folder and listens on the loopback interface. Trips are
written to its database as it would have written them, since reporting a million takes hours.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table
from ensemble import AT_ONCE, Trips
from scipy.sparse import csr_array
from sqlalchemy import func, insert, select, update

from service import Server
from superarm.client import Client
from superarm.roads.models.fleet import KNOWN, SLOTS, Fleet
from superarm.roads.models.likelihood import MeasuredTrip, Reader, Source
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.vehicle import CLASSES
from superarm.service.database import Database, epoch_of, now_us
from superarm.service.http.keys import KeyRing
from superarm.service.learning.snapshots import Snapshots
from superarm.service.tables import facts
from superarm.service.tables import trips as stored
from superarm.service.trips.device_state import store_state
from superarm.service.trips.packing import packed
from superarm.service.trips.standings import standings_of
from superarm.values import changed

QUESTIONS, SECONDS, SPARE = 60, 120, 3_000
TOLERANCES, BATCH, ROUTES = (0.03, 0.5, 1.0, 2.0), 600, 200
TRIP_DEVIATION, OWN_WH = 0.05, 20.0


class Energies:
    """What trips take in a world where every road has a share of its own."""

    def __init__(self, network: RoadNetwork) -> None:
        """Draw the shares."""
        car = Fleet(network).drivetrain(CLASSES["car"])
        self._rng = np.random.default_rng(5)
        share = 1 + 0.1 * self._rng.standard_normal(network.n_edges)
        self._true = car.cost_wh * share + car.potential_wh
        self._physics = car.energy_wh

    def of(self, edges: np.ndarray[Any, Any], starts: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Return measured totals, and those of physics."""
        total = np.add.reduceat(self._true[edges], starts[:-1])
        total *= 1 + TRIP_DEVIATION * self._rng.standard_normal(total.size)
        total += OWN_WH * self._rng.standard_normal(total.size)
        return total, np.add.reduceat(self._physics[edges], starts[:-1])


class Memory(threading.Thread):
    """Looks at the memory of server and learner, shared parts counted once."""

    def __init__(self, server: Server) -> None:
        """Begin."""
        super().__init__(daemon=True)
        self._server, self._over = server, threading.Event()
        self.now = self.most = 0.0
        self.start()

    def run(self) -> None:
        """Look every half second."""
        while not self._over.wait(0.5):
            try:
                self.now = self._gb()
            except OSError:  # it has ended, or not begun
                continue
            self.most = max(self.most, self.now)

    def end(self) -> tuple[float, float]:
        """Return what is held now, and the most that was."""
        self._over.set()
        self.join()
        return self.now, self.most

    def _gb(self) -> float:
        pid, total = self._server.process.pid, 0
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        for one in [str(pid), *children.split()]:
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        return total / 1e6


def measured(
    edges: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], totals: np.ndarray[Any, Any]
) -> Iterator[MeasuredTrip]:
    """Yield trips of cars of which the total was measured."""
    for number, (begin, end) in enumerate(pairwise(starts.tolist())):
        whole = np.array([0]), np.array([end - begin - 1])
        total = totals[number : number + 1]
        yield MeasuredTrip(CLASSES["car"], edges[begin:end], *whole, total, at_rest=False)


def rows_of(
    trips: Trips, energies: Energies, key: tuple[str, str], count: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield rows of the table of trips, some thousands at a time."""
    for first in range(0, count, AT_ONCE):
        edges, starts = trips.part(first, min(first + AT_ONCE, count))
        totals, physics = energies.of(edges, starts)
        rows = []
        for number, trip in enumerate(measured(edges, starts, totals)):
            wh, expected = float(totals[number]), float(physics[number])
            rows.append(
                packed(trip)
                | {
                    "xact": 0,
                    "key_id": key[0],
                    "owner": key[1],
                    "trip_id": f"old-{first + number}",
                    "content_sha256": f"{first + number:064x}",
                    "received_at": now_us(),
                    "driven_at": now_us(),
                    "vehicle_class": "car",
                    "spread": 0.15,
                    "widened": 1.0,
                    "measured_wh": wh,
                    "predicted_wh": expected,
                    "predicted_std_wh": 0.15 * abs(expected) + OWN_WH,
                    "inside": True,
                }
            )
        yield rows


def fill(url: str, trips: Trips, energies: Energies, count: int) -> None:
    """Write trips into a database that has been served before."""
    database = Database(url)
    (key,) = KeyRing(database).all()
    with database.engine.begin() as connection:
        standings_of(connection, {key.id}, SLOTS)
    for rows in rows_of(trips, energies, (key.id, key.name), count):
        with database.engine.begin() as connection:
            connection.execute(insert(stored), rows)
        say(f"{rows[-1]['trip_id']} written")
    with database.reading() as connection:
        newest = connection.execute(select(func.max(stored.c.sequence))).scalar_one()
        epoch = epoch_of(connection)
    store_state(database, epoch, newest, "{}")  # learned at once, not block by block
    with database.engine.begin() as connection:  # which no snapshot knows: everything is read
        connection.execute(update(facts).where(facts.c.name == "epoch").values(value="1"))
    database.close()


def ends_of(network: RoadNetwork, km: float) -> list[tuple[str, str]]:
    """Return pairs of edges so far apart, as the crow flies."""
    rng, places = np.random.default_rng(3), middles(network)
    found: list[tuple[str, str]] = []
    while len(found) < QUESTIONS:
        start = int(rng.integers(network.n_edges))
        apart = np.hypot(*(places - places[start]).T) / 1e3
        near = np.flatnonzero(np.abs(apart - km) < 0.05 * km)
        if near.size:
            ids = network.edge_ids[[start, int(rng.choice(near))]].tolist()
            found.append((ids[0], ids[1]))
    return found


def middles(network: RoadNetwork) -> Any:  # noqa: ANN401 - an array
    """Return where edges begin, shape (n, 2)."""
    return network.junction_xy_m[network.from_junction]


def asked(client: Client, ends: list[tuple[str, str]], mode: str) -> list[float]:
    """Return the milliseconds of some questions, one at a time."""
    spent = []
    for start, goal in ends:
        begin = time.perf_counter()
        client.route(start, goal, mode=mode)
        spent.append(1e3 * (time.perf_counter() - begin))
    return spent


def lagged(
    server: Server, edges: Sequence[list[str]], totals: Sequence[float], rate: float
) -> tuple[float, float]:
    """Report trips at a rate; return the largest lag seen, and the seconds until all was known."""
    worst, begin = 0.0, time.monotonic()
    for number, (mine, total) in enumerate(zip(edges, totals, strict=True)):
        time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        when = "2026-01-01T12:00:00+01:00"
        server.client.report(
            f"new-{os.getpid()}-{number}", edges=mine, driven_at=when, total_energy_wh=total
        )
        if number % max(int(rate), 1) == 0:
            worst = max(worst, server.gauge("learning_lag_seconds"))
    over = time.monotonic()
    while server.gauge("trips_unlearned") > 0:
        worst = max(worst, server.gauge("learning_lag_seconds"))
        time.sleep(0.5)
    return worst, time.monotonic() - over


def prepare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fill a database and let it be learned; what is written to the folder is used from there."""
    file = folder / "city.npz"
    network = generate_city(1, options.edges).largest_component()
    network.save(file)
    energies = Energies(network)
    (folder / "trips").mkdir(exist_ok=True)
    trips = Trips.made(options.edges, options.trips + SPARE, str(folder / "trips"))
    server = Server(folder / "server", file, port=options.port)
    first = server.start()
    server.stop()
    say(f"first start {first:.0f} s; writing trips")
    fill(server.database, trips, energies, options.trips)
    begin, memory = time.monotonic(), Memory(server)
    server.start()
    server.learned()
    learning = time.monotonic() - begin
    _, most = memory.end()
    say(f"learned in {learning:.0f} s, {most:.1f} GB; stopping")
    server.stop()
    return {"s, first start": first, "s to read and learn": learning, "GB meanwhile": most}


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start from a snapshot, ask, report."""
    network = RoadNetwork.load(folder / "city.npz")
    energies, count = Energies(network), options.trips
    trips = Trips(folder / "trips" / "edges", np.load(folder / "trips" / "starts.npy"))
    edges, starts = trips.part(count, count + int(options.rate * SECONDS))
    totals = energies.of(edges, starts)[0].tolist()
    routes = [network.edge_ids[edges[a:b]].tolist() for a, b in pairwise(starts.tolist())]
    ends = ends_of(network, options.km)
    server = Server(folder / "server", folder / "city.npz", port=options.port)
    memory = Memory(server)
    again = server.start()
    say(f"started from a snapshot in {again:.1f} s")
    asked(server.client, ends[:5], "best")
    best, explore = (asked(server.client, ends, mode) for mode in ("best", "explore"))
    say(f"best {np.median(best):.0f} ms, explore {np.median(explore):.0f} ms")
    lag, rest = lagged(server, routes, totals, options.rate)
    held, most = memory.end()
    server.stop()
    return {
        "edges": network.n_edges,
        "trips learned": count,
        "s, start from a snapshot": again,
        f"ms, best over {options.km:g} km, median": float(np.median(best)),
        "ms, explore, median": float(np.median(explore)),
        "trips reported per s": options.rate,
        "s, lag at most": lag,
        "s until the last was known": rest,
        "GB held": held,
        "GB at most": most,
    }


def tolerances(folder: Path) -> list[dict[str, Any]]:
    """Compare what tolerances leave with solutions that are right to three hundredths."""
    state = folder / "server" / "trips.db-state"
    fleet = Fleet(RoadNetwork.load(state / "network.npz"), state / KNOWN)
    database, reader = Database(str(folder / "server" / "trips.db")), Reader.of(fleet)
    identity = database.identity()
    database.close()
    kept = Snapshots(
        state / "snapshots", fleet.fingerprint(), identity, fleet.time_model, fleet.resumed
    )
    learned, _ = kept.newest()
    if learned is None:
        msg = "there is no snapshot; let the server stop after it has learned"
        raise SystemExit(msg)
    before: Any = learned.belief
    network, count = fleet.network, learned.trips
    trips = Trips(folder / "trips" / "edges", np.load(folder / "trips" / "starts.npy"))
    energies, key = Energies(network), Source(slot=0, spread=0.15)
    last = trips.starts.size - 1
    some, starts = trips.part(last - BATCH, last)
    totals = energies.of(some, starts)[0]
    seen = reader.evidence([(trip, key) for trip in measured(some, starts, totals)])
    places, ends = trips.part(last - BATCH - ROUTES, last - BATCH)
    weights = fleet.drivetrain(CLASSES["car"]).weights_wh[places]
    routes = csr_array((weights, places, ends), shape=(ROUTES, fleet.n_arms))
    rows: list[dict[str, Any]] = []
    right: Any = None
    for tolerance in TOLERANCES:
        begin_s = time.perf_counter()
        after: Any = changed(before, tolerance=tolerance).condition_evidence(seen)
        took = time.perf_counter() - begin_s
        if right is None:
            right, deviation = after.field, np.sqrt(after.variance)[:, None]
            apart = routes @ (right[:, 1:] - right[:, :1])
            spread = np.sqrt((apart**2).mean(axis=1))[:, None]
        roads, sums = (after.field - right) / deviation, routes @ (after.field - right) / spread
        rows.append(
            {
                "edges": network.n_edges,
                "trips learned": count,
                "tolerance": tolerance,
                f"s for {BATCH} more": took,
                "iterations": after.iterations,
                "edges, rms error": float(np.sqrt((roads**2).mean())),
                "most": float(np.abs(roads).max()),
                "routes, rms error": float(np.sqrt((sums**2).mean())),
                "most of routes": float(np.abs(sums).max()),
            }
        )
        say(str(rows[-1]))
    return rows


def main() -> None:
    """Measure one size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--trips", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument("--km", type=float, default=20.0)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument(
        "--folder", type=Path, help="what is prepared stays there, to measure again"
    )
    parser.add_argument("--tolerances", action="store_true", help="errors, not lag")
    options = parser.parse_args()
    if options.tolerances:
        note = f"Means and draws, in posterior deviations, against a tolerance of {TOLERANCES[0]}."
        report(table("What a tolerance leaves, in the service", tolerances(options.folder), note))
        return
    with tempfile.TemporaryDirectory() as aside:
        folder = options.folder or Path(aside)
        done = folder / "prepared.json"
        if not done.exists():
            done.write_text(json.dumps(prepare(options, folder)))
        row = measure(options, folder) | json.loads(done.read_text())
    say(json.dumps(row))
    report(
        table(
            "The service on a large network",
            [row],
            "A generated city; totals of cheapest routes. Questions one at a time, after the",
            f"start. Trips are reported for {SECONDS} s. Memory of server and learner together,",
            "what they share counted once.",
        )
    )


if __name__ == "__main__":
    main()
