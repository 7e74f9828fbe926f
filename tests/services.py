"""Real servers and a real PostgreSQL for tests."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superarm.client import Client
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.physics import deterministic_energy
from superarm.roads.vehicle import Vehicle

SUPERARM = str(Path(sys.executable).parent / "superarm")
_PATIENCE_S = 600.0
"""How long anything is waited for: machines may be much busier than usual."""
_SPIN_S = 0.03


def small_city(edges: int = 500) -> RoadNetwork:
    return generate_city(seed=3, n_edges=edges).largest_component()


def stretched(seconds: float) -> float:
    """Return so many seconds of an idle machine in those of this one, as busy as it is now."""
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        sum(range(1_000_000))  # 0.02 to 0.03 s of one idle core
        spent.append(time.perf_counter() - begin)
    return seconds * max(1.0, max(spent) / _SPIN_S)


class Answer:
    """What came back over HTTP, whatever the status."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """A server process, as users start it."""

    def __init__(self, *options: str, folder: Path) -> None:
        self._options, self._folder = options, folder
        self.lines: list[str] = []
        self.key: str | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [SUPERARM, "serve", "--port", "0", *self._options],
            cwd=self._folder,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"http://\S+:\d+", line):
                self.url = found.group()
                break
        else:
            self.process.wait()
            self.process.stderr.close()
            raise AssertionError("".join(self.lines))
        threading.Thread(target=self._collect, args=(self.process.stderr,), daemon=True).start()

    def _collect(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self.lines.append(line)

    def ready(self) -> "Server":
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError("".join(self.lines[-30:]))
            with contextlib.suppress(OSError):
                if self.ask("GET", "/readyz").status == 200:
                    return self
            time.sleep(0.03)
        raise AssertionError("".join(self.lines[-30:]))

    def client(self, **options: Any) -> Client:
        return Client(self.url, self.key, **options)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        sent = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        if body is not None:
            data = json.dumps(body).encode()
            sent["content-type"] = "application/json"
        request = urllib.request.Request(  # noqa: S310 - our own server
            self.url + path, data=data, headers=sent | (headers or {}), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def learned(self, trips: int) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            stats: dict[str, Any] = self.ask("GET", "/v1/stats").json
            if stats["trips_learned"] == trips:
                return stats
            time.sleep(0.03)
        raise AssertionError(stats)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def eventually(check: Callable[[], object]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + _PATIENCE_S
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def add_key(database: str, role: str, name: str = "test") -> str:
    made = subprocess.run(
        [SUPERARM, "serve", "keys", "add", name, "--role", role, "--database", database],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return made.stdout.strip()


@contextlib.contextmanager
def running(folder: Path, *options: str, key: str | None = None) -> Iterator[Server]:
    server = Server(*options, folder=folder)
    server.key = key
    try:
        yield server.ready()
    finally:
        if server.process.poll() is None:
            server.kill()


def trip_between(
    network: RoadNetwork, rng: np.random.Generator, steps: int = 12
) -> tuple[list[str], list[float]]:
    """A legal drive of some edges, and plausible energies."""
    turns: dict[int, list[int]] = {}
    for left, right in network.turns.tolist():
        turns.setdefault(left, []).append(right)
    edges = [int(rng.integers(network.n_edges))]
    while len(edges) < steps:
        edges.append(int(rng.choice(turns[edges[-1]])))
    expected = deterministic_energy(network, Vehicle(), "physical")[edges]
    energies = expected + 3 * rng.standard_normal(steps)
    return network.edge_ids[edges].tolist(), energies.tolist()


class Cluster:
    """A PostgreSQL server of its own that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        initdb = shutil.which("initdb") or str(programs[-1] / "initdb")
        self._server = str(Path(initdb).parent / "postgres")
        self._folder = folder
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            self._as_user = {
                "user": "postgres",
                "group": "postgres",
                "extra_groups": [],
            }
            shutil.chown(folder, "postgres", "postgres")
            for parent in folder.parents:
                if parent == Path("/tmp") or parent == parent.parent:  # noqa: S108
                    break
                parent.chmod(parent.stat().st_mode | 0o055)
        subprocess.run(
            [initdb, "-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **self._as_user,
        )
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self.start()

    def start(self) -> None:
        """Start it; what its last run has left in memory may keep it from that for a moment."""
        end = time.monotonic() + _PATIENCE_S
        self._launch()
        while not list(self._folder.glob(".s.PGSQL.*[0-9]")):
            assert time.monotonic() < end, self._log.read_text(encoding="utf-8")[-2000:]
            time.sleep(0.05)
            if self._process.poll() is not None:
                time.sleep(1)
                self._launch()

    def _launch(self) -> None:
        folder = self._folder
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
        self._log = folder / "log.txt"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._server, "-D", str(folder / "data"), *options],
                cwd=folder,
                stderr=log,
                **self._as_user,
            )

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_PATIENCE_S)


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL server of its own; yields its URL."""
    cluster = Cluster(folder)
    try:
        yield cluster.url
    finally:
        cluster.stop()


def fresh_database(url: str, name: str) -> str:
    """Make a database of a PostgreSQL server and return its URL."""
    import psycopg  # noqa: PLC0415 - an optional part

    for _ in range(100):
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{name}"'.encode())
            break
        except psycopg.OperationalError:  # still starting
            time.sleep(0.05)
    else:
        pytest.fail("PostgreSQL does not answer")
    return url.replace("/postgres?", f"/{name}?")
