"""A made-up file of the Vehicle Energy Dataset's form, from a local server to trips on roads."""

import csv
import functools
import http.server
import importlib
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from typer.testing import CliRunner

from parts import require_module
from services import small_city
from superarm.cli.app import make_app
from superarm.errors import DataError
from superarm.matching import Columns, Importer, random_routes, read_logs
from superarm.matching.trial import driven
from superarm.matching.ved import ARCHIVES, fetch_archives, write_electric_logs
from superarm.navigation import Geography

CITY = small_city(1000)
HEAD = [
    "DayNum", "VehId", "Trip", "Timestamp(ms)", "Latitude[deg]", "Longitude[deg]",
    "Vehicle Speed[km/h]", "MAF[g/sec]", "Engine RPM[RPM]", "Absolute Load[%]", "OAT[DegC]",
    "Fuel Rate[L/hr]", "Air Conditioning Power[kW]", "Air Conditioning Power[Watts]",
    "Heater Power[Watts]", "HV Battery Current[A]", "HV Battery SOC[%]", "HV Battery Voltage[V]",
    "Short Term Fuel Trim Bank 1[%]", "Short Term Fuel Trim Bank 2[%]",
    "Long Term Fuel Trim Bank 1[%]", "Long Term Fuel Trim Bank 2[%]",
]  # fmt: skip


def week(seed: int) -> list[list[Any]]:
    """An electric car that takes 10 kW, a hybrid whose engine runs, and one without a battery."""
    rng = np.random.default_rng(seed)
    route = random_routes(CITY, 1, rng)[0]
    drive = driven(CITY, route, 2.0)
    globe = Geography(CITY).to_globe(drive.seen(3.0, 0.0, rng).xy_m)
    rows = []
    for place, (longitude, latitude) in enumerate(globe.tolist()):
        begin = [8.5 + 7 * seed, 455, 1000 + seed, 2000 * place, latitude, longitude, 36.0]
        electric = [*[""] * 3, -3.0, "", "", 500.0, "", -25.0, 80.0 - 0.01 * place, 400.0]
        rows.append([*begin, *electric, *[""] * 4])
        if place == 5:  # lines that say nothing must not turn the current around
            rows.append([*begin[:3], "", *begin[4:], *electric, *[""] * 4])
            rows.append(["NaN", *begin[1:], *electric, *[""] * 4])
            rows.append([begin[0], "inf", *begin[2:], *electric, *[""] * 4])
        hybrid = [*begin[:1], 7, *begin[2:], "", 1500 if place > 3 else 0, "", 5.0, 0.3]
        rows.append([*hybrid, "", "", "", -5.0, 50.0, 300.0, *[""] * 4])
        plain = [*begin[:1], 8, *begin[2:], 3.0, 1500, 20.0, 5.0, 0.5]
        rows.append([*plain, *[""] * 6, *[""] * 4])
    return rows


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    require_module("py7zr", "ved")
    py7zr: Any = importlib.import_module("py7zr")  # an optional part
    folder = tmp_path / "served"
    folder.mkdir()
    for number, name in enumerate(ARCHIVES):
        table = folder / f"VED_17110{number + 1}_week.csv"
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD, *week(number), ["damaged"]])
        with py7zr.SevenZipFile(folder / name, "w") as archive:
            archive.write(table, f"VED_DynamicData/{table.name}")
    return folder


@pytest.fixture
def server(archives: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(archives))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_electric_cars_are_fetched_and_matched(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPERARM_CACHE", str(tmp_path / "cache"))
    output = tmp_path / "ved.parquet"
    arguments = ["data", "fetch", "ved", "--output", str(output), "--url", server]
    done = CliRunner().invoke(make_app("data"), arguments)
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(make_app("data"), [*arguments[:-1], "http://127.0.0.1:9"])
    assert again.exit_code == 0, again.output  # nobody is asked twice
    (log,) = read_logs(output, Columns(units={"time": "s"}))
    assert log.name.endswith("ved-455")
    first = datetime.fromtimestamp(log.time_s[0], ZoneInfo("America/Detroit"))
    assert (first.year, first.month, first.day, first.hour) == (2017, 11, 8, 12)
    assert np.nanmedian(log.warm_c) == -3.0
    importer = Importer(CITY, 5.0)
    trips = importer.trips(log)
    assert len(trips) >= 2
    took = sum(float(trip.entered_s[-1] - trip.entered_s[0]) for trip in trips)
    used = sum(float(trip.energy_wh.sum()) for trip in trips)
    assert used == pytest.approx(10_000 * took / 3600, rel=0.1)  # taken, although reported negative


def test_archives_that_unpack_to_too_much_are_refused(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superarm.matching.ved.MOST_BYTES", 1000)
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        write_electric_logs([archives / ARCHIVES[0]], tmp_path / "out.parquet")


def test_what_is_missing_or_damaged_is_said(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"by hand and put it at .*VED_DynamicData_Part1\.7z"):
        fetch_archives(tmp_path / "cache", f"{server}/nowhere")
    bad = tmp_path / "bad.7z"
    bad.write_bytes(b"no archive")
    with pytest.raises(DataError, match="is damaged"):
        write_electric_logs([bad], tmp_path / "out.parquet")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="it lacks"):
        write_electric_logs([other], tmp_path / "out.parquet")
    empty = tmp_path / "empty.csv"
    empty.write_text(",".join(f'"{name}"' for name in HEAD) + "\n")
    with pytest.raises(DataError, match="no electric vehicle"):
        write_electric_logs([empty], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
