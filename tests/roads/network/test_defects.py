"""Networks that are not the same must not look alike, and nothing is ignored in silence."""

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

from parts import require_module
from small_networks import SUMO, random_network
from strategies import seeds
from superarm import DataError
from superarm.roads.bandit import NavigationProblem, crossing_routes
from superarm.roads.models import EnergyModel
from superarm.roads.network import RoadNetwork, generate_city, open_network, read_sumo
from superarm.roads.network.network import STEEP
from superarm.roads.vehicle import Vehicle

LEARNED_FROM = (
    "length_m", "speed_ms", "junction_xy_m", "junction_height_m", "edge_ids", "from_junction",
)  # fmt: skip


@given(seeds)
def test_whatever_enters_energies_and_contexts_enters_the_fingerprint(seed: int) -> None:
    network = random_network(seed)
    rng = np.random.default_rng(seed)
    for field in LEARNED_FROM[:4]:
        values = getattr(network, field).copy()
        values.flat[rng.integers(values.size)] += 1.0
        other = replace(network, **{field: values})
        assert other.fingerprint() != network.fingerprint(), field
    assert replace(network, name="other").fingerprint() == network.fingerprint()
    assert replace(network, lanes=network.lanes + 1).fingerprint() == network.fingerprint()


@pytest.mark.parametrize("field", ["junction_xy_m", "shape_xy_m", "shape_start", "lanes", "notes"])
def test_a_file_whose_arrays_were_altered_does_not_load(tmp_path: Path, field: str) -> None:
    network = generate_city(0, 600)
    network.save(tmp_path / "city.npz")
    with np.load(tmp_path / "city.npz") as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    arrays[field] = np.array(["changed"]) if field == "notes" else arrays[field] * 0
    np.savez(tmp_path / "altered.npz", **arrays)
    with pytest.raises(DataError, match="altered.npz"):
        RoadNetwork.load(tmp_path / "altered.npz")
    assert RoadNetwork.load(tmp_path / "city.npz").fingerprint() == network.fingerprint()


@pytest.mark.parametrize("starts", [0, 1, -1])
def test_shapes_must_cut_the_points(starts: int) -> None:
    network = random_network(1)
    wrong = network.shape_start * 0 if starts == 0 else network.shape_start + starts
    with pytest.raises(DataError, match="shape_start does not cut"):
        replace(network, shape_start=wrong)


def test_a_network_leaves_the_callers_arrays_as_they_were() -> None:
    network = random_network(2)
    lengths = network.length_m.copy()
    other = replace(network, length_m=lengths)
    assert lengths.flags.writeable
    lengths[0] = 1e9
    assert other.length_m[0] == network.length_m[0]
    with pytest.raises(ValueError, match="read-only"):
        other.length_m[0] = 1.0


@pytest.mark.parametrize("shift", [(0.0, 0.0), (1e5, -3e5), (-7.0, 2e6)])
def test_shifting_a_map_does_not_change_its_routes(shift: tuple[float, float]) -> None:
    city = generate_city(0, 1000).largest_component()
    moved = replace(
        city,
        junction_xy_m=city.junction_xy_m + np.array(shift),
        shape_xy_m=city.shape_xy_m + np.array(shift),
    )
    assert crossing_routes(moved) == crossing_routes(city)


def test_options_that_contradict_the_model_are_refused() -> None:
    city = generate_city(0, 600).largest_component()
    model = EnergyModel(city)
    ends, rng = crossing_routes(city)["A"], np.random.default_rng(0)
    wrong: list[dict[str, Any]] = [
        {"rectify": "dissipation"}, {"efficiency": "physical"}, {"lengthscale": 2.0},
        {"vehicle": Vehicle(mass_kg=900.0)},
    ]  # fmt: skip
    for option in wrong:
        with pytest.raises(ValueError, match=f"{next(iter(option))} = .* contradicts the model"):
            NavigationProblem(city, *ends, rng=rng, model=model, **option)
    NavigationProblem(city, *ends, rng=rng, model=model, rectify="energy", lengthscale=1.0)


def test_a_heightmap_for_a_network_with_heights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "town.net.xml").write_text(SUMO)
    with pytest.raises(DataError, match="has heights of its own"):
        open_network(tmp_path / "town.net.xml", [tmp_path / "heights.tif"])
    generate_city(0, 600).save(tmp_path / "city.npz")
    with pytest.raises(DataError, match="has heights of its own"):
        open_network(tmp_path / "city.npz", [tmp_path / "heights.tif"])


def test_a_steep_network_says_so(tmp_path: Path) -> None:
    require_module("sumolib", "sumo")
    (tmp_path / "town.net.xml").write_text(SUMO)
    assert not [note for note in read_sumo(tmp_path / "town.net.xml").notes if "steep" in note]
    (tmp_path / "alp.net.xml").write_text(SUMO.replace('z="25"', 'z="250"'))
    network = read_sumo(tmp_path / "alp.net.xml")
    assert (np.abs(network.grade) > STEEP).sum() == 2
    assert any("2 edges are steeper than 35%" in note for note in network.notes)


def test_the_grade_is_the_tangent_of_the_incline() -> None:
    network = random_network(3)
    sine, grade = network.sine_of_incline, network.grade
    flat = np.abs(sine) < 1
    np.testing.assert_allclose(grade[flat], np.tan(np.arcsin(sine[flat])), rtol=1e-9)
    assert np.isinf(grade[~flat]).all()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.npz", b"nonsense", "no network file of superarm, or damaged; make one"),
        ("bad.npz", b"\x80\x04K\x01.", "no network file of superarm, or damaged; make one"),
        (
            "bad.net.xml",
            b"<net></net>",
            "no SUMO network: an element lacks the attribute 'version'",
        ),
    ],
)
def test_strange_files_are_told_without_foreign_advice(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    if name.endswith("xml"):
        require_module("sumolib", "sumo")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as told:
        open_network(tmp_path / name)
    assert "pickle" not in str(told.value)


def test_an_archive_of_something_else_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(DataError, match="other.npz"):
        RoadNetwork.load(tmp_path / "other.npz")


def test_networks_of_an_older_format_are_refused(tmp_path: Path) -> None:
    network = random_network(0)
    network.save(tmp_path / "town.npz")
    with np.load(tmp_path / "town.npz") as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    arrays["format"] = np.array(["superarm-network", "1", "x"])
    np.savez(tmp_path / "old.npz", **arrays)
    with pytest.raises(
        DataError, match="format version 1, this superarm reads 3 to 5; make it again"
    ):
        RoadNetwork.load(tmp_path / "old.npz")
    assert_array_equal(RoadNetwork.load(tmp_path / "town.npz").turns, network.turns)


def test_arrays_that_are_no_archive_and_odd_archives_are_told(tmp_path: Path) -> None:
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    np.savez(tmp_path / "empty.npz", format=np.array([], dtype=str))
    np.savez(tmp_path / "version.npz", format=np.array(["superarm-network", "x", ""]))
    for name in ("array.npz", "empty.npz", "version.npz"):
        with pytest.raises(DataError, match="is no network file of superarm"):
            RoadNetwork.load(tmp_path / name)


def test_numbers_where_generators_and_ids_belong_are_told() -> None:
    city = generate_city(0, 600).largest_component()
    start, goal = crossing_routes(city)["A"]
    number: Any = 0
    with pytest.raises(TypeError, match="rng must be a numpy.random.Generator, got 0"):
        NavigationProblem(city, start, goal, rng=number)
    with pytest.raises(TypeError, match="edges are named by their ids, which are strings; got 0"):
        NavigationProblem(city, number, goal, rng=np.random.default_rng(0))
