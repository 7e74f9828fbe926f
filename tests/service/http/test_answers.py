"""Large answers and slow readers: little waits in memory, what waits is counted, others go on."""

import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from parts import require_module

require_module("fastapi", "service")

import uvicorn  # noqa: E402
from fastapi import FastAPI, Response  # noqa: E402

from superarm.service.http.access import Operations, Reading  # noqa: E402
from superarm.service.http.answers import (  # noqa: E402
    MOST_UNSENT,
    MOST_UNSENT_PER_KEY,
    PIECE,
    Pieces,
    packed,
    unpacked,
)
from superarm.service.http.connections import Door, Limits, guarded  # noqa: E402
from superarm.service.http.gate import Gate  # noqa: E402
from superarm.service.http.keys import Key  # noqa: E402
from superarm.service.http.metrics import Metrics  # noqa: E402
from superarm.service.server import SEND_BUFFER, listening_socket  # noqa: E402

LARGE = bytes(range(256)) * 4 * 2**12  # 4 MiB
HIGH_WATER = 64 * 2**10
"""Bytes that a connection takes before it says that it has enough."""

HELD_BY_SYSTEM = 4 * SEND_BUFFER
"""More than the system takes of an answer, for one connection, at both ends."""


@dataclass
class Keeper:
    """Lets everybody in under the name that they give, and counts what they spend."""

    spent: Counter[str] = field(default_factory=Counter)

    async def who(self, given: str | None, _address: str) -> Key:
        return Key(str(given), str(given), "read")

    def stranger(self, _address: str) -> None:
        """Nobody is one."""

    def charge(self, _key: Key, _cost: float) -> None:
        """Nothing is charged before."""

    def spend(self, key: Key, cost: float) -> None:
        self.spent[key.id] += cost  # type: ignore[assignment]


@dataclass
class Served:
    """A gate on a port, around an application of a few large answers."""

    port: int
    keeper: Keeper
    metrics: Metrics
    made: list[int]

    def reader(self, path: str, key: str) -> socket.socket:
        """Ask, and read nothing."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", self.port))
        ask = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
        connection.sendall(ask.encode())
        return connection

    def read(self, path: str, key: str, **headers: str) -> tuple[int, Any, bytes]:
        """Ask, and read all of it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers | {"authorization": f"Bearer {key}"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def gauge(self, name: str) -> float:
        lines = self.metrics.text().decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])

    def until(self, check: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not check():
            assert time.monotonic() < end
            time.sleep(0.02)


def application(made: list[int], keeper: Keeper, metrics: Metrics) -> FastAPI:
    app = FastAPI(openapi_url=None)

    @app.get("/whole")
    async def whole(key: Reading) -> Response:
        made.append(len(key.id))
        return Response(LARGE)

    @app.get("/huge")
    async def huge(key: Reading) -> Response:
        made.append(len(key.id))
        return Response(LARGE * 5)

    @app.get("/stream")
    async def stream(key: Reading) -> Response:
        def pieces() -> Iterator[bytes]:
            for begin in range(0, len(LARGE), PIECE):
                made.append(len(key.id))
                yield LARGE[begin : begin + PIECE]

        return Pieces(pieces(), "application/octet-stream")

    @app.get("/small")
    async def small(key: Reading) -> str:
        return key.name

    routes = Operations(app.routes)
    app.add_middleware(Gate, operations=routes, metrics=metrics, hosts=None, keeper=keeper)
    return app


@contextlib.contextmanager
def serving(limits: Limits) -> Iterator[Served]:
    keeper, metrics = Keeper(), Metrics()
    made: list[int] = []
    config = uvicorn.Config(
        application(made, keeper, metrics),
        http=guarded(Door(limits, metrics)),
        ws="none",
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with listening_socket("127.0.0.1", 0) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield Served(sock.getsockname()[1], keeper, metrics, made)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Limits()) as server:
        yield server


@contextlib.contextmanager
def readers(served: Served, path: str, keys: list[str]) -> Iterator[list[socket.socket]]:
    """Connections that have asked and read nothing; each answer has begun, or was refused."""
    connections = [served.reader(path, key) for key in keys]
    for connection in connections:
        connection.settimeout(60)
        assert connection.recv(1, socket.MSG_PEEK)
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()
        served.until(lambda: served.gauge("superarm_unsent_bytes") == 0)


def status_of(connection: socket.socket) -> int:
    head = connection.recv(2_000, socket.MSG_PEEK)
    return int(head.split()[1])


def test_what_is_sent_is_what_was_answered(served: Served) -> None:
    for path in ("/whole", "/stream"):
        assert served.read(path, "a")[2] == LARGE
    assert json.loads(served.read("/small", "a")[2]) == "a"
    assert served.gauge("superarm_unsent_bytes") == 0


def test_packing_and_unpacking_piece_by_piece_is_the_identity() -> None:
    pieces = [LARGE[:10], b"", LARGE, b"x"]
    body = b"".join(packed(pieces))
    assert gzip.decompress(body) == b"".join(pieces)
    assert b"".join(unpacked(body)) == b"".join(pieces)
    assert max(map(len, unpacked(body))) <= PIECE


def test_each_piece_beyond_the_first_costs_a_request(served: Served) -> None:
    for path in ("/whole", "/stream", "/small"):
        served.read(path, path)
    rest = len(LARGE) / PIECE - 1
    assert served.keeper.spent["/whole"] == rest
    assert served.keeper.spent["/stream"] == rest
    assert served.keeper.spent["/small"] == 0


@pytest.mark.parametrize("path", ["/whole", "/stream"])
def test_readers_of_one_key_hold_a_bounded_part_of_the_memory(served: Served, path: str) -> None:
    count = 40
    assert count * len(LARGE) > 4 * MOST_UNSENT_PER_KEY
    with readers(served, path, ["greedy"] * count) as connections:
        statuses = Counter(map(status_of, connections))
        assert set(statuses) == {200, 503}
        assert served.gauge("superarm_unsent_bytes") <= MOST_UNSENT_PER_KEY
        buffered = served.gauge("superarm_buffered_bytes")
        assert buffered <= count * (HIGH_WATER + 2 * PIECE)
        refused = next(one for one in connections if status_of(one) == 503)
        told = refused.recv(2_000).lower()
        assert b"retry-after: 2" in told
        assert b"too many large answers wait" in told
        # small answers of the same key, and all answers of others, have room
        assert served.read("/small", "greedy")[0] == 200
        assert served.read(path, "another")[2] == LARGE


def test_readers_of_many_keys_hold_a_bounded_part_of_the_memory(served: Served) -> None:
    keys = [f"key-{number // 4}" for number in range(80)]
    assert len(keys) * len(LARGE) > 2 * MOST_UNSENT
    with readers(served, "/whole", keys) as connections:
        assert served.gauge("superarm_unsent_bytes") <= MOST_UNSENT
        assert 503 in map(status_of, connections)
        assert served.read("/small", "another")[0] == 200


def test_one_answer_of_a_key_may_be_larger_than_its_share(served: Served) -> None:
    assert len(LARGE) * 5 > MOST_UNSENT_PER_KEY
    with readers(served, "/huge", ["a"]) as connections:
        assert status_of(connections[0]) == 200
        assert served.read("/whole", "a")[0] == 503
    assert served.read("/huge", "a")[2] == LARGE * 5


def test_nothing_is_made_ahead_of_a_reader(served: Served) -> None:
    served.made.clear()
    with readers(served, "/stream", ["alone"]):
        end = time.monotonic() + 1.0
        while time.monotonic() < end:  # all the time it wants
            time.sleep(0.05)
        held = HELD_BY_SYSTEM + HIGH_WATER + 2 * PIECE
        assert len(served.made) <= held / PIECE
        assert held < len(LARGE)
    made = len(served.made)
    served.until(lambda: served.gauge("superarm_connections") == 0)
    assert len(served.made) <= made + 2  # nor for one that has left


def test_readers_that_stop_or_dawdle_are_closed() -> None:
    with serving(Limits(write_s=0.5, answer_s=3.0)) as served:
        stopped, dawdling = (served.reader("/stream", key) for key in ("stopped", "dawdling"))
        read, begin = 0, time.monotonic()
        with contextlib.suppress(OSError):
            while part := dawdling.recv(2_048):
                read += len(part)
                time.sleep(0.002)
        assert read < len(LARGE)
        assert time.monotonic() - begin >= 0.5
        served.until(lambda: served.gauge("superarm_connections") == 0)
        stopped.close()
        dawdling.close()
        told = served.metrics.text().decode()
        assert 'superarm_refused_connections_total{reason="slow reader"}' in told
        assert served.gauge("superarm_unsent_bytes") == 0
