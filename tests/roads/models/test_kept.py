"""Arrays kept in files: read again as they were, or made again, whatever happened to the files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from parts import require_module
from services import small_city

require_module("fastapi", "service")

from superarm.errors import SuperarmError  # noqa: E402
from superarm.roads.models import fleet as fleets  # noqa: E402
from superarm.roads.models.kept import Kept  # noqa: E402
from superarm.saving.files import write_atomically  # noqa: E402
from superarm.service.http.state import ServiceState, Settings  # noqa: E402

ARRAYS = {"values": np.arange(300.0).reshape(100, 3), "rows": np.arange(7)}


class Maker:
    """Makes the arrays, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> dict[str, Any]:
        self.count += 1
        return dict(ARRAYS)


def assert_found(found: Any) -> None:
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert_array_equal(found[name], array)


def test_what_was_made_is_read_again_and_cannot_be_written_to(tmp_path: Path) -> None:
    make = Maker()
    for _ in range(3):
        found = Kept(tmp_path, "mine").found_or_made("part", make)
        assert_found(found)
    assert make.count == 1
    assert not found["values"].flags.writeable
    Kept(tmp_path, "another's").found_or_made("part", make)
    assert make.count == 2


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(["part-values.npy", "part-rows.npy", "part.json"]), st.data())
def test_damage_of_any_kind_is_noticed_and_mended(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    kept, make = Kept(folder, "mine"), Maker()
    kept.found_or_made("part", make)
    file = folder / name
    whole = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, min(len(whole), 200) - 1))  # headers above all
    if data.draw(st.booleans()):
        whole[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del whole[place:]
    file.write_bytes(whole)
    assert_found(kept.found_or_made("part", make))
    assert_found(kept.found_or_made("part", make))
    assert make.count <= 2


def test_what_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept, make = Kept(tmp_path, "mine"), Maker()
    kept.found_or_made("part", make)
    kept.found_or_made("other", make)
    written: list[Path] = []

    def full(path: Path, write: Any) -> None:
        written.append(path)
        if len(written) > 1:
            raise OSError(28, "no space left on device")
        write_atomically(path, write)

    monkeypatch.setattr("superarm.roads.models.kept.write_atomically", full)
    assert_found(Kept(tmp_path, "newer").found_or_made("part", make))
    assert "is not kept" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other-rows.npy",
        "other-values.npy",
        "other.json",
    ]


def test_a_server_of_another_network_leaves_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "MOST_ARMS", 100)  # an ensemble, however small the city
    database, state = str(tmp_path / "trips.db"), tmp_path / "state"
    first = ServiceState(Settings(network=small_city(500), database=database, state=state))
    first.database.close()
    files = {path: path.read_bytes() for path in (state / fleets.KNOWN).iterdir()}
    assert files
    with pytest.raises(SuperarmError, match="another network"):
        ServiceState(Settings(network=small_city(600), database=database, state=state))
    assert {path: path.read_bytes() for path in (state / fleets.KNOWN).iterdir()} == files
