"""Water below roads: read from OpenStreetMap, simplified, kept in files, seen in views."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import small_networks
from parts import require_module, require_real
from superarm import DataError
from superarm.arrays import Matrix
from superarm.roads.network import Geography, RoadNetwork, generate_city, read_osm
from superarm.roads.network.shores import MOST_POINTS, Box, Shores
from superarm.roads.network.water import KINDS, Water

Places = Sequence[tuple[float, float]]

LAKE = [(1.500, 42.500), (1.510, 42.501), (1.512, 42.507), (1.504, 42.509)]
ISLAND = [(1.504, 42.503), (1.507, 42.504), (1.505, 42.506)]
POND = [(1.520, 42.500), (1.522, 42.500), (1.521, 42.502)]
WATER = {"natural": "water"}
MOST_BYTES = 2_000_000


class Extract:
    """A made-up file: a road, and whatever is added."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.ways: list[str] = []
        self.relations: list[str] = []
        self.ids: dict[tuple[float, float], int] = {}
        self.way([(1.495, 42.498), (1.515, 42.512)], {"highway": "residential"})

    def node(self, place: tuple[float, float]) -> int:
        if place not in self.ids:
            self.ids[place] = len(self.ids) + 1
            lon, lat = place
            self.nodes.append(f"<node id='{self.ids[place]}' lon='{lon}' lat='{lat}'/>")
        return self.ids[place]

    def way(self, places: Places, tags: dict[str, str], missing: Sequence[int] = ()) -> int:
        refs = [self.node(place) for place in places]
        refs = [-7000 - i if i in missing else ref for i, ref in enumerate(refs)]
        number = len(self.ways) + 1
        inner = "".join(f"<nd ref='{ref}'/>" for ref in refs)
        self.ways.append(f"<way id='{number}' version='1'>{inner}{_tags(tags)}</way>")
        return number

    def relation(self, members: Sequence[tuple[str, int]], tags: dict[str, str]) -> None:
        inner = "".join(f"<member type='way' ref='{ref}' role='{role}'/>" for role, ref in members)
        text = inner + _tags({"type": "multipolygon"} | tags)
        self.relations.append(
            f"<relation id='{len(self.relations) + 1}' version='1'>{text}</relation>"
        )

    def read(self, folder: Path) -> RoadNetwork:
        require_module("osmium", "osm")
        require_module("pyproj", "osm")
        parts = [*self.nodes, *self.ways, *self.relations]
        path = folder / "made.osm"
        path.write_text("".join(["<osm version='0.6'>", *parts, "</osm>"]))
        return read_osm(path)


def _tags(tags: dict[str, str]) -> str:
    return "".join(f"<tag k='{key}' v='{value}'/>" for key, value in tags.items())


def closed(ring: Places) -> list[tuple[float, float]]:
    return [*ring, ring[0]]


def shoelace(ring: Any) -> float:
    """The area, signed, relative to a corner: coordinates of a zone are large."""
    x, y = (np.asarray(ring, dtype=np.float64) - ring[0]).T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum()) / 2


def on_plane(network: RoadNetwork, ring: Places) -> Matrix:
    return Geography(network).plane_of(np.array(ring))


def area_of(water: Water, piece: int) -> float:
    areas: list[float] = [shoelace(ring) for ring in water.rings_of(piece)]
    return sum(areas)


def kinds_of(water: Water) -> list[str]:
    return [KINDS[kind] for kind in water.kind]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_lake_without_its_island_has_the_area_of_the_shoelace_formula(
    tmp_path: Path, cut: int
) -> None:
    extract = Extract()
    ring = closed(LAKE)
    outer = [extract.way(ring[: cut + 1], {}), extract.way(ring[cut:][::-1], {})]
    inner = extract.way(closed(ISLAND), {})
    extract.relation([("outer", outer[0]), ("inner", inner), ("outer", outer[1])], WATER)
    network = extract.read(tmp_path)
    lake, island = (on_plane(network, ring) for ring in (LAKE, ISLAND))
    expected = abs(shoelace(lake)) - abs(shoelace(island))
    assert kinds_of(network.water) == ["area"]
    sides = np.hypot(*np.diff(lake, axis=0).T).sum() + np.hypot(*np.diff(island, axis=0).T).sum()
    rounding = float(np.spacing(np.float32(np.abs(lake).max()))) * sides * 2
    assert area_of(network.water, 0) == pytest.approx(expected, abs=rounding)


def test_a_relation_with_two_shores_is_two_areas(tmp_path: Path) -> None:
    extract = Extract()
    ways = [extract.way(closed(ring), {}) for ring in (LAKE, POND)]
    extract.relation([("outer", ways[0]), ("outer", ways[1])], {"landuse": "reservoir"})
    network = extract.read(tmp_path)
    found = sorted(area_of(network.water, piece) for piece in range(network.water.n_pieces))
    expected = sorted(abs(shoelace(on_plane(network, ring))) for ring in (LAKE, POND))
    assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        ({"natural": "water"}, "area"),
        ({"waterway": "riverbank"}, "area"),
        ({"landuse": "basin"}, "area"),
        ({"landuse": "reservoir"}, "area"),
        ({"landuse": "forest"}, None),
        ({"natural": "coastline"}, None),
        ({"landuse": "reservoir", "location": "underground"}, None),
        ({"waterway": "river"}, "river"),
        ({"waterway": "canal"}, "canal"),
        ({"waterway": "stream"}, "stream"),
        ({"waterway": "stream", "tunnel": "culvert"}, None),
        ({"waterway": "stream", "tunnel": "no"}, "stream"),
        ({"waterway": "canal", "covered": "yes"}, None),
        ({"waterway": "dam"}, None),
    ],
)
def test_what_counts_as_water(tmp_path: Path, tags: dict[str, str], kind: str | None) -> None:
    extract = Extract()
    extract.way(closed(LAKE), tags)
    assert kinds_of(extract.read(tmp_path).water) == ([kind] if kind else [])


def test_rings_that_are_wrong_do_not_break_reading(tmp_path: Path) -> None:
    plain = Extract().read(tmp_path)
    extract = Extract()
    extract.way(LAKE, WATER)  # not closed
    extract.way(LAKE[:2], WATER)  # two points
    extract.way([LAKE[0], LAKE[1], LAKE[0]], WATER)  # there and back
    extract.way(LAKE[:1], WATER)
    extract.way(closed(LAKE), WATER, missing=[2])
    extract.way([LAKE[0], LAKE[2], LAKE[1], LAKE[3], LAKE[0]], WATER)  # crosses itself
    extract.way([POND[0], POND[1], POND[0]], {"waterway": "river"}, missing=[1])
    half = extract.way(LAKE[:3], {})
    extract.relation([("outer", half)], WATER)
    extract.relation([("outer", 999)], WATER)
    extract.relation([], WATER)
    good = closed(POND)
    touching = [good[0], (1.5205, 42.4995), (1.5195, 42.4995), *good]  # twice at its corner
    extract.way(touching, WATER)
    network = extract.read(tmp_path)
    assert network.fingerprint() == plain.fingerprint()
    total = sum(area_of(network.water, piece) for piece in range(network.water.n_pieces))
    tip = abs(shoelace(on_plane(network, touching[:3])))
    assert total == pytest.approx(abs(shoelace(on_plane(network, POND))) + tip, rel=1e-4)


def test_a_river_is_cut_where_the_file_lacks_it_and_far_ones_are_left_out(tmp_path: Path) -> None:
    extract = Extract()
    line = [(1.50 + i / 1000, 42.50 + (i % 2) / 1000) for i in range(7)]
    extract.way(line, {"waterway": "river"}, missing=[3])
    extract.way([(3.0, 43.0), (3.1, 43.0)], {"waterway": "river"})
    network = extract.read(tmp_path)
    assert [len(network.water.rings_of(piece)[0]) for piece in (0, 1)] == [3, 3]
    assert network.water.n_pieces == 2
    expected = on_plane(network, [*line[:3], *line[4:]])
    assert_allclose(network.water.xy_m, expected, atol=0.01)


def test_water_changes_nothing_that_is_learned_from(tmp_path: Path) -> None:
    extract = Extract()
    extract.way(closed(LAKE), WATER)
    wet, dry = extract.read(tmp_path), Extract().read(tmp_path)
    assert wet.water.n_pieces == 1
    assert wet.fingerprint() == dry.fingerprint()
    assert wet.offset_m == dry.offset_m
    assert np.array_equal(wet.shape_xy_m, dry.shape_xy_m)


# ---- the value


def wet_network(seed: int = 0, pieces: int = 30) -> RoadNetwork:
    rng = np.random.default_rng(seed)
    network = generate_city(seed=3, n_edges=500)
    return replace(network, water=made_up(rng, pieces, network.junction_xy_m.max(axis=0)))


def made_up(rng: np.random.Generator, pieces: int, size: Any) -> Water:
    """Triangles and walks, of all sizes."""
    areas, lines = [], []
    for number in range(pieces):
        here, far = rng.uniform(0, 1, 2) * size, 10 ** rng.uniform(0.5, 3)
        if number % 2:
            corners = here + far * np.array([[0, 0], [1, 0], [0, 1], [0, 0]])
            areas.append([corners])
        else:
            kind = KINDS[1 + number // 2 % 3]
            lines.append((kind, here + far / 10 * rng.normal(size=(20, 2)).cumsum(axis=0)))
    return Water.of(areas, lines)


def test_files_keep_water_and_parts_of_a_network_too(tmp_path: Path) -> None:
    network = wet_network()
    network.save(tmp_path / "wet.npz")
    again = RoadNetwork.load(tmp_path / "wet.npz")
    for part in (again, network.largest_component(), network.take([0, 1, 2], "others")):
        for name, array in network.water.arrays().items():
            assert np.array_equal(part.water.arrays()[name], array), name
    assert again.fingerprint() == network.fingerprint()
    assert again.water.xy_m.dtype == np.float32


def test_files_of_the_version_without_water_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = small_networks.random_network(0)
    with monkeypatch.context() as before:
        before.setattr("superarm.roads.network.network.VERSION", 4)
        before.setattr(Water, "arrays", lambda _: {})
        network.save(tmp_path / "old.npz")
    with np.load(tmp_path / "old.npz") as stored:
        assert not [name for name in stored.files if name.startswith("water")]
    old = RoadNetwork.load(tmp_path / "old.npz")
    assert old.water.n_pieces == 0
    assert old.fingerprint() == network.fingerprint()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": [9]}, "a kind that nobody knows"),
        ({"kind": []}, "does not fit the pieces"),
        ({"ring_start": [0, 3]}, "does not cut the points"),
        ({"piece_start": [0, 2]}, "does not cut the rings"),
        ({"xy_m": [[0, 0], [1, 0], [0, np.nan], [0, 0]]}, "not finite"),
        ({"xy_m": [[0, 0], [1, 0], [0, 1], [5, 5]]}, "does not end where it begins"),
        ({"xy_m": [[0, 0], [1, 0], [0, 0]], "ring_start": [0, 3]}, "too few points"),
    ],
)
def test_water_that_is_none_is_refused(changes: dict[str, Any], told: str) -> None:
    triangle = np.array([[0, 0], [1, 0], [0, 1], [0, 0]])
    fine: dict[str, Any] = {
        "xy_m": triangle,
        "ring_start": [0, 4],
        "piece_start": [0, 1],
        "kind": [0],
    }
    Water(**fine)
    with pytest.raises(DataError, match=told):
        Water(**(fine | changes))


def telling(xy: Matrix, tolerance: float) -> set[int]:
    """Douglas and Peucker's algorithm as they wrote it: one line, by recursion."""

    def between(low: int, high: int) -> set[int]:
        if high - low < 2:
            return set()
        along = xy[high] - xy[low]
        square = max(float(along @ along), 1e-12)
        away = []
        for point in xy[low + 1 : high]:
            share = min(max(float((point - xy[low]) @ along) / square, 0.0), 1.0)
            away.append(float(np.hypot(*(point - xy[low] - share * along))))
        if max(away) <= tolerance:
            return set()
        split = low + 1 + int(np.argmax(away))
        return {split} | between(low, split) | between(split, high)

    return {0, len(xy) - 1} | between(0, len(xy) - 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(2, 40), min_size=1, max_size=6))
def test_all_lines_together_are_simplified_as_each_alone(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    tolerance = float(rng.uniform(0.1, 4))
    lines = [rng.normal(size=(size, 2)).cumsum(axis=0).astype(np.float32) for size in sizes]
    water, kept = Water.of((), [("river", line.astype(np.float64)) for line in lines]).simplified(
        tolerance
    )
    assert kept.all()
    for piece, line in enumerate(lines):
        rows = sorted(telling(line.astype(np.float64), tolerance))
        assert np.array_equal(water.rings_of(piece)[0], line[rows])


def test_what_shrinks_to_nothing_is_dropped() -> None:
    def square(side: float) -> Matrix:
        return side * np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], dtype=np.float64)

    water = Water.of([[square(100), square(3)], [square(3), square(2)]], [("stream", square(3))])
    simple, kept = water.simplified(10.0)
    assert kept.tolist() == [True, False, False]
    assert simple.n_rings == 1
    assert area_of(simple, 0) == 100**2
    nothing, _ = Water.none().simplified(2.0)
    assert nothing.n_pieces == 0


# ---- views


def around(place: Any) -> Box:
    x, y = (float(value) for value in place)
    return x - 1e-4, y - 1e-4, x + 1e-4, y + 1e-4


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_a_view_has_exactly_what_touches_its_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = wet_network(seed)
    shores, geography = Shores(Geography(network)), Geography(network)
    ends = geography.to_globe(rng.uniform(0, 1, (2, 2)) * network.junction_xy_m.max(axis=0))
    (west, south), (east, north) = ends.min(axis=0).tolist(), ends.max(axis=0).tolist()
    expected = []
    for piece in range(network.water.n_pieces):
        some = np.concatenate(network.water.rings_of(piece)).astype(np.float64)
        points = np.round(geography.to_globe(some), 5)
        apart = (points.max(axis=0) < [west, south]) | (points.min(axis=0) > [east, north])
        if not apart.any():
            expected.append(piece)
    assert shores.inside((west, south, east, north)).tolist() == expected
    view = shores.view((west, south, east, north))
    told = json.loads(shores.feature_collection(view))
    assert {one["id"] for one in told["features"]} <= set(expected)
    assert len(told["features"]) + told["left_out"] == len(expected)
    close = around((ends[0] + ends[1]) / 2)  # so close that nothing is too small
    assert shores.view(close).pieces.tolist() == shores.inside(close).tolist()


def test_shapes_of_a_close_view_are_those_of_the_network() -> None:
    network = wet_network()
    shores, geography = Shores(Geography(network)), Geography(network)
    lake = int(np.argmax(shores.bounds[1][:, 0] - shores.bounds[0][:, 0]))
    corner = geography.to_globe(network.water.rings_of(lake)[0][:1].astype(np.float64))[0]
    told = json.loads(shores.feature_collection(shores.view(around(corner))))
    found = next(one for one in told["features"] if one["id"] == lake)
    assert found["properties"]["kind"] == kinds_of(network.water)[lake]
    line = np.array(found["geometry"]["coordinates"]).reshape(-1, 2)
    # rounding to five digits moves a point by half a metre at most, along both axes
    assert_allclose(
        geography.plane_of(line), np.concatenate(network.water.rings_of(lake)), atol=0.6
    )


def test_a_view_never_has_too_much() -> None:
    rng = np.random.default_rng(1)
    network = generate_city(seed=3, n_edges=500)
    large = made_up(rng, 30_000, np.array([90_000.0, 90_000.0]))
    shores = Shores(Geography(replace(network, water=large)))
    for box in (None, (-1.0, -1.0, 2.0, 2.0), (0.2, 0.2, 0.6, 0.6), (-1e90, -1e90, 1e90, 1e90)):
        view = shores.view(box)
        everything = large.n_pieces if box is None else shores.inside(box).size
        assert view.pieces.size + view.left_out == everything
        assert len(view.water.xy_m) + 5 * view.pieces.size <= MOST_POINTS
        assert len(shores.feature_collection(view)) < MOST_BYTES
    assert shores.view(None).pieces.size > 0


@pytest.mark.parametrize("name", ["andorra.osm.pbf", "andorra.osm.gz"])
def test_lakes_and_rivers_of_a_mountain_country(name: str) -> None:
    require_module("osmium", "osm")
    network = read_osm(require_real() / "andorra" / name)
    water = network.water
    assert {"area", "river", "stream"} <= set(kinds_of(water))
    areas = [area_of(water, piece) for piece in range(water.n_pieces) if water.kind[piece] == 0]
    assert min(areas) > 0
    assert 0.5e6 < sum(areas) < 10e6  # the country has 468 km², of which little is water
    assert sum(array.nbytes for array in water.arrays().values()) < 200_000
