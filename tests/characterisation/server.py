"""A server that is asked over HTTP, and whose learning can be held up."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from characterisation.asking import Network
from characterisation.reports import Report
from parts import require_module
from services import Server, add_key

_PATIENCE_S = 900.0


class Service:
    """A server of some roads, and a key for every device."""

    def __init__(self, server: Server, database: str) -> None:
        """Remember where the keys are made."""
        self._server, self._database = server, database
        self._keys: dict[str, str] = {}

    def ask(self, path: str, body: object = None, device: str | None = None) -> tuple[int, Any]:
        """Return status and answer of a question, asked as an administrator or as a device."""
        headers = None if device is None else {"authorization": f"Bearer {self._key(device)}"}
        method = "GET" if body is None else "POST"
        answer = self._server.ask(method, path, body, headers)
        return answer.status, answer.json

    def _key(self, device: str) -> str:
        if device not in self._keys:
            self._keys[device] = add_key(self._database, "report", device)
        return self._keys[device]

    def report(self, device: str, reports: Sequence[Report]) -> list[Report]:
        """Report trips in one request; return what became of each."""
        trips: list[Report] = self.ask("/v1/trips", {"trips": list(reports)}, device)[1]["trips"]
        return trips

    def device_of(self, key: str) -> str:
        """Return which device an id of a key belongs to."""
        return next(name for name, text in self._keys.items() if key in text.split("."))

    @contextlib.contextmanager
    def hold_learning(self) -> Iterator[None]:
        """Stop the process that learns, and let it go on afterwards.

        What is reported meanwhile is judged by what was believed before, and learned in one piece.
        """
        tasks = Path(f"/proc/{self._server.process.pid}/task").glob("*/children")
        learners = [int(child) for task in tasks for child in task.read_text().split()]
        assert learners
        for learner in learners:
            os.kill(learner, signal.SIGSTOP)
        try:
            yield
        finally:
            for learner in learners:
                os.kill(learner, signal.SIGCONT)

    def settled_stats(self, trips: int) -> Report:
        """Return statistics once so many trips are learned, and counted for all devices."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            stats: Report = self.ask("/v1/stats")[1]
            counts = stats["trips"], stats["trips_learned"], stats["calibration"]["trips"]
            heard = (key["gain"] is not None or not key["trusted"] for key in stats["keys"])
            if set(counts) == {trips} and all(heard):
                return stats
            assert time.monotonic() < until, stats
            time.sleep(0.1)


@contextlib.contextmanager
def serve(network: Network, stations: str) -> Iterator[Service]:
    """Serve some roads from an empty database, with charging stations given as GeoJSON."""
    require_module("fastapi", "service")
    with tempfile.TemporaryDirectory(prefix="superarm-net-") as name:
        folder = Path(name)
        network.save(folder / "roads.npz")
        database = str(folder / "trips.db")
        (folder / "stations.geojson").write_text(stations, encoding="utf-8")
        options = ["--network", "roads.npz", "--database", database, "--rate", "100000"]
        options += ["--stations", "stations.geojson", "--log-level", "warning"]
        server = Server(*options, folder=folder)
        server.key = add_key(database, "admin")
        try:
            _wait_for(server)
            yield Service(server, database)
        finally:
            server.kill()


def _wait_for(server: Server) -> None:
    """Return once a server answers; a large network may take long on a busy machine."""
    until = time.monotonic() + _PATIENCE_S
    while server.process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError):
            if server.ask("GET", "/readyz").status == HTTPStatus.OK:
                return
        time.sleep(0.05)
    raise AssertionError("".join(server.lines[-30:]))
