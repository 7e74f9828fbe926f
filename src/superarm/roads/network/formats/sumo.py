"""SUMO networks (.net.xml, .net.xml.gz) as road networks of passenger cars."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax import SAXException

import numpy as np

from superarm.errors import DataError
from superarm.roads.network.network import STEEP, RoadNetwork
from superarm.saving.compressed import MOST_BYTES, require_file, unpack

_CAR = "passenger"

_LIGHTS = frozenset({"traffic_light", "traffic_light_right_on_red", "traffic_light_unregulated"})


def read_sumo(path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> RoadNetwork:
    """Read a SUMO network: edges and connections open to passenger cars, heights from node z.

    Connections of several lanes between the same edges are one turn. What was left out, and why, is
    in the network's notes.

    Args:
        path: a .net.xml or .net.xml.gz file.
        most_bytes: refuse files that unpack to more.
    """
    source = Path(path)
    require_file(source)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "network.net.xml"
        unpack(source, plain, most_bytes)
        net = _parse(source, plain)
    edges = net.getEdges()
    if not edges:
        msg = f"{source} has no edges: is it a SUMO network?"
        raise DataError(msg)
    cars = [edge for edge in edges if edge.allows(_CAR)]
    notes = [f"dropped {len(edges) - len(cars)} edges closed to cars"] * (len(edges) > len(cars))
    if not cars:
        msg = f"{source} has {len(edges)} edges but none open to passenger cars"
        raise DataError(msg)
    return _network(source, net, cars, notes)


def _parse(source: Path, plain: Path) -> Any:  # noqa: ANN401 - an object of an untyped library
    try:
        from sumolib.net import readNet  # noqa: PLC0415 - an optional part
    except ImportError as error:
        msg = "reading SUMO networks needs sumolib; pip install 'superarm[sumo]'"
        raise ImportError(msg) from error
    try:
        return readNet(str(plain), lxml=False)  # whose errors and open files are others
    except IndexError as error:  # the library looks for the first lane of every edge
        msg = f"{source}: edge {_edge_without_lanes(plain)!r} has no lanes"
        raise DataError(msg) from error
    except KeyError as error:
        msg = f"{source} is no SUMO network: an element lacks the attribute {error}"
        raise DataError(msg) from error
    except (SAXException, ValueError, AttributeError, TypeError) as error:
        reason = str(error).replace(str(plain), source.name)
        msg = f"{source} is no SUMO network, or damaged: {type(error).__name__}: {reason}"
        raise DataError(msg) from error


def _edge_without_lanes(plain: Path) -> str:
    for _, element in ET.iterparse(plain):  # noqa: S314 - parsed before, entities and all
        if element.tag == "edge" and element.find("lane") is None:
            return str(element.get("id"))
    return "?"


def _network(source: Path, net: Any, cars: list[Any], notes: list[str]) -> RoadNetwork:  # noqa: ANN401
    place = {edge.getID(): number for number, edge in enumerate(cars)}
    nodes = {node.getID(): node for edge in cars for node in (edge.getFromNode(), edge.getToNode())}
    node_place = {name: number for number, name in enumerate(nodes)}
    shapes = [np.array(edge.getShape(), dtype=np.float64)[:, :2] for edge in cars]
    heights = np.array([_height(node) for node in nodes.values()])
    if np.ptp(heights) == 0:
        notes.append("no heights: all junctions have the same; climbs are zero")
    turns, merged, closed = _turns(cars, place)
    if merged:
        notes.append(f"merged {merged} connections of further lanes into their turn")
    if closed:
        notes.append(f"dropped {closed} connections closed to cars")
    location = getattr(net, "_location", {}) or {}
    offset = [float(number) for number in location.get("netOffset", "0,0").split(",")]
    network = RoadNetwork(
        name=source.name.removesuffix(".gz").removesuffix(".xml").removesuffix(".net"),
        edge_ids=np.array([edge.getID() for edge in cars]),
        from_junction=np.array([node_place[edge.getFromNode().getID()] for edge in cars]),
        to_junction=np.array([node_place[edge.getToNode().getID()] for edge in cars]),
        length_m=np.array([edge.getLength() for edge in cars], dtype=np.float64),
        speed_ms=np.array([edge.getSpeed() for edge in cars], dtype=np.float64),
        lanes=np.array([sum(lane.allows(_CAR) for lane in edge.getLanes()) for edge in cars]),
        junction_ids=np.array(list(nodes)),
        junction_xy_m=np.array([node.getCoord() for node in nodes.values()], dtype=np.float64),
        junction_height_m=heights,
        junction_light=np.array([node.getType() in _LIGHTS for node in nodes.values()]),
        shape_xy_m=np.concatenate(shapes),
        shape_start=np.concatenate([[0], np.cumsum([shape.shape[0] for shape in shapes])]),
        turns=np.array(turns, dtype=np.intp).reshape(-1, 2),
        projection=location.get("projParameter", "").replace("!", ""),
        offset_m=(offset[0], offset[1]),
        notes=tuple(notes),
    )
    steep = np.abs(network.grade) > STEEP
    if not steep.any():
        return network
    told = (
        f"{int(steep.sum())} edges are steeper than {STEEP:.0%}, the steepest has "
        f"{np.abs(network.grade).max():.0%}: check the heights there"
    )
    return replace(network, notes=(*network.notes, told))


def _height(node: Any) -> float:  # noqa: ANN401 - an object of an untyped library
    coordinates = node.getCoord3D()
    return float(coordinates[2]) if len(coordinates) > 2 else 0.0  # noqa: PLR2004 - z is the third


def _turns(cars: list[Any], place: dict[str, int]) -> tuple[list[tuple[int, int]], int, int]:
    """Return distinct turns, and how many lane connections were merged and dropped."""
    turns: list[tuple[int, int]] = []
    merged = closed = 0
    for number, edge in enumerate(cars):
        for target, connections in edge.getOutgoing().items():
            usable = [
                connection
                for connection in connections
                if connection.getFromLane().allows(_CAR) and connection.getToLane().allows(_CAR)
            ]
            closed += len(connections) - len(usable)
            if usable and target.getID() in place:
                turns.append((number, place[target.getID()]))
                merged += len(usable) - 1
    return turns, merged, closed
