"""The service under load: open-loop arrivals from a second process, restarts, memory.

Usage: make bench-service; make soak; python benchmarks/service.py compare --before OTHER/src, which
runs the server of another checkout beside this one's. The server listens on the loopback interface
of this machine and has a generated city of Luxembourg's size; the process that asks shares the
machine's cores.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table

from superarm.client import Client
from superarm.roads.models.fleet import Fleet
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.routing.query import RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.vehicle import CLASSES

EDGES = 5_750
PRELOADED = 3_000
ARMS = 5_000
SECONDS = 60
_PIECE_S = 300
WARM_UP = 5
_TRIES, _QUIET = 3, 0.5
STORED = 100_000
ROUTES_PER_SECOND, TRIPS_PER_SECOND = 100, 20
SUPERARM = str(Path(sys.executable).parent / "superarm")
KINDS = ("per edge", "spans of ten", "totals")


class World:
    """Makes trips as cars would report them."""

    def __init__(self, network: RoadNetwork, seed: int) -> None:
        """Prepare routes by prior energy."""
        self.network = network
        drivetrain = Fleet(network).drivetrain(CLASSES["car"])
        self._cost, self._energy = drivetrain.cost_wh, drivetrain.energy_wh
        self._router = Router(network)
        self.rng = np.random.default_rng(seed)
        self._number = 0

    def ends(self) -> tuple[int, int]:
        """Return a random start and goal."""
        start, goal = self.rng.choice(self.network.n_edges, size=2, replace=False)
        return int(start), int(goal)

    def trip(self, kind: str) -> dict[str, Any]:
        """Return a trip between random places."""
        self._number += 1
        noisy = self._cost * self.rng.uniform(0.5, 1.5, self._cost.size)
        start, goal = self.ends()
        edges = self._router.path(noisy, RouteQuery(start=start, goal=goal))
        energies = self._energy[edges] + 5 * self.rng.standard_normal(edges.size)
        trip: dict[str, Any] = {
            "trip_id": f"bench-{os.getpid()}-{self._number}",
            "edges": self.network.edge_ids[edges].tolist(),
            "driven_at": "2026-01-01T12:00:00+01:00",
        }
        if kind == "per edge":
            return trip | {"edge_energy_wh": energies.tolist()}
        if kind == "totals":
            return trip | {"total_energy_wh": float(energies.sum())}
        firsts = range(0, edges.size, 10)
        spans = [
            {
                "first": first,
                "last": min(first + 10, edges.size) - 1,
                "energy_wh": float(energies[first : first + 10].sum()),
            }
            for first in firsts
        ]
        return trip | {"spans": spans}


class Server:
    """A real server in a folder."""

    def __init__(
        self,
        folder: Path,
        network: Path,
        source: str | None = None,
        port: int = 8765,
        rate: int = 100_000,
    ) -> None:
        """Make a key; with a source, run the code of another checkout."""
        self.folder, self.network, self.asked_with = folder, network, network
        folder.mkdir(exist_ok=True)
        self._environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
        if source is not None:
            self._environment["PYTHONPATH"] = source
        self.database = str(folder / "trips.db")
        made = subprocess.run(  # noqa: S603 - the project's own command
            [SUPERARM, "serve", "keys", "add", "bench", "--role", "admin"],
            env=self._environment | {"SUPERARM_DATABASE": self.database},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.key = made.stdout.strip()
        self.port, self._rate = port, rate
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = Client(self.url, self.key, timeout_s=120)

    def start(self) -> float:
        """Start and return the seconds until routes can be asked for."""
        options = ["--network", str(self.network), "--database", self.database]
        options += ["--port", str(self.port), "--rate", str(self._rate), "--log-level", "warning"]
        begin = time.monotonic()
        self.process = subprocess.Popen([SUPERARM, "serve", *options], env=self._environment)  # noqa: S603
        while True:
            try:
                Client(self.url, self.key, patience_s=0.0)._ask("GET", "/readyz")  # noqa: SLF001
                return time.monotonic() - begin
            except Exception:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)

    def gauge(self, name: str) -> float:
        """Return a number of /metrics."""
        headers = {"authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(f"{self.url}/metrics", headers=headers)  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
            for line in answer.read().decode().splitlines():
                if line.startswith(f"superarm_{name} "):
                    return float(line.split()[1])
        raise KeyError(name)

    def memory_mib(self) -> float:
        """Return the resident memory of server and learner together."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        total = 0.0
        for pid in [str(self.process.pid), *children.split()]:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1]) / 1024
        return total

    def learned(self) -> None:
        """Wait until all trips are learned."""
        while self.gauge("trips_unlearned") > 0:
            time.sleep(0.2)


def stolen_s() -> float:
    """Return the seconds for which this machine's cores were given to other machines."""
    ticks = int(Path("/proc/stat").read_text().split(maxsplit=9)[8])
    return ticks / os.sysconf("SC_CLK_TCK")


# ---- the process that asks


async def _exchange(connection: Any, head: bytes, body: bytes) -> int:  # noqa: ANN401
    reader, writer = connection
    if reader.at_eof():
        raise ConnectionError
    writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
    if not (first := await reader.readline()):
        raise ConnectionError
    status = int(first.split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    return status


class Asker:
    """Keeps connections alive and measures."""

    def __init__(self, port: int, key: str) -> None:
        """Start with no connection."""
        self._port = port
        self._heads = {
            path: (
                f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
                f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
                "content-length: "
            ).encode()
            for path in ("/v1/routes", "/v1/trips")
        }
        self._idle: list[Any] = []
        self.taken: dict[str, list[float]] = {"/v1/routes": [], "/v1/trips": []}
        self.timing_from = time.perf_counter() + WARM_UP
        self.statuses: dict[int, int] = {}

    async def ask(self, path: str, body: bytes, due: float | None = None) -> None:
        """Ask once; time counts from when the request was due."""
        begin = time.perf_counter() if due is None else due
        while True:
            fresh = not self._idle
            connection = (
                await asyncio.open_connection("127.0.0.1", self._port)
                if fresh
                else self._idle.pop()
            )
            try:
                status = await _exchange(connection, self._heads[path], body)
                break
            except ConnectionError:  # it was idle for too long, and closed just now
                connection[1].close()
                if fresh:
                    raise
        self._idle.append(connection)
        if begin >= self.timing_from:
            self.taken[path].append(time.perf_counter() - begin)
        self.statuses[status] = self.statuses.get(status, 0) + 1


async def _poisson(
    asker: Asker, path: str, bodies: list[bytes], rate: float, rng: np.random.Generator
) -> None:
    tasks, due = [], time.perf_counter()
    for body in bodies:
        due += rng.exponential(1 / rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(asker.ask(path, body, due)))
    await asyncio.gather(*tasks)


def ask_for_load(options: argparse.Namespace) -> None:
    """Be the second process: ask, measure, print JSON."""
    network = RoadNetwork.load(options.network)
    world = World(network, options.seed)
    ids = network.edge_ids

    def route() -> bytes:
        start, goal = world.ends()
        query = {"start": str(ids[start]), "goal": str(ids[goal])}
        return json.dumps(query | {"alternatives": options.alternatives}).encode()

    routes = [route() for _ in range(int(options.rate * options.seconds) or 4_000)]

    async def open_loop() -> None:
        await asyncio.gather(
            _poisson(asker, "/v1/routes", routes, options.rate, np.random.default_rng(1)),
            _poisson(asker, "/v1/trips", stock, options.trips, np.random.default_rng(2)),
        )

    async def closed_loop() -> None:
        until = time.perf_counter() + options.seconds
        again = iter(routes * 50)

        async def one() -> None:
            while time.perf_counter() < until:
                await asker.ask("/v1/routes", next(again))

        await asyncio.gather(*(one() for _ in range(options.connections)))

    stock = [
        json.dumps(world.trip(options.kind)).encode()
        for _ in range(int(options.trips * options.seconds))
    ]
    asker = Asker(options.port, options.key)
    begin = time.perf_counter()
    asyncio.run(open_loop() if options.rate else closed_loop())
    wall = time.perf_counter() - begin
    found = {
        path: {
            "count": len(values),
            "per_second": len(values) / (wall - WARM_UP),
            "p50": float(np.quantile(values, 0.5)),
            "p99": float(np.quantile(values, 0.99)),
            "max": max(values),
        }
        for path, values in asker.taken.items()
        if values
    }
    print(json.dumps({"found": found, "statuses": asker.statuses}))


# ---- the measurements


def second_process(server: Server, **options: object) -> subprocess.Popen[str]:
    """Start the process that asks."""
    arguments = {"network": server.asked_with, "port": server.port, "key": server.key} | options
    given = [f"--{name}={value}" for name, value in arguments.items()]
    return subprocess.Popen(  # noqa: S603 - this script
        [sys.executable, __file__, "ask", *given], stdout=subprocess.PIPE, text=True
    )


def under_load(
    server: Server, kind: str, seed: int, seconds: float = SECONDS, share: float = 1.0
) -> dict[str, Any]:
    """Ask for routes while trips of a kind arrive."""
    rate, trips_rate = share * ROUTES_PER_SECOND, share * TRIPS_PER_SECOND
    say(f"{rate:g} routes and {trips_rate:g} trips ({kind}) per second")
    before, stolen, began = server.memory_mib(), stolen_s(), time.monotonic()
    asking = second_process(
        server,
        kind=kind,
        rate=rate,
        trips=trips_rate,
        seconds=seconds + WARM_UP,
        seed=seed,
    )
    lags, version = [0.0], server.gauge("posterior_version")
    while asking.poll() is None:
        if server.gauge("posterior_version") > version:
            lags.append(server.gauge("learning_lag_seconds"))
        time.sleep(0.5)
    stolen = (stolen_s() - stolen) / (time.monotonic() - began)
    answer = json.loads(asking.communicate()[0])
    routes, trips = answer["found"]["/v1/routes"], answer["found"]["/v1/trips"]
    server.learned()
    return {
        "trips": kind,
        "routes/s": routes["per_second"],
        "route p50 (ms)": 1e3 * routes["p50"],
        "route p99 (ms)": 1e3 * routes["p99"],
        "route max (ms)": 1e3 * routes["max"],
        "trips/s": trips["per_second"],
        "trip p99 (ms)": 1e3 * trips["p99"],
        "largest lag (s)": max(lags),
        "refused": sum(n for code, n in answer["statuses"].items() if int(code) >= 400),
        "stolen (%)": 100 * stolen,
        "MiB before": before,
        "MiB after": server.memory_mib(),
    }


def quietest(server: Server, kind: str, seed: int, seconds: float) -> dict[str, Any]:
    """Return the measurement during which least was stolen, of up to three."""
    found: list[dict[str, Any]] = []
    while len(found) < _TRIES and not (found and found[-1]["stolen (%)"] < _QUIET):
        found.append(under_load(server, kind, seed + 10 * len(found), seconds))
    return min(found, key=lambda row: float(row["stolen (%)"]))


def saturation(server: Server, alternatives: int, connections: int) -> dict[str, Any]:
    """Ask as fast as answers come."""
    say(f"saturation, {alternatives} alternatives, {connections} connections")
    asking = second_process(
        server, rate=0, seconds=15 + WARM_UP, alternatives=alternatives, connections=connections
    )
    routes = json.loads(asking.communicate()[0])["found"]["/v1/routes"]
    return {
        "alternatives": alternatives,
        "connections": connections,
        "routes/s": routes["per_second"],
        "p50 (ms)": 1e3 * routes["p50"],
        "p99 (ms)": 1e3 * routes["p99"],
    }


def fill(server: Server, world: World, trips: int) -> None:
    """Report many trips in batches of a thousand."""
    for _ in range(0, trips, 1000):
        batch = [world.trip(KINDS[i % 3]) for i in range(1000)]
        outcomes = server.client.report_many(batch)
        bad = [outcome for outcome in outcomes if outcome["status"] != "accepted"]
        if len(bad) > 0.01 * len(outcomes):
            raise RuntimeError(bad[0])
    server.learned()


def prepared(server: Server, world: World) -> int:
    """Start a server and report trips until most edges were seen; return how many were."""
    say(f"started in {server.start():.1f} s; reporting trips")
    preloaded = 0
    while preloaded < PRELOADED or server.gauge("distinct_arms") < ARMS:
        fill(server, world, 1000)
        preloaded += 1000
    return int(server.gauge("distinct_arms"))


def compare(before: str, seconds: float) -> None:
    """Run the server of another checkout and this one's, one after the other, alike."""
    rows: list[dict[str, Any]] = []
    rates: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        network = generate_city(0, EDGES).largest_component()
        mine = Path(folder) / "now.npz"
        network.save(mine)
        for name, source in (("before", before), ("now", None)):
            file = Path(folder) / f"{name}.npz"
            _save_city(file, source)  # files of networks have versions: each code writes its own
            server = Server(Path(folder) / name, file, source)
            server.asked_with = mine  # and who asks is of this code
            prepared(server, World(network, 7))
            rows += [
                {"code": name} | quietest(server, kind, seed, seconds)
                for seed, kind in enumerate(KINDS)
            ]
            rates += [{"code": name} | saturation(server, *case) for case in ((0, 16), (0, 1))]
            server.stop()
    rows.sort(key=lambda row: KINDS.index(row["trips"]))
    rates.sort(key=lambda row: -row["connections"])
    report(
        table(
            f"{ROUTES_PER_SECOND} routes and {TRIPS_PER_SECOND} trips per second for {seconds:g} s",
            rows,
            f"{network.n_edges:,} edges, most of them seen; one run, both on the same machine.",
            "Since then every trip is compared with its joint prediction before it is stored, and",
            "routes are signed instead of stored. Stolen: the share of one core's time that the",
            "host gave to other machines; more than half a per cent of it decides the 99th",
            "percentile and the maximum, so every row is the quietest of up to three runs.",
            "Trips per edge come without speeds: what motion moves between neighbouring edges is",
            "then noise that links all edges of a trip, which the code before did not know.",
        ),
        table("As many routes as possible, no trips", rates, "Closed loop, 15 s each."),
    )


def _save_city(file: Path, source: str | None) -> None:
    """Let the code of a checkout write the city."""
    program = (
        "import sys; from superarm.roads.network import generate_city; "
        f"generate_city(0, {EDGES}).largest_component().save(sys.argv[1])"
    )
    environment = os.environ | ({} if source is None else {"PYTHONPATH": source})
    subprocess.run([sys.executable, "-c", program, str(file)], env=environment, check=True)  # noqa: S603


def soak(minutes: float) -> None:
    """Run at half of the load for long; memory must stay as it is."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        network = generate_city(0, EDGES).largest_component()
        file = Path(folder) / "city.npz"
        network.save(file)
        server = Server(Path(folder) / "soak", file)
        prepared(server, World(network, 7))
        began, number = time.monotonic(), 0
        while time.monotonic() - began < 60 * minutes:
            row = under_load(server, KINDS[number % 3], number, _PIECE_S - WARM_UP, 0.5)
            number += 1
            size = sum(path.stat().st_size for path in server.folder.glob("trips.db*"))
            rows.append(
                {"minutes": (time.monotonic() - began) / 60}
                | {name: value for name, value in row.items() if name != "MiB before"}
                | {"database MiB": size / 2**20, "trips stored": server.gauge("trips_stored")}
            )
        restarts = server.gauge("learner_restarts_total")
        server.stop()
    first, last = rows[len(rows) // 4]["MiB after"], rows[-1]["MiB after"]
    report(
        table(
            f"Half of the load for {minutes:g} minutes",
            rows,
            f"{network.n_edges:,} edges; per edge, spans and totals in turn. Learner restarts: "
            f"{restarts:g}.",
            f"Memory after a quarter of the time {first:,.0f} MiB, at the end {last:,.0f} MiB.",
        )
    )


def measure() -> None:
    """Run everything and report."""
    with tempfile.TemporaryDirectory() as folder:
        network = generate_city(0, EDGES).largest_component()
        file = Path(folder) / "city.npz"
        network.save(file)
        server, world = Server(Path(folder), file), World(network, 7)
        first = server.start()
        say(f"started in {first:.1f} s; reporting trips")
        preloaded = 0
        while preloaded < PRELOADED or server.gauge("distinct_arms") < ARMS:
            fill(server, world, 1000)
            preloaded += 1000
        arms = int(server.gauge("distinct_arms"))
        loads = [quietest(server, kind, seed, SECONDS) for seed, kind in enumerate(KINDS)]
        rates = [saturation(server, *case) for case in ((0, 16), (3, 16), (0, 1), (3, 1))]
        begin = time.monotonic()
        memory = server.memory_mib()
        stored = int(server.gauge("trips_stored"))
        fill(server, world, STORED - stored)
        filled, more = time.monotonic() - begin, server.memory_mib()
        stored_now = int(server.gauge("trips_stored"))
        server.stop()
        with_snapshot = server.start()
        server.stop()
        shutil.rmtree(Path(f"{server.database}-state") / "snapshots")
        without = server.start()
        server.stop()
    report(
        table(
            f"{ROUTES_PER_SECOND} routes and {TRIPS_PER_SECOND} trips per second for {SECONDS} s, "
            f"{network.n_edges:,} edges, {arms:,} of them seen before",
            loads,
            f"Open loop, Poisson arrivals, times from when a request was due, after {WARM_UP} s of",
            "warming up. The asking process shares the two cores. Lag: from a trip's arrival to a",
            "posterior that knows it. Stolen: the share of one core's time that the host gave to",
            "other machines; more than half a per cent decides the 99th percentile, so every row",
            "is the quietest of up to three runs.",
        ),
        table(
            "As many routes as possible, no trips",
            rates,
            f"Closed loop, 15 s each after {WARM_UP} s of warming up.",
        ),
        table(
            f"Restart with {stored_now:,} stored trips",
            [
                {
                    "first start, no trips (s)": first,
                    "with a snapshot (s)": with_snapshot,
                    "without (s)": without,
                    "MiB before filling": memory,
                    "MiB after": more,
                    "trips/s while filling": (stored_now - stored) / filled,
                }
            ],
            "Memory of server and learner together; a third of the trips per edge, a third in",
            "spans of ten edges, a third totals.",
        ),
    )


def main() -> None:
    """Measure, or be the process that asks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="measure")
    for name, kind, default in (
        ("network", str, ""),
        ("port", int, 0),
        ("key", str, ""),
        ("rate", float, 0.0),
        ("trips", float, 0.0),
        ("kind", str, KINDS[0]),
        ("seconds", float, 10.0),
        ("alternatives", int, 0),
        ("connections", int, 1),
        ("seed", int, 0),
        ("before", str, ""),
        ("minutes", float, 60.0),
    ):
        parser.add_argument(f"--{name}", type=kind, default=default)
    options = parser.parse_args()
    if options.what == "ask":
        ask_for_load(options)
    elif options.what == "compare":
        compare(options.before, options.seconds)
    elif options.what == "soak":
        soak(options.minutes)
    else:
        measure()


if __name__ == "__main__":
    main()
