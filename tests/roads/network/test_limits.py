"""Files of strangers: what they unpack to, and what one object may take, is bounded."""

import bz2
import gzip
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import small_networks
from parts import require_module
from superarm import DataError
from superarm.roads.charging import read_stations
from superarm.roads.network import RoadNetwork, generate_city, open_network, read_osm
from superarm.roads.network.formats.osm_limits import (
    MOST_BLOCK_BYTES,
    MOST_OBJECT_BYTES,
    MOST_WAY_NODES,
)

ROAD = "<tag k='highway' v='service'/>"
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".osm": bytes,
    ".osm.gz": gzip.compress,
    ".osm.bz2": bz2.compress,
}


@pytest.fixture(autouse=True)
def _needs_osmium() -> None:
    require_module("osmium", "osm")
    require_module("pyproj", "osm")


@pytest.fixture
def no_osmium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Osmium keeps whole objects in memory: a file that is refused must not reach it."""
    import osmium  # noqa: PLC0415 - an optional part

    def read(*_: object) -> None:
        pytest.fail("osmium was asked to read the file")

    monkeypatch.setattr(osmium, "FileProcessor", read)


def xml(body: str) -> bytes:
    ends = "<node id='1' lat='1' lon='1'/><node id='2' lat='1' lon='1.01'/>"
    return f"<osm version='0.6'>{ends}{body}</osm>".encode()


def way_of(filling: str) -> bytes:
    """A way that its filling makes larger than any object may be."""
    times = MOST_OBJECT_BYTES // len(filling) + 1
    return xml(f"<way id='7'><nd ref='1'/>{filling * times}<nd ref='2'/>{ROAD}</way>")


class TestTextOfOpenStreetMap:
    @pytest.mark.usefixtures("no_osmium")
    @pytest.mark.parametrize("reader", [read_osm, read_stations])
    @pytest.mark.parametrize("ending", PACKED)
    def test_an_object_that_does_not_end_is_refused_before_it_is_read(
        self, tmp_path: Path, ending: str, reader: Callable[[Path], object]
    ) -> None:
        path = tmp_path / f"bomb{ending}"
        path.write_bytes(PACKED[ending](way_of("<nd ref='1'/>" * 1000)))
        with pytest.raises(DataError, match="one object or gap of more than") as caught:
            reader(path)
        assert f"bomb{ending}" in str(caught.value)
        assert "osmium" in str(caught.value)  # a tool that mends it

    @pytest.mark.usefixtures("no_osmium")
    @pytest.mark.parametrize("cover", ["<!-- <node -->", "<![CDATA[<way ]]>", "<?x <node ?>"])
    def test_what_only_looks_like_another_object_ends_none(
        self, tmp_path: Path, cover: str
    ) -> None:
        path = tmp_path / "covered.osm.gz"
        path.write_bytes(gzip.compress(way_of("<nd ref='1'/>" * 1000 + cover)))
        with pytest.raises(DataError, match="comments"):
            read_osm(path)

    def test_comments_of_small_files_are_fine(self, tmp_path: Path) -> None:
        path = tmp_path / "small.osm"
        road = f"<way id='7'><nd ref='1'/><!-- <node --><nd ref='2'/>{ROAD}</way>"
        path.write_bytes(xml(road))
        assert read_osm(path).n_edges == 2

    @pytest.mark.parametrize("ending", PACKED)
    def test_the_limit_counts_unpacked_bytes(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"town{ending}"
        content = xml(f"<way id='7'><nd ref='1'/>{' ' * 10_000}<nd ref='2'/>{ROAD}</way>")
        path.write_bytes(PACKED[ending](content))
        assert read_osm(path, most_bytes=len(content)).n_edges == 2
        with pytest.raises(DataError, match=r"unpacks to more than 10,\d\d\d bytes.*most_bytes"):
            read_osm(path, most_bytes=len(content) - 1)

    @pytest.mark.parametrize("ending", [".osm.gz", ".osm.bz2"])
    def test_half_a_file_is_damaged(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"town{ending}"
        content = PACKED[ending](small_networks.OSM.encode())
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(DataError, match="is damaged"):
            read_osm(path)

    def test_a_way_has_no_more_nodes_than_the_limit(self, tmp_path: Path) -> None:
        path = tmp_path / "long.osm"
        for count, fits in ((MOST_WAY_NODES, True), (MOST_WAY_NODES + 1, False)):
            nodes = "<nd ref='1'/><nd ref='2'/>" * (count // 2) + "<nd ref='1'/>" * (count % 2)
            path.write_bytes(xml(f"<way id='7'>{nodes}{ROAD}</way>"))
            if fits:
                assert read_osm(path).n_edges
                continue
            with pytest.raises(DataError, match=f"way 7 has {count:,} nodes.*split") as caught:
                read_osm(path)
            assert "2,000" in str(caught.value)  # what OpenStreetMap allows


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def value(number: int, given: int) -> bytes:
    return varint(number << 3) + varint(given)


def blob(kind: bytes, content: bytes, packing: int = 3) -> bytes:
    body = value(2, len(content)) + message(packing, zlib.compress(content))
    head = message(1, kind) + value(3, len(body))
    return len(head).to_bytes(4, "big") + head + body


def pbf(path: Path, strings: list[bytes], group: bytes, times: int = 1, packing: int = 3) -> Path:
    """A file of one block, again and again."""
    table = message(1, b"".join(message(1, text) for text in strings))
    data = blob(b"OSMData", table + message(2, group), packing)
    head = blob(b"OSMHeader", message(4, b"OsmSchema-V0.6") + message(4, b"DenseNodes"))
    path.write_bytes(head + data * times)
    return path


def road(number: int, refs: bytes, keys: bytes = b"\1", values: bytes = b"\2") -> bytes:
    return message(3, value(1, number) + message(2, keys) + message(3, values) + message(8, refs))


STRINGS = [b"", b"highway", b"service"]
ALTERNATING = b"\2\1" * 1000  # 2,000 nodes, as many as OpenStreetMap allows


class TestBlocksOfOpenStreetMap:
    @pytest.mark.usefixtures("no_osmium")
    @pytest.mark.parametrize(
        ("strings", "group"),
        [
            pytest.param(STRINGS, road(1, bytes(31 << 20)), id="one way"),
            pytest.param(STRINGS, road(1, ALTERNATING) * 5_000, id="many ways"),
            pytest.param(
                [b"", b"k" * 1000, b"v" * 1000],
                road(1, b"\2\2", b"\1" * 100, b"\2" * 100) * 4000,
                id="texts that are repeated",
            ),
            pytest.param(
                [b"", b"r" * 1000],
                message(4, value(1, 1) + message(8, b"\1" * 400_000)),
                id="roles that are repeated",
            ),
            pytest.param(
                [b"u" * 1000],
                message(2, message(1, bytes(400_000))),
                id="names of users that are repeated",
            ),
            pytest.param([b""] * 2_000_000, road(1, b"\2\2"), id="texts without end"),
            pytest.param([b""], message(3, b"") * 2_000_000, id="objects without end"),
        ],
    )
    def test_a_block_that_becomes_too_large_is_refused_before_it_is_read(
        self, tmp_path: Path, strings: list[bytes], group: bytes
    ) -> None:
        path = pbf(tmp_path / "bomb.osm.pbf", strings, group)
        assert path.stat().st_size < MOST_BLOCK_BYTES / 1000
        with pytest.raises(DataError, match=r"bomb.osm.pbf .*one block.*osmium"):
            read_osm(path)

    def test_the_limit_counts_unpacked_bytes(self, tmp_path: Path) -> None:
        path = pbf(tmp_path / "many.osm.pbf", STRINGS, road(1, ALTERNATING), times=100)
        with pytest.raises(DataError, match="unpacks to more than 100,000 bytes"):
            read_osm(path, most_bytes=100_000)
        with pytest.raises(DataError, match="nodes are missing"):
            read_osm(path)  # which only says that it was read

    @pytest.mark.usefixtures("no_osmium")
    def test_blocks_that_cannot_be_measured_are_refused(self, tmp_path: Path) -> None:
        path = pbf(tmp_path / "lz4.osm.pbf", STRINGS, road(1, b"\2\2"), packing=6)
        with pytest.raises(DataError, match="osmium cat"):
            read_osm(path)

    @pytest.mark.parametrize("cut", [3, 10, 40, 90])
    def test_half_a_file_is_damaged(self, tmp_path: Path, cut: int) -> None:
        path = pbf(tmp_path / "cut.osm.pbf", STRINGS, road(1, b"\2\2"))
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(DataError, match=r"cut.osm.pbf"):
            read_osm(path)

    @pytest.mark.parametrize("seed", range(20))
    def test_noise_is_no_map_and_nothing_worse(self, tmp_path: Path, seed: int) -> None:
        rng = np.random.default_rng(seed)
        path = pbf(tmp_path / "noise.osm.pbf", STRINGS, road(1, b"\2\2"))
        content = np.frombuffer(path.read_bytes(), np.uint8).copy()
        content[rng.integers(content.size, size=4)] = rng.integers(256, size=4)
        path.write_bytes(content.tobytes())
        with pytest.raises(DataError):
            read_osm(path)


class TestNetworksOfOurOwn:
    def test_packed_arrays_are_bounded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        city = generate_city(0, 500)
        city.save(tmp_path / "city.npz")
        with zipfile.ZipFile(tmp_path / "city.npz", "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros.npy", bytes(10_000_000))
        with monkeypatch.context() as patch:
            patch.setattr("superarm.roads.network.network.MOST_BYTES", 5_000_000)
            with pytest.raises(DataError, match="unpacks to more than 5,000,000 bytes"):
                RoadNetwork.load(tmp_path / "city.npz")

    def test_an_array_without_end_is_an_error_of_the_file(self, tmp_path: Path) -> None:
        """Its header promises 8 PB, of which the file holds nothing."""
        head = "{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,), }".replace(
            "10**15", str(10**15)
        )
        text = head.encode().ljust(117) + b"\n"
        array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with zipfile.ZipFile(tmp_path / "endless.npz", "w") as archive:
            archive.writestr("length_m.npy", array)
        with pytest.raises(DataError, match="no network file of superarm, or damaged"):
            RoadNetwork.load(tmp_path / "endless.npz")

    @pytest.mark.parametrize("name", ["no.npz", "no.osm.pbf", "no.net.xml", "no.txt"])
    def test_a_file_that_is_not_there_is_said_to_be_missing(
        self, tmp_path: Path, name: str
    ) -> None:
        with pytest.raises(FileNotFoundError, match=f"there is no file .*{name}.*generate"):
            open_network(tmp_path / name)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            RoadNetwork.load(tmp_path / name)
