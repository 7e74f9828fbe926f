"""OpenStreetMap: roads as they are, heights along them, and who may drive where."""

import gzip
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import small_networks
from parts import require_module, require_networks, require_real
from superarm import DataError
from superarm.roads.charging import read_stations
from superarm.roads.network import RoadNetwork, open_network, read_osm
from superarm.roads.network.access import CLOSED, ENDS_ONLY, OPEN, zones_of
from superarm.roads.network.formats.heights import heights_at, read_tiles, smoothed_heights
from superarm.roads.network.formats.osm_tags import kmh, metres, tons
from superarm.roads.vehicle import Vehicle

TRUCK = Vehicle(mass_kg=18_000.0, height_m=4.0)


@pytest.fixture(autouse=True)
def _needs_osmium() -> None:
    require_module("osmium", "osm")
    require_module("pyproj", "osm")


def osm(
    folder: Path,
    ways: Sequence[tuple[Sequence[int], dict[str, str]]],
    relations: Sequence[tuple[dict[str, str], Sequence[tuple[str, str, int]]]] = (),
    nodes: dict[int, dict[str, str]] | None = None,
) -> RoadNetwork:
    """Nodes lie on a grid of 10 columns, 0.001 degrees apart; way i has the id 100 + i."""

    def tags(of: dict[str, str]) -> str:
        return "".join(f"<tag k={quoteattr(k)} v={quoteattr(v)}/>" for k, v in of.items())

    used = sorted({node for refs, _ in ways for node in refs})
    text = ["<osm version='0.6'>"]
    text += [
        f"<node id='{n}' lat='{42.5 + n // 10 / 1000}' lon='{1.5 + n % 10 / 1000}'>"
        f"{tags((nodes or {}).get(n, {}))}</node>"
        for n in used
    ]
    for number, (refs, of) in enumerate(ways):
        inner = "".join(f"<nd ref='{ref}'/>" for ref in refs)
        kind = {"highway": "residential"} | of
        text.append(f"<way id='{100 + number}'>{inner}{tags(kind)}</way>")
    kinds = {"n": "node", "w": "way"}
    for number, (of, members) in enumerate(relations):
        inner = "".join(
            f"<member type='{kinds[kind]}' ref='{ref}' role='{role}'/>"
            for role, kind, ref in members
        )
        text.append(f"<relation id='{900 + number}'>{inner}{tags(of)}</relation>")
    path = folder / "made.osm"
    path.write_text("".join([*text, "</osm>"]))
    return read_osm(path)


def edges_of(network: RoadNetwork) -> set[str]:
    return set(network.edge_ids.tolist())


def turns_of(network: RoadNetwork, vehicle: Vehicle | None = None) -> set[tuple[str, str]]:
    allowed = network.access.turns_for(vehicle or Vehicle())
    ids = network.edge_ids
    return {(str(ids[a]), str(ids[b])) for a, b in network.turns[allowed]}


@pytest.mark.parametrize("name", ["town.osm", "town.osm.gz", "-o evil,--help.osm"])
def test_roads_of_cars_with_heights_from_tags(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = small_networks.OSM.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    network = read_osm(path).largest_component()
    assert network.n_edges == 10  # five two-way roads, no footway
    heights = dict(zip(network.junction_ids.tolist(), network.junction_height_m, strict=True))
    assert heights == {"1": 250, "2": 280, "3": 310, "4": 260}
    assert "utm" in network.projection
    west_east = network.length_m[network.position("10:1>2")]
    assert west_east == pytest.approx(722, rel=0.01)  # 0.01 degrees at 49.6 north
    assert network.speed_ms[network.position("10:1>2")] == pytest.approx(60 / 3.6)


def test_a_packed_file_is_the_same_map(tmp_path: Path) -> None:
    import osmium  # noqa: PLC0415 - an optional part

    (tmp_path / "town.osm").write_text(small_networks.OSM)
    with osmium.SimpleWriter(str(tmp_path / "town.osm.pbf")) as writer:
        for one in osmium.FileProcessor(str(tmp_path / "town.osm")):
            writer.add(one)
    plain, packed = (open_network(tmp_path / f"town.osm{end}") for end in ("", ".pbf"))
    assert plain.fingerprint() == packed.fingerprint()


def test_ways_are_cut_where_they_meet_and_keep_their_bends(tmp_path: Path) -> None:
    network = osm(tmp_path, [([1, 2, 3, 4], {}), ([13, 3, 23], {})])
    assert edges_of(network) == {
        "100:1>3", "100:3>1", "100:3>4", "100:4>3", "101:13>3", "101:3>13", "101:3>23", "101:23>3",
    }  # fmt: skip
    assert network.shape_of(network.position("100:1>3")).shape == (3, 2)
    # turning round at dead ends only
    found = turns_of(network)
    assert ("100:3>4", "100:4>3") in found
    assert ("100:1>3", "100:3>1") not in found
    assert ("100:1>3", "101:3>23") in found


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({}, {"100:1>2", "100:2>1"}),
        ({"oneway": "yes"}, {"100:1>2"}),
        ({"oneway": "-1"}, {"100:2>1"}),
        ({"highway": "motorway"}, {"100:1>2"}),
        ({"highway": "motorway", "oneway": "no"}, {"100:1>2", "100:2>1"}),
        ({"junction": "roundabout"}, {"100:1>2"}),
        ({"motor_vehicle:backward": "no"}, {"100:1>2"}),
        ({"access": "no", "motor_vehicle": "yes"}, {"100:1>2", "100:2>1"}),
    ],
)
def test_directions(tmp_path: Path, tags: dict[str, str], expected: set[str]) -> None:
    assert edges_of(osm(tmp_path, [([1, 2], tags)])) == expected


@pytest.mark.parametrize(
    ("tags", "car", "truck"),
    [
        ({}, OPEN, OPEN),
        ({"hgv": "no"}, OPEN, CLOSED),
        ({"hgv": "destination"}, OPEN, ENDS_ONLY),
        ({"hgv": "delivery"}, OPEN, ENDS_ONLY),
        ({"access": "private"}, ENDS_ONLY, ENDS_ONLY),
        ({"motor_vehicle": "destination"}, ENDS_ONLY, ENDS_ONLY),
        ({"motor_vehicle": "no", "hgv": "yes"}, CLOSED, OPEN),
        ({"access": "no", "hgv": "destination"}, CLOSED, ENDS_ONLY),
        ({"hgv": "unknown"}, OPEN, OPEN),
        ({"maxweight": "7.5"}, OPEN, CLOSED),
        ({"maxweight": "20 t"}, OPEN, OPEN),
        ({"maxweight": "3000 kg"}, OPEN, CLOSED),
        ({"maxheight": "3.5"}, OPEN, CLOSED),
        ({"maxheight": "12'6\""}, OPEN, CLOSED),
        ({"maxheight": "default"}, OPEN, OPEN),
    ],
)
def test_access_by_vehicle(tmp_path: Path, tags: dict[str, str], car: int, truck: int) -> None:
    network = osm(tmp_path, [([1, 2], tags), ([2, 3], {})])
    edge = network.position("100:1>2")
    assert network.access.edges_for(Vehicle())[edge] == car
    assert network.access.edges_for(TRUCK)[edge] == truck
    assert network.access.edges_for(TRUCK)[network.position("101:2>3")] == OPEN


def test_tolls_streets_and_classes_are_attributes(tmp_path: Path) -> None:
    tags = {"toll": "yes", "name": "Rue de l'Église", "highway": "primary", "lanes": "4"}
    network = osm(tmp_path, [([1, 2], tags)])
    assert network.access.toll.all()
    assert set(network.streets.tolist()) == {"Rue de l'Église"}
    assert set(network.road_class.tolist()) == {"primary"}
    assert network.lanes.tolist() == [2, 2]


def test_turn_restrictions_hold_for_whom_they_say(tmp_path: Path) -> None:
    cross: list[tuple[list[int], dict[str, str]]] = [([1, 2], {}), ([2, 3], {}), ([2, 12], {})]
    members = [("from", "w", 100), ("via", "n", 2), ("to", "w", 102)]
    turn, straight = ("100:1>2", "102:2>12"), ("100:1>2", "101:2>3")

    def allowed(tags: dict[str, str]) -> tuple[bool, bool, bool]:
        network = osm(tmp_path, cross, [({"type": "restriction"} | tags, members)])
        car, truck = turns_of(network), turns_of(network, TRUCK)
        return turn in car, turn in truck, straight in car

    assert allowed({}) == (True, True, True)
    assert allowed({"restriction": "no_right_turn"}) == (False, False, True)
    assert allowed({"restriction:hgv": "no_right_turn"}) == (True, False, True)
    assert allowed({"restriction": "no_right_turn", "except": "hgv"}) == (False, True, True)
    assert allowed({"restriction": "only_right_turn"}) == (True, True, False)


def test_restrictions_over_ways_are_told(tmp_path: Path) -> None:
    members = [("from", "w", 100), ("via", "w", 101), ("to", "w", 102)]
    network = osm(
        tmp_path,
        [([1, 2], {}), ([2, 3], {}), ([3, 4], {})],
        [({"type": "restriction", "restriction": "no_u_turn"}, members)],
    )
    assert any("1 turn restrictions over several ways" in note for note in network.notes)


def test_nobody_passes_a_bollard(tmp_path: Path) -> None:
    network = osm(tmp_path, [([1, 2, 3], {})], nodes={2: {"barrier": "bollard"}})
    found = turns_of(network)
    assert ("100:1>2", "100:2>3") not in found
    assert ("100:1>2", "100:2>1") in found
    private = {"barrier": "gate", "access": "private"}
    shut = osm(tmp_path, [([1, 2, 3], {})], nodes={2: private})
    assert ("100:1>2", "100:2>3") not in turns_of(shut)
    open_ = osm(tmp_path, [([1, 2, 3], {})], nodes={2: {"barrier": "gate"}})
    assert ("100:1>3" in edges_of(open_)) or ("100:1>2", "100:2>3") in turns_of(open_)


def test_areas_for_those_only_who_end_there(tmp_path: Path) -> None:
    ends = {"motor_vehicle": "destination"}
    network = osm(
        tmp_path, [([1, 2], {}), ([2, 3], ends), ([3, 4], ends), ([4, 5], {}), ([5, 6], ends)]
    )
    zones = zones_of(network.access.edges_for(Vehicle()), network.turns)
    at = {name: int(zones[network.position(name)]) for name in network.edge_ids.tolist()}
    assert at["100:1>2"] == at["103:4>5"] == -1
    assert at["101:2>3"] == at["102:3>4"] >= 0
    assert at["104:5>6"] not in {-1, at["101:2>3"]}


def test_a_loop_keeps_all_of_its_length(tmp_path: Path) -> None:
    network = osm(tmp_path, [([1, 2], {}), ([2, 3, 13, 12, 2], {})])
    loop = [name.startswith("101:") for name in network.edge_ids.tolist()]
    sides = np.hypot(82.0, 0) * 2 + 111.2 * 2  # 0.001 degrees at 42.5 north, two of each
    assert network.length_m[loop].sum() == pytest.approx(2 * sides, rel=0.02)


def test_across_a_hole_there_is_no_road(tmp_path: Path) -> None:
    osm(tmp_path, [([1, 2, 3, 4, 5, 6], {})])
    text = (tmp_path / "made.osm").read_text()
    for node in ("3", "4"):
        text = text.replace(f"<node id='{node}' ", f"<node id='9{node}' ")
    (tmp_path / "cut.osm").write_text(text)
    assert edges_of(read_osm(tmp_path / "cut.osm")) == {"100:1>2", "100:2>1", "100:5>6", "100:6>5"}


def test_places_on_top_of_each_other_do_not_sever_a_road(tmp_path: Path) -> None:
    osm(tmp_path, [([1, 2, 3, 4], {}), ([12, 2], {}), ([13, 3], {})])
    text = (tmp_path / "made.osm").read_text()
    text = text.replace(
        "<node id='3' lat='42.5' lon='1.503'>", "<node id='3' lat='42.5' lon='1.502'>"
    )
    (tmp_path / "same.osm").write_text(text)
    network = read_osm(tmp_path / "same.osm")
    assert ("100:1>2", "100:2>3") in turns_of(network)
    assert ("100:2>3", "100:3>4") in turns_of(network)
    (tmp_path / "dot.osm").write_text(
        "<osm version='0.6'><node id='1' lat='1' lon='1'/><node id='2' lat='1' lon='1.1'/>"
        "<way id='1'><nd ref='1'/><nd ref='2'/><nd ref='1'/>"
        "<tag k='highway' v='service'/></way></osm>"
    )
    with pytest.raises(DataError, match=r"dot.osm"):
        read_osm(tmp_path / "dot.osm")


def test_restrictions_that_do_not_fit_close_nothing(tmp_path: Path) -> None:
    cross: list[tuple[list[int], dict[str, str]]] = [([1, 2], {}), ([2, 3], {}), ([2, 12], {})]
    straight, right = ("100:1>2", "101:2>3"), ("100:1>2", "102:2>12")

    def turns(tags: dict[str, str], target: int, vehicle: Vehicle | None = None) -> set[Any]:
        members = [("from", "w", 100), ("via", "n", 2), ("to", "w", target)]
        network = osm(tmp_path, cross, [({"type": "restriction"} | tags, members)])
        return turns_of(network, vehicle)

    assert {straight, right} <= turns({"restriction": "only_straight_on"}, 999)
    assert right in turns({"restriction": "no_right_turn_on_red"}, 102)
    assert straight in turns({"restriction": "no_u_turn"}, 101)
    both = {"restriction": "no_right_turn", "restriction:hgv": "only_right_turn"}
    assert right not in turns(both, 102)
    assert {right} <= turns(both, 102, TRUCK)
    assert straight not in turns(both, 102, TRUCK)


def test_loops_and_cut_ways(tmp_path: Path) -> None:
    network = osm(tmp_path, [([1, 2], {}), ([2, 3, 13, 12, 2], {})])
    assert all(network.from_junction[i] != network.to_junction[i] for i in range(network.n_edges))
    text = (tmp_path / "made.osm").read_text().replace("<node id='13'", "<node id='99'")
    (tmp_path / "cut.osm").write_text(text)
    assert any("1 ways are cut" in note for note in read_osm(tmp_path / "cut.osm").notes)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("<osm version='0.6'></osm>", "no roads of motor vehicles"),
        ("<osm version='0.6'><node id='1'", "could not be read"),
        ("not xml at all", "could not be read"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "broken.osm"
    path.write_text(content)
    with pytest.raises(DataError, match=f"broken.osm {told}|{told}"):
        read_osm(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_osm(path, tmp_path / "no.tif")


def three_nodes(folder: Path, second: str, refs: Sequence[str] = ("1", "2", "3")) -> Path:
    """A road of three nodes, of which a test makes the second."""
    path = folder / "three.osm"
    nodes = f"<node id='1' lat='1' lon='1'/>{second}<node id='3' lat='1.01' lon='1.01'/>"
    inner = "".join(f"<nd ref='{ref}'/>" for ref in refs)
    road = f"<way id='7'>{inner}<tag k='highway' v='service'/></way>"
    path.write_text(f"<osm version='0.6'>{nodes}{road}</osm>")
    return path


@pytest.mark.parametrize("reader", [read_osm, read_stations])
@pytest.mark.parametrize("lon", ["nan", "inf", "-inf", "", "abc", "1.5x"])
def test_coordinates_that_are_no_numbers_are_errors_of_the_file(
    tmp_path: Path, lon: str, reader: Callable[[Path], object]
) -> None:
    path = three_nodes(tmp_path, f"<node id='2' lat='1' lon='{lon}'/>")
    with pytest.raises(DataError, match=r"three.osm could not be read.*coordinate.*correct it"):
        reader(path)


@pytest.mark.parametrize(
    "second",
    [
        "<node id='2' lat='1.01' lon='181'/>",
        "<node id='2' lat='91' lon='1'/>",
        "<node id='2' lat='1'/>",
        "<node id='2'/>",
    ],
)
def test_nodes_without_a_valid_place_are_left_out_and_counted(tmp_path: Path, second: str) -> None:
    path = three_nodes(tmp_path, second, ("1", "2", "1", "3"))
    network = read_osm(path)
    assert edges_of(network) == {"7:1>3", "7:3>1"}
    assert any("1 nodes of roads have no valid coordinates" in note for note in network.notes)
    with pytest.raises(DataError, match=r"three.osm .*missing or have no valid coordinates"):
        read_osm(three_nodes(tmp_path, second, ("1", "2")))


@pytest.mark.parametrize("second", ["", "<node lat='1' lon='1'/>"])
def test_ways_whose_nodes_are_not_there_are_told(tmp_path: Path, second: str) -> None:
    with pytest.raises(DataError, match=r"three.osm .*missing or have no valid coordinates"):
        read_osm(three_nodes(tmp_path, second, ("1", "2")))


@pytest.mark.parametrize("ref", ["x", "9" * 30])
def test_references_that_are_no_numbers_are_errors_of_the_file(tmp_path: Path, ref: str) -> None:
    with pytest.raises(DataError, match=r"three.osm could not be read: illegal id"):
        read_osm(three_nodes(tmp_path, "", ("1", ref)))


def test_roads_around_the_world_are_no_town(tmp_path: Path) -> None:
    path = three_nodes(tmp_path, "<node id='2' lat='1' lon='-180'/>")
    with pytest.raises(DataError, match=r"three.osm .*longitude -180.000 to 1.010.*extract"):
        read_osm(path)


@pytest.mark.parametrize("height", ["nan", "inf", "-inf", "1e308", "-1e9", "9001", "-1001"])
def test_heights_of_no_road_on_earth_are_left_out_and_counted(tmp_path: Path, height: str) -> None:
    tagged = f"<node id='2' lat='1' lon='1.005'><tag k='ele' v='{height}'/></node>"
    network = read_osm(three_nodes(tmp_path, tagged))
    assert not network.junction_height_m.any()
    assert any("1 heights (ele) are left out" in note for note in network.notes)


@pytest.mark.parametrize(
    ("text", "value"),
    [("50", 50), ("30 mph", 48.28032), ("none", 130), ("walk", 6), ("ES:urban", None), ("0", None)],
)
def test_speed_limits(text: str, value: float | None) -> None:
    found = kmh(text)
    assert found == (None if value is None else pytest.approx(value))


def test_weights_and_heights() -> None:
    assert tons("7,5") == 7.5
    assert tons("3 st") == pytest.approx(2.72155422)
    assert tons("unsigned") == np.inf
    assert metres("3.8 m") == 3.8
    assert metres("10'6\"") == pytest.approx(3.2004)
    assert metres("below_default") == np.inf


def tile(folder: Path, name: str, heights: np.ndarray) -> Path:
    path = folder / f"{name}.hgt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.hgt", heights.astype(">i2").tobytes())
    return path


def plane(west: int, south: int, size: int = 1201) -> np.ndarray:
    """Heights that are linear in longitude and latitude: 1000 m per degree east, 500 north."""
    x, y = np.linspace(west, west + 1, size), np.linspace(south + 1, south, size)
    return np.rint(1000 * x[None, :] + 500 * (y[:, None] - 42))


def test_tiles_are_interpolated_also_across_their_seam(tmp_path: Path) -> None:
    left = tile(tmp_path, "N42E001", plane(1, 42))
    right = tile(tmp_path, "N42E002", plane(2, 42))
    tiles = read_tiles([left, right])
    east, north = np.linspace(1.9, 2.1, 41), np.full(41, 42.37)
    assert_allclose(heights_at(tiles, east, north), 1000 * east + 500 * 0.37, atol=1.0)
    assert np.isnan(heights_at(tiles[:1], np.array([2.05]), np.array([42.4]))).all()


def test_voids_are_filled_from_known_corners(tmp_path: Path) -> None:
    heights = plane(1, 42)
    heights[600, 600] = -32768
    (one,) = read_tiles([tile(tmp_path, "N42E001", heights)])
    near = one.at(np.array([1.5 + 0.3 / 1200]), np.array([42.5]))
    assert_allclose(near, heights[600, 601], atol=1)
    assert np.isnan(one.at(np.array([1.5]), np.array([42.5]))).all()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("map.png", b"\x89PNG\r\n", "no GeoTIFF, and no SRTM tile"),
        ("N42E001.hgt", b"abc", "1201 x 1201"),
        ("tile.hgt", b"", "named by their corner"),
        ("N42E001.hgt.zip", b"abc", "damaged"),
        ("N42E001.tif", b"II*\0abc", "damaged"),
    ],
)
def test_what_is_no_raster_is_told(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    require_module("rasterio", "osm")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        read_tiles([tmp_path / name])


def test_a_raster_that_misses_the_roads_is_refused_with_how_much(tmp_path: Path) -> None:
    (tmp_path / "town.osm").write_text(small_networks.OSM)
    with pytest.raises(DataError, match=r"cover 0.0% of the points of roads in town.osm"):
        read_osm(tmp_path / "town.osm", tile(tmp_path, "N42E001", plane(1, 42)))


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 30), st.floats(-0.1, 0.1), st.integers(0, 1000))
def test_even_grades_stay_as_they_are_inside(count: int, grade: float, seed: int) -> None:
    """Smoothing costs nothing where the ground is even, away from the ends."""
    rng = np.random.default_rng(seed)
    length = rng.uniform(5, 15, 40 * count)
    at = np.append(0.0, np.cumsum(length))
    pieces = np.column_stack([np.arange(at.size - 1), np.arange(1, at.size)])
    smooth = smoothed_heights(grade * at, pieces, length, np.zeros(length.size, dtype=np.bool_))
    inner = (at > 600) & (at < at[-1] - 600)
    assert_allclose(smooth[inner], grade * at[inner], atol=1.0 * abs(grade) + 1e-6)


def test_bridges_and_tunnels_have_even_grades() -> None:
    at = np.arange(0.0, 2000.0, 20.0)
    ground = np.where((at > 800) & (at < 1200), 400.0, 500.0)  # a gorge under a bridge
    pieces = np.column_stack([np.arange(at.size - 1), np.arange(1, at.size)])
    bridged = (at[:-1] >= 780) & (at[1:] <= 1220)
    smooth = smoothed_heights(ground, pieces, np.full(at.size - 1, 20.0), bridged)
    assert_allclose(smooth, 500.0, atol=1e-6)


def test_smoothing_is_the_least_squares_it_says() -> None:
    rng = np.random.default_rng(0)
    pieces = np.array([[0, 1], [1, 2], [2, 3], [1, 4], [4, 5]])
    length = rng.uniform(10, 100, 5)
    raw = rng.uniform(100, 200, 6)
    bridged = np.array([False, False, True, False, False])
    found = smoothed_heights(raw, pieces, length, bridged, smoothing_m=50.0)
    weight = np.zeros(6)
    for (a, b), size, skip in zip(pieces, length, bridged, strict=True):
        weight[[a, b]] += 0 if skip else size / 2
    rows = [np.sqrt(weight[i]) * np.eye(6)[i] for i in range(6)]
    rows += [
        50 / np.sqrt(s) * (np.eye(6)[a] - np.eye(6)[b])
        for (a, b), s in zip(pieces, length, strict=True)
    ]
    target = np.concatenate([np.sqrt(weight) * raw, np.zeros(5)])
    assert_allclose(found, np.linalg.lstsq(np.array(rows), target, rcond=None)[0], atol=1e-5)


def test_heights_from_a_geotiff(tmp_path: Path) -> None:
    require_module("rasterio", "osm")
    heights = require_networks() / "luxembourg_dem.tif"
    path = tmp_path / "town.osm"
    path.write_text(small_networks.OSM)
    network = read_osm(path, heights)
    assert 150 < network.junction_height_m.min() < network.junction_height_m.max() < 450


@pytest.fixture(scope="module")
def andorra() -> RoadNetwork:
    require_module("osmium", "osm")
    folder = require_real() / "andorra"
    return read_osm(folder / "andorra.osm.pbf", folder / "N42E001.hgt.zip")


class TestRealMaps:
    def test_andorra_is_a_mountain_country(self, andorra: RoadNetwork) -> None:
        connected = andorra.largest_component()
        assert connected.n_edges > 0.95 * andorra.n_edges
        assert 830 < connected.junction_height_m.min() < 900  # its lowest point has 840 m
        assert 2380 < connected.junction_height_m.max() < 2450  # Port d'Envalira has 2,408 m
        assert np.percentile(np.abs(connected.grade), 99) < 0.25

    def test_both_formats_are_the_same_map(self, andorra: RoadNetwork) -> None:
        plain = read_osm(require_real() / "andorra" / "andorra.osm.gz")
        assert set(plain.edge_ids.tolist()) == set(andorra.edge_ids.tolist())

    def test_monaco_climbs_from_the_sea(self) -> None:
        folder = require_real() / "monaco"
        network = read_osm(folder / "monaco.osm.gz", folder / "N43E007.hgt.zip").largest_component()
        assert network.n_edges > 900
        assert -5 < network.junction_height_m.min() < 10
        assert network.junction_height_m.max() > 100

    def test_files_keep_the_rules(self, andorra: RoadNetwork, tmp_path: Path) -> None:
        andorra.save(tmp_path / "andorra.npz")
        again = RoadNetwork.load(tmp_path / "andorra.npz")
        assert again.fingerprint() == andorra.fingerprint()
        for name, array in andorra.access.arrays().items():
            assert np.array_equal(array, again.access.arrays()[name]), name
        assert np.array_equal(again.streets, andorra.streets)
