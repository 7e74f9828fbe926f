"""Road networks from files of any kind."""

from pathlib import Path

from superarm.errors import DataError
from superarm.navigation.formats.osm import read_osm
from superarm.navigation.formats.sumo import read_sumo
from superarm.navigation.network import RoadNetwork


def open_network(path: Path, heightmap: Path | None = None) -> RoadNetwork:
    """Read a network of any format, by the ending of its name."""
    name = path.name.removesuffix(".gz")
    if heightmap is not None and not name.endswith(".osm"):
        msg = (
            f"{path} has heights of its own; a heightmap goes with OpenStreetMap files (.osm) only"
        )
        raise DataError(msg)
    if name.endswith(".npz"):
        return RoadNetwork.load(path)
    if name.endswith(".net.xml"):
        return read_sumo(path)
    if name.endswith(".osm"):
        return read_osm(path, heightmap)
    msg = f"{path}: unknown format; expected .npz, .net.xml, .net.xml.gz, .osm or .osm.gz"
    raise DataError(msg)
