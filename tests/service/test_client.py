"""The client: tries again, packs large batches, says what was refused."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from superarm.client import Client, ServiceError


class _Busy(BaseHTTPRequestHandler):
    answers: list[tuple[int, bytes]]
    seen: list[Any]

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append((self.path, headers))
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        del args


@pytest.fixture
def busy() -> Iterator[tuple[str, type[_Busy]]]:
    handler = type("Handler", (_Busy,), {"answers": [], "seen": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_waits_while_the_service_is_busy(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    handler.answers = [(503, b"{}"), (429, b"{}"), (200, b'{"trips": 3}')]
    assert Client(url, "k").stats() == {"trips": 3}
    assert len(handler.seen) == 3
    assert handler.seen[0][1]["authorization"] == "Bearer k"


def test_it_gives_up_after_its_patience_and_on_refusals(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    handler.answers = [(422, b'{"detail": "unknown edge"}')]
    with pytest.raises(ServiceError, match="422: unknown edge"):
        Client(url).route("a", "b")
    handler.answers = [(503, b"oops")]
    with pytest.raises(ServiceError, match="503: oops"):
        Client(url, patience_s=-1).stats()


def test_large_batches_are_packed(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    handler.answers = [(207, b'{"trips": [{"status": "accepted"}]}')]
    trips = [{"trip_id": str(i), "edges": ["e"] * 10, "total_energy_wh": 1.0} for i in range(100)]
    assert Client(url).report_many(trips) == [{"status": "accepted"}]
    assert handler.seen[0][1]["content-encoding"] == "gzip"


def test_a_batch_that_is_too_large_is_sent_in_halves(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    taken = [f'{{"trips": [{{"trip_id": "{name}"}}]}}'.encode() for name in "abc"]
    handler.answers = [(413, b"{}"), (201, taken[0]), (413, b"{}"), (201, taken[1])]
    handler.answers += [(413, b'{"detail": "8 MiB"}'), (201, taken[2])]
    with pytest.raises(ServiceError, match="413: 8 MiB"):  # one that is too large by itself
        Client(url).report_many([{"trip_id": name} for name in "abc"])
    handler.answers = [(413, b"{}"), (201, taken[0]), (413, b"{}"), (201, taken[1])]
    handler.answers += [(201, taken[2])]
    outcomes = Client(url).report_many([{"trip_id": name} for name in "abc"])
    assert [one["trip_id"] for one in outcomes] == ["a", "b", "c"]


def test_addresses_are_checked() -> None:
    with pytest.raises(ValueError, match="must start with http"):
        Client("ftp://x")
    with pytest.raises(ServiceError, match="does not answer"):
        Client("http://127.0.0.1:1", patience_s=0).stats()


def test_values_of_queries_are_quoted(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    handler.answers = [(200, b"{}")]
    Client(url, "k").belief("car&role=admin #1", bbox="1,2,3,4")
    path, _ = handler.seen[-1]
    assert path == "/v1/belief?vehicle=car%26role%3Dadmin+%231&bbox=1%2C2%2C3%2C4"
