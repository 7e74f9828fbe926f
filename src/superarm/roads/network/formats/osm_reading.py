"""What an OpenStreetMap file says about roads: ways, restrictions, places and heights of nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from superarm.errors import DataError
from superarm.roads.network.formats.osm_limits import (
    MOST_ROAD_NODES,
    MOST_WAY_NODES,
    require_bounded,
)
from superarm.roads.network.formats.osm_tags import (
    Forbidden,
    Way,
    is_barrier,
    restriction_of,
    way_of,
)

LOWEST_M, HIGHEST_M = -1_000.0, 9_000.0
"""Heights beyond these are none of a road on Earth."""


@dataclass(eq=False)
class RoadData:
    """What a file says.

    Attributes:
        ways: roads of motor vehicles.
        forbidden: turns.
        over_ways: how many restrictions lead over several ways, and are not kept.
        place: longitude and latitude of nodes of roads.
        nowhere: how many nodes of roads have no valid place.
        height: of nodes in m, where tagged.
        strange_heights: how many tagged heights are none of a road on Earth.
        lights: nodes with traffic lights.
        barriers: nodes that nobody passes.
    """

    ways: list[Way] = field(default_factory=list)
    forbidden: list[Forbidden] = field(default_factory=list)
    over_ways: int = 0
    place: dict[int, tuple[float, float]] = field(default_factory=dict)
    nowhere: int = 0
    height: dict[int, float] = field(default_factory=dict)
    strange_heights: int = 0
    lights: set[int] = field(default_factory=set)
    barriers: set[int] = field(default_factory=set)


def open_osm(source: Path, most_bytes: int | None = None) -> tuple[Any, Any]:
    """Return osmium and its file for a source, once that is known to be within limits."""
    try:
        import osmium  # noqa: PLC0415 - an optional part
    except ImportError as error:
        msg = "reading OpenStreetMap files needs osmium; pip install 'superarm[osm]'"
        raise ImportError(msg) from error
    require_bounded(source, most_bytes)
    return osmium, osmium.io.File(str(source))


@contextmanager
def osmium_errors(source: Path) -> Iterator[None]:
    """Turn what osmium raises into `DataError`."""
    import osmium  # noqa: PLC0415 - an optional part

    try:
        yield
    except (RuntimeError, ValueError, osmium.InvalidLocationError) as error:
        msg = f"{source} could not be read: {error}; correct it there, or get another extract"
        raise DataError(msg) from error


def read_roads(source: Path, most_bytes: int | None = None) -> RoadData:
    """Read the roads of a file.

    Args:
        source: the file.
        most_bytes: the limit on unpacked bytes.
    """
    osmium, file = open_osm(source, most_bytes)
    roads = RoadData()
    with osmium_errors(source):
        wanted: set[int] = set()
        count = 0
        for one in osmium.FileProcessor(file, osmium.osm.WAY | osmium.osm.RELATION):
            tags = {tag.k: tag.v for tag in one.tags}
            if one.is_way():
                way = way_of(one.id, tags, _nodes(source, one))
                if way is not None:
                    roads.ways.append(way)
                    wanted.update(way.nodes)
                    count += len(way.nodes)
                    _require_few(source, count)
            elif tags.get("type", "").startswith("restriction"):
                members = [(member.role, member.type, member.ref) for member in one.members]
                forbidden, over_ways = restriction_of(tags, members)
                roads.forbidden += forbidden
                roads.over_ways += over_ways
        for node in osmium.FileProcessor(file, osmium.osm.NODE):
            if node.id in wanted:
                _add_node(node, roads)
    return roads


def _nodes(source: Path, way: Any) -> list[int]:  # noqa: ANN401 - osmium's way
    if len(way.nodes) > MOST_WAY_NODES:
        msg = (
            f"{source}: way {way.id} has {len(way.nodes):,} nodes; OpenStreetMap allows 2,000, and "
            f"{MOST_WAY_NODES:,} are read; split the way"
        )
        raise DataError(msg)
    return [node.ref for node in way.nodes]


def _require_few(source: Path, count: int) -> None:
    if count > MOST_ROAD_NODES:
        msg = (
            f"{source} has roads of more than {MOST_ROAD_NODES:,} nodes, too many for one network; "
            "cut out a region with osmium extract"
        )
        raise DataError(msg)


def _add_node(node: Any, roads: RoadData) -> None:  # noqa: ANN401 - osmium's node
    if not node.location.valid():
        roads.nowhere += 1
        return
    roads.place[node.id] = (node.location.lon, node.location.lat)
    if len(node.tags) == 0:
        return
    tags = {tag.k: tag.v for tag in node.tags}
    if tags.get("highway") == "traffic_signals":
        roads.lights.add(node.id)
    if is_barrier(tags):
        roads.barriers.add(node.id)
    try:
        height = float(tags["ele"].removesuffix("m").strip())
    except (KeyError, ValueError):
        return
    if LOWEST_M <= height <= HIGHEST_M:
        roads.height[node.id] = height
    else:
        roads.strange_heights += 1
