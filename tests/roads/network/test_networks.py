"""Networks: files, SUMO, OpenStreetMap, downloads, components, the generated city."""

import gzip
import hashlib
import http.server
import importlib
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import small_networks
from parts import require_module, require_networks
from strategies import seeds
from superarm import DataError
from superarm.cli.app import make_app
from superarm.roads.network import RoadNetwork, fetch, generate_city, read_sumo
from superarm.roads.network.statistics import describe

fetch_module: Any = importlib.import_module("superarm.roads.network.formats.fetch")


def same(left: RoadNetwork, right: RoadNetwork) -> bool:
    plain = all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in RoadNetwork.__dataclass_fields__
        if name not in {"access", "water"}
    )
    rules = [one.access.arrays() | one.water.arrays() for one in (left, right)]
    return plain and all(np.array_equal(rules[0][name], rules[1][name]) for name in rules[0])


@given(seeds)
def test_saved_networks_come_back_as_they_were(tmp_path_factory: Any, seed: int) -> None:
    network = small_networks.random_network(seed)
    path = tmp_path_factory.mktemp("n") / "network.npz"
    network.save(path)
    loaded = RoadNetwork.load(path)
    assert same(network, loaded)
    assert loaded.fingerprint() == network.fingerprint()


def test_damaged_and_strange_network_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    small_networks.random_network(0).save(path)
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="network.npz"):
            RoadNetwork.load(path)
    np.savez(path, something=np.zeros(3))
    with pytest.raises(DataError, match="no network file of superarm"):
        RoadNetwork.load(path)
    with pytest.raises(FileNotFoundError):
        RoadNetwork.load(tmp_path / "nowhere.npz")


def test_a_network_of_a_newer_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superarm.roads.network.network.VERSION", 6)
    small_networks.random_network(0).save(tmp_path / "new.npz")
    monkeypatch.setattr("superarm.roads.network.network.VERSION", 1)
    with pytest.raises(DataError, match="format version 6"):
        RoadNetwork.load(tmp_path / "new.npz")


@given(seeds)
def test_the_largest_component_is_strongly_connected_and_largest(seed: int) -> None:
    network = small_networks.random_network(seed, n_edges=25)
    part = network.largest_component()
    n = network.n_edges
    reach = np.eye(n, dtype=bool)
    reach[network.turns[:, 0], network.turns[:, 1]] = True
    for middle in range(n):
        reach |= reach[:, [middle]] & reach[[middle], :]
    mutual = reach & reach.T
    assert part.n_edges == mutual.sum(axis=1).max()
    kept = np.isin(network.edge_ids, part.edge_ids)
    assert mutual[np.ix_(kept, kept)].all()
    assert part.n_turns == int((kept[network.turns[:, 0]] & kept[network.turns[:, 1]]).sum())
    for place, name in enumerate(part.edge_ids):
        before = network.position(str(name))
        assert_array_equal(part.shape_of(place), network.shape_of(before))
        assert_allclose(part.climb_m[place], network.climb_m[before])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("length_m", np.full(40, np.nan), "not finite"),
        ("length_m", np.zeros(40), "an edge has no length"),
        ("speed_ms", np.zeros(40), "no speed limit"),
        ("lanes", np.zeros(40, dtype=int), "no lane"),
        ("edge_ids", np.full(40, "same"), "occurs twice"),
        ("turns", np.array([[0, 99]]), "turns points outside"),
        ("from_junction", np.full(40, 99), "points outside"),
        ("junction_height_m", np.zeros(3), "3 entries instead of 12"),
    ],
)
def test_impossible_networks_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(small_networks.random_network(0), **{field: value})


def test_turns_must_join_edges_that_meet() -> None:
    network = small_networks.random_network(0)
    apart = [
        (i, j)
        for i in range(40)
        for j in range(40)
        if network.to_junction[i] != network.from_junction[j]
    ][:1]
    with pytest.raises(DataError, match="do not meet"):
        replace(network, turns=np.array(apart))


def test_unknown_edges_name_the_closest_ids() -> None:
    with pytest.raises(ValueError, match=r"no edge 'e99'; the closest ids are \['e9'"):
        small_networks.random_network(0).position("e99")


class TestSumo:
    @pytest.fixture(autouse=True)
    def _needs_sumolib(self) -> None:
        require_module("sumolib", "sumo")

    def test_another_parser_that_happens_to_be_there_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = small_networks.sumo_file(tmp_path)
        expected = read_sumo(path)
        monkeypatch.setattr("sumolib.net.HAVE_LXML", True, raising=False)
        monkeypatch.setattr("sumolib.net.lxml", None, raising=False)
        assert read_sumo(path).edge_ids.tolist() == expected.edge_ids.tolist()

    @pytest.mark.parametrize("packed", [True, False])
    def test_what_the_file_says_is_read(self, tmp_path: Path, packed: bool) -> None:
        path = small_networks.sumo_file(tmp_path)
        if packed:
            packed_path = tmp_path / "small.net.xml.gz"
            packed_path.write_bytes(gzip.compress(path.read_bytes()))
            path = packed_path
        network = read_sumo(path)
        assert network.edge_ids.tolist() == ["ab", "bc", "ca", "cd"]
        assert network.length_m.tolist() == [95.0, 90.0, 180.0, 50.0]
        assert_allclose(network.speed_ms, [13.9, 8.3, 8.3, 8.3])
        assert network.lanes.tolist() == [2, 2, 1, 1]
        assert network.climb_m.tolist() == [20.0, -10.0, -10.0, 0.0]
        assert sorted(map(tuple, network.turns.tolist())) == [(0, 1), (1, 2), (1, 3), (2, 0)]
        assert network.projection == "+proj=utm +zone=32 +datum=WGS84"
        assert network.offset_m == (10.0, 20.0)
        assert "dropped 1 edges closed to cars" in network.notes
        assert "merged 1 connections of further lanes into their turn" in network.notes
        assert network.largest_component().edge_ids.tolist() == ["ab", "bc", "ca"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda text: text[: len(text) // 2], "no SUMO network, or damaged"),
            (lambda _: "<html><body>hello</body></html>", "has no edges"),
            (lambda _: "not xml at all", "no SUMO network, or damaged"),
            (lambda _: '<net version="1.20"></net>', "has no edges"),
            (
                lambda text: text.replace(
                    '<lane id="cd_0" index="0" speed="8.3" length="50.0" shape="200,0 200,50"/>', ""
                ),
                "'cd' has no lanes",
            ),
            (lambda text: text.replace('x="100"', 'x="nan"'), "not finite"),
            (lambda text: text.replace('length="90.0"', 'length="minus"'), "damaged"),
        ],
    )
    def test_bad_files_are_named_with_the_cause(
        self, tmp_path: Path, change: Any, message: str
    ) -> None:
        path = small_networks.sumo_file(tmp_path)
        path.write_text(change(path.read_text()))
        with pytest.raises(DataError, match=message) as caught:
            read_sumo(path)
        assert "small" in str(caught.value)

    def test_truncated_gzip_and_bombs_are_refused(self, tmp_path: Path) -> None:
        content = gzip.compress(small_networks.SUMO.encode())
        path = tmp_path / "small.net.xml.gz"
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(DataError, match="damaged"):
            read_sumo(path)
        path.write_bytes(content)
        with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
            read_sumo(path, most_bytes=1000)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            read_sumo(tmp_path / "nothing.net.xml")

    @pytest.mark.parametrize(
        ("name", "edges", "turns"), [("luxembourg", 5736, 16187), ("monaco", 3475, 5656)]
    )
    def test_the_real_networks_have_the_known_size(self, name: str, edges: int, turns: int) -> None:
        folder = require_networks()
        network = read_sumo(folder / f"{name}.net.xml.gz").largest_component()
        assert (network.n_edges, network.n_turns) == (edges, turns)
        assert np.ptp(network.junction_height_m) > 100


class TestFetch:
    @pytest.fixture
    def server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        folder = tmp_path / "served"
        folder.mkdir()
        content = small_networks.SUMO.encode()
        (folder / "lust.net.xml").write_bytes(content)
        (folder / "wrong.xml").write_bytes(content + b" ")
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        published = replace(fetch_module.PUBLISHED["luxembourg"], git_sha1=digest.hexdigest())
        monkeypatch.setitem(fetch_module.PUBLISHED, "luxembourg", published)
        monkeypatch.setenv("SUPERARM_CACHE", str(tmp_path / "cache"))

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *_: Any) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
            threading.Thread(target=running.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{running.server_address[1]}"
            running.shutdown()

    def test_a_network_is_fetched_verified_and_kept(self, server: str, tmp_path: Path) -> None:
        path = fetch("luxembourg", url=f"{server}/lust.net.xml")
        assert path == tmp_path / "cache" / "lust.net.xml"
        again = fetch("luxembourg", url="http://127.0.0.1:9/nobody-is-asked")
        assert again.read_bytes() == small_networks.SUMO.encode()
        path.write_bytes(b"damaged")
        with pytest.raises(DataError, match="is not the published lust.net.xml"):
            fetch("luxembourg")

    def test_the_command_fetches_and_warns_of_missing_heights(
        self, server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        require_module("sumolib", "sumo")
        flat = re.sub(r' z="\d+"', "", small_networks.SUMO).encode()
        (tmp_path / "served" / "flat.xml").write_bytes(flat)
        digest = hashlib.sha1(b"blob %d\0" % len(flat) + flat, usedforsecurity=False).hexdigest()
        published = replace(fetch_module.PUBLISHED["monaco"], git_sha1=digest)
        monkeypatch.setitem(fetch_module.PUBLISHED, "monaco", published)
        arguments = ["network", "fetch", "monaco", "--url", f"{server}/flat.xml"]
        done = CliRunner().invoke(make_app("network"), arguments)
        assert done.exit_code == 0
        assert "most.net.xml" in done.output
        assert "no heights" in done.output

    def test_another_file_is_refused_and_not_kept(self, server: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="its git SHA-1 is"):
            fetch("luxembourg", url=f"{server}/wrong.xml")
        assert not (tmp_path / "cache" / "lust.net.xml").exists()

    def test_offline_it_says_what_to_do_by_hand(self, server: str) -> None:
        for url in (f"{server}/missing.xml", "http://127.0.0.1:9/nobody"):
            with pytest.raises(DataError, match=r"by hand and put it at .*lust\.net\.xml"):
                fetch("luxembourg", url=url)
        with pytest.raises(ValueError, match=r"there are \['luxembourg', 'monaco'\]"):
            fetch("atlantis")


class TestCity:
    @settings(max_examples=12)
    @given(st.integers(0, 10**6), st.sampled_from([500, 1500, 4000, 12_000]))
    def test_it_has_the_size_asked_for_and_hangs_together(self, seed: int, n_edges: int) -> None:
        city = generate_city(seed, n_edges)
        assert abs(city.n_edges / n_edges - 1) <= 0.05
        assert city.largest_component().n_edges >= 0.95 * city.n_edges
        assert 99 <= np.ptp(city.junction_height_m) <= 201
        assert np.abs(city.sine_of_incline).max() < 0.3
        assert city.length_m.min() > 5
        facts = describe(city)
        assert set(facts) >= {"one-way", "dead ends", "streets per junction"}

    def test_the_same_seed_gives_the_same_city(self) -> None:
        assert same(generate_city(3, 800), generate_city(3, 800))
        assert not same(generate_city(3, 800), generate_city(4, 800))

    def test_shares_of_one_ways_dead_ends_and_degrees_are_a_citys(self) -> None:
        city = generate_city(0, 8000)
        ends = np.column_stack([city.from_junction, city.to_junction])
        there = set(map(tuple, ends.tolist()))
        one_way = np.mean([(b, a) not in there for a, b in there])
        degrees = np.bincount(np.unique(np.sort(ends, axis=1), axis=0).ravel())
        assert 0.04 < one_way < 0.3
        assert 0.02 < (degrees == 1).mean() < 0.2
        assert 2.4 < degrees.mean() < 3.4
        assert len(np.unique(city.speed_ms)) >= 4

    def test_few_bridges_cross_the_river(self) -> None:
        """No street but arterials and the motorway joins both banks."""
        city = generate_city(0, 4000)
        slow = city.take(np.flatnonzero(city.speed_ms < 9), "arterials")
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

        _, label = connected_components(slow.line_graph, directed=False)
        largest = np.sort(np.bincount(label))[::-1]
        assert largest[1] > 0.05 * slow.n_edges  # without bridges it falls into parts

    @pytest.mark.slow
    def test_a_large_city_takes_seconds(self) -> None:
        city = generate_city(1, 200_000)
        assert abs(city.n_edges / 200_000 - 1) <= 0.05
        assert city.largest_component().n_edges >= 0.95 * city.n_edges

    @pytest.mark.parametrize("n_edges", [0, 499, 1_000_001])
    def test_impossible_sizes_are_refused(self, n_edges: int) -> None:
        with pytest.raises(ValueError, match="n_edges must be from 500 to 1,000,000"):
            generate_city(0, n_edges)
