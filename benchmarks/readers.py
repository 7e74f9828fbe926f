"""Slow readers of the map of a large network: what they hold of the server's memory.

Usage: python benchmarks/run.py readers [-- --edges 100000 --connections 100 --before OTHER/src]

Connections of two keys ask for the map without compression and read nothing. With --before the
server of another checkout is attacked in the same way, in the way its interface takes.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import report, say, table

from superarm.client import Client, ServiceError
from superarm.roads.network import RoadNetwork, generate_city

SUPERARM = str(Path(sys.executable).parent / "superarm")
SECONDS, AFTER = 6.0, 20.0
MIB = 2**20
PATHS = {
    "all of it": "/v1/network",
    "50,000 edges": "/v1/network?most=50000",
    "12,000 edges": "/v1/network?most=12000",
    "belief of 12,000": "/v1/belief?most=12000",
}


class Attacked:
    """A server with a key for each of two attackers and one for somebody else."""

    def __init__(self, folder: Path, network: Path, source: str | None) -> None:
        """Start and wait until routes can be asked for."""
        folder.mkdir()
        self._environment = dict(os.environ)
        if source is not None:
            self._environment["PYTHONPATH"] = source
        database = str(folder / "trips.db")
        add = [SUPERARM, "serve", "keys", "add", "bench", "--role", "read", "--database", database]
        self.keys = [self._run(add) for _ in range(3)]
        options = ["--network", str(network), "--database", database, "--port", "0"]
        # what is charged must not be what protects
        options += ["--rate", "1000000", "--log-level", "warning"]
        self._log = folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the project's own command
                [SUPERARM, "serve", *options], env=self._environment, stderr=log
            )
        while not (said := re.findall(r"http://\S+:(\d+)", self._log.read_text())):
            self._require_alive()
            time.sleep(0.1)
        self.port = int(said[0])
        self.client = Client(
            f"http://127.0.0.1:{self.port}", self.keys[2], timeout_s=120, patience_s=5
        )
        while not self._is_ready():
            self._require_alive()
            time.sleep(0.5)

    def _is_ready(self) -> bool:
        try:
            self.client._ask("GET", "/readyz")  # noqa: SLF001 - it has no method for that
        except ServiceError:
            return False
        return True

    def _require_alive(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(self._log.read_text()[-3_000:])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(  # noqa: S603 - the project's own command
            command, env=self._environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(120)

    def memory_mib(self) -> float:
        """Return the resident memory of the server, without its learner."""
        self._require_alive()
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def sockets_mib() -> float:
    """Return what the system holds of all connections of this machine."""
    words = Path("/proc/net/sockstat").read_text().split()
    return int(words[words.index("mem") + 1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def reader(port: int, path: str, key: str) -> socket.socket:
    """Ask for something, and read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", port))
    ask = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
    connection.sendall(ask.encode())
    return connection


def status_of(connection: socket.socket) -> str:
    """Return the status that came, if any."""
    connection.setblocking(False)  # noqa: FBT003 - as sockets have it
    with contextlib.suppress(OSError):
        head = connection.recv(100, socket.MSG_PEEK)
        return head.split()[1].decode() if head else "closed"
    return "none yet"


def attack(server: Attacked, network: RoadNetwork, what: str, count: int) -> dict[str, Any]:
    """Let readers ask, and look at the memory, and at what somebody else waits for a route."""
    say(f"{count} readers: {what}")
    with contextlib.suppress(ServiceError):  # what is made once is there before
        server.client._ask("GET", PATHS[what])  # noqa: SLF001 - no method for maps
    ends = network.edge_ids[[0, network.n_edges // 2]].tolist()
    server.client.route(*ends)
    before, most, held, waited = server.memory_mib(), 0.0, 0.0, 0.0
    sockets = sockets_mib()
    connections = [
        reader(server.port, PATHS[what], server.keys[number % 2]) for number in range(count)
    ]
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        begin = time.monotonic()
        server.client.route(*ends)
        waited = max(waited, time.monotonic() - begin)
        most = max(most, server.memory_mib())
        held = max(held, sockets_mib() - sockets)
    statuses = Counter(map(status_of, connections))
    for connection in connections:
        connection.close()
    time.sleep(AFTER)
    return {
        "asked for": what,
        "answers": json.dumps(statuses).strip("{}").replace('"', ""),
        "MiB before": before,
        "MiB more, at most": most - before,
        "MiB more after they left": server.memory_mib() - before,
        "MiB of the system": held,
        "s, longest route of another key": waited,
    }


def main() -> None:
    """Attack this code's server, and perhaps another's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--before", help="src of another checkout")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        network = generate_city(1, options.edges).largest_component()
        file = Path(folder) / "city.npz"
        network.save(file)
        for code, source in (("before", options.before), ("now", None)):
            if code == "before" and source is None:
                continue
            server = Attacked(Path(folder) / code, file, source)
            for what in PATHS:
                rows.append({"code": code} | attack(server, network, what, options.connections))
                say(str(rows[-1]))
            server.stop()
    report(
        table(
            f"{options.connections} connections of two keys that read nothing",
            rows,
            f"{network.n_edges:,} edges, no rate limit, no compression, receive buffers of 4 KiB,",
            f"{SECONDS:g} s each; memory of the server without its learner, and {AFTER:g} s after",
            "the connections were closed. The system holds its part of unread answers besides.",
        )
    )


if __name__ == "__main__":
    main()
