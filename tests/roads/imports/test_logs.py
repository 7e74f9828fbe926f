"""Reading logs takes time and memory in proportion to what they hold, up to a limit."""

import gzip
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parts import require_module
from superarm import DataError
from superarm.cli.app import make_app
from superarm.roads.imports import read_logs
from superarm.roads.network import generate_city
from superarm.saving.parquet import write_columns

POINT = "2026-03-01T08:{:02d}:{:02d}Z"


def stamps(count: int) -> list[str]:
    return [POINT.format(second // 60 % 60, second % 60) for second in range(count)]


def csv(path: Path, vehicles: int, rows: int) -> Path:
    """Rows that go round the vehicles, each at a time of its own."""
    lines = [f"car{row % vehicles},{at},6.1,49.6" for row, at in enumerate(stamps(rows))]
    return text(path, "\n".join(["vehicle,time,lon,lat", *lines]))


def text(path: Path, content: str) -> Path:
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def gpx(path: Path, points: str) -> Path:
    return text(path, f"<gpx><trk><trkseg>{points}</trkseg></trk></gpx>")


def cpu_s(read: Callable[[], object]) -> float:
    """The least of three, since other processes only ever add."""
    spent = []
    for _ in range(3):
        begin = time.process_time()
        read()
        spent.append(time.process_time() - begin)
    return min(spent)


def test_work_does_not_grow_with_the_number_of_vehicles_beyond_their_own(tmp_path: Path) -> None:
    """To look through all rows once per vehicle would take 300 times as long, and more."""
    rows = 20_000
    alone = csv(tmp_path / "one.csv", 1, rows)
    fleet = csv(tmp_path / "fleet.csv", rows, rows)
    assert len(read_logs(fleet)) == rows
    assert cpu_s(lambda: read_logs(fleet)) < 60 * cpu_s(lambda: read_logs(alone))


@pytest.mark.parametrize("vehicles", [1, 3, 7])
def test_every_row_goes_to_its_vehicle(tmp_path: Path, vehicles: int) -> None:
    logs = read_logs(csv(tmp_path / "fleet.csv", vehicles, 60))
    assert [log.name for log in logs] == [f"fleet:car{number}" for number in range(vehicles)]
    for number, log in enumerate(logs):
        assert (log.time_s % 60).tolist() == list(range(number, 60, vehicles))


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".gpx", ".gpx.gz"])
def test_the_limit_counts_unpacked_bytes(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    if ".csv" in ending:
        csv(path, 1, 1000)
    else:
        gpx(path, "<trkpt lat='49.6' lon='6.1'/>" * 1000)
    content = path.read_bytes()
    size = len(gzip.decompress(content) if ending.endswith(".gz") else content)
    assert len(read_logs(path, most_bytes=size)) == 1
    with pytest.raises(DataError, match=r"log\..*unpacks to more than .* bytes.*--most-mb"):
        read_logs(path, most_bytes=size - 1)


def test_columns_that_repeat_a_value_are_bounded_too(tmp_path: Path) -> None:
    """Parquet stores what repeats once: a few kilobytes may hold gigabytes."""
    require_module("pyarrow", "experiments")
    rows = 200_000
    columns = {"time": [stamps(1)[0]] * rows, "lon": [6.1] * rows, "lat": [49.6] * rows}
    write_columns(tmp_path / "log.parquet", columns)
    assert (tmp_path / "log.parquet").stat().st_size < 100_000
    (log,) = read_logs(tmp_path / "log.parquet", most_bytes=100 * rows)
    assert len(log) == 1
    with pytest.raises(DataError, match=r"log.parquet unpacks to more than"):
        read_logs(tmp_path / "log.parquet", most_bytes=16 * rows)


@pytest.mark.parametrize(
    "point", ["<trkpt/>", "<trkpt lat='1' lon='2'><ele>3</ele></trkpt>", "<a/>"]
)
def test_a_track_takes_memory_in_proportion_to_its_file(tmp_path: Path, point: str) -> None:
    one = "<trkpt lat='49.6' lon='6.1'/>"
    path = gpx(tmp_path / "log.gpx.gz", one + point * (4_000_000 // len(point)))
    tracemalloc.start()
    try:
        read_logs(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000 * 20


@pytest.mark.parametrize("ending", [".csv.gz", ".gpx.gz"])
def test_half_a_file_is_damaged(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    csv(path, 1, 1000) if ".csv" in ending else gpx(path, "<trkpt lat='49.6' lon='6.1'/>" * 1000)
    content = bytearray(path.read_bytes())
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="is damaged"):
        read_logs(path)
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        read_logs(path)


def test_the_limit_is_an_option_of_the_command(tmp_path: Path) -> None:
    generate_city(0, 500).save(tmp_path / "city.npz")
    log = csv(tmp_path / "log.csv", 1, 40_000)
    arguments = ["trips", "import", str(log), "--network", str(tmp_path / "city.npz")]
    refused = CliRunner().invoke(make_app("trips"), [*arguments, "--most-mb", "1"])
    assert "unpacks to more than 1,048,576 bytes" in str(refused.exception)
    read = CliRunner().invoke(make_app("trips"), [*arguments, "--most-mb", "2"])
    assert read.exception is None or isinstance(read.exception, SystemExit)
