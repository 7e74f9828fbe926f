"""The client: tries again, packs large batches, says what was refused."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parts import require_module
from services import small_city
from superarm.cli.app import make_app
from superarm.client import Client, ServiceError
from superarm.roads.imports import write_trips
from superarm.roads.imports.importer import MatchedTrip

VERDICT = json.dumps(
    {
        "verdict": "1 of its 1 trips are learned.",
        "trips_learned": 1,
        "trips_waiting": 0,
        "trusted": True,
    }
).encode()


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


def test_it_says_once_and_at_once_that_it_waits(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    said: list[tuple[str, int]] = []
    client = Client(
        url, patience_s=600.0, notify=lambda text: said.append((text, len(handler.seen)))
    )
    handler.answers = [(200, b"{}")]
    client.stats()
    assert said == []
    handler.answers = [(503, b'{"detail": "starting"}'), (503, b"{}"), (200, b"{}")]
    client.stats()
    ((text, before),) = said
    assert before == 2  # the first answer that was none is followed by the notice
    assert url in text
    assert "starting" in text
    assert "asking again for up to 600 s" in text


def test_who_does_not_answer_is_named_with_what_to_do() -> None:
    said: list[str] = []
    client = Client("http://127.0.0.1:1", patience_s=0.6, notify=said.append)
    with pytest.raises(ServiceError, match=r"^http://127.0.0.1:1 does not answer \(.+\).*check"):
        client.stats()
    (text,) = said
    assert text.startswith("http://127.0.0.1:1 does not answer (")
    assert "<" not in text  # no names of classes


def test_the_command_says_how_to_give_a_key(
    busy: tuple[str, type[_Busy]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = busy
    require_module("pyarrow", "experiments")
    monkeypatch.delenv("SUPERARM_KEY", raising=False)
    arguments = ["trips", "report", str(trips_file(tmp_path)), "--service", url]
    arguments += ["--network", str(tmp_path / "city.npz")]
    handler.answers = [(401, b'{"detail": "send an API key"}')]
    refused = CliRunner().invoke(make_app("trips"), arguments)
    assert isinstance(refused.exception, ServiceError)
    assert "401: send an API key" in str(refused.exception)
    assert "--key" in str(refused.exception)
    assert "SUPERARM_KEY" in str(refused.exception)
    outcome = b'{"trips": [{"trip_id": "t", "status": "accepted"}]}'
    handler.answers = [(503, b'{"detail": "starting"}'), (207, outcome), (200, VERDICT)]
    sent = CliRunner().invoke(make_app("trips"), [*arguments, "--key", "k"])
    assert sent.exit_code == 0, sent.output
    assert handler.seen[-1][1]["authorization"] == "Bearer k"
    assert f"sending 1 trips to {url}" in sent.stderr
    assert "starting" in sent.stderr
    assert "1 accepted" in sent.stdout
    assert "This key: 1 of its 1 trips are learned." in sent.stdout
    handler.answers = [(207, outcome), (404, b'{"detail": "not here"}')]
    without = CliRunner().invoke(make_app("trips"), [*arguments, "--key", "k"])
    assert without.exit_code == 0, without.output  # the trips have been taken
    assert "1 accepted" in without.stdout
    assert "404: not here" in without.stderr


def trips_file(folder: Path) -> Path:
    """A trip over one edge, and its network beside it."""
    city = small_city(500)
    city.save(folder / "city.npz")
    one = np.zeros(1, dtype=np.intp)
    energy, ends = np.full(1, 10.0), np.array([0.0, 20.0])
    trip = MatchedTrip("t", 0.0, one, ends, np.zeros(2), one, one, energy)
    write_trips(folder / "trips.parquet", city, [trip])
    return folder / "trips.parquet"


def test_values_of_queries_are_quoted(busy: tuple[str, type[_Busy]]) -> None:
    url, handler = busy
    handler.answers = [(200, b"{}")]
    Client(url, "k").belief("car&role=admin #1", bbox="1,2,3,4")
    path, _ = handler.seen[-1]
    assert path == "/v1/belief?vehicle=car%26role%3Dadmin+%231&bbox=1%2C2%2C3%2C4"
