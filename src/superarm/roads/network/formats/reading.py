"""Road networks from files of any kind."""

from collections.abc import Sequence
from pathlib import Path

from superarm.errors import DataError
from superarm.roads.network.formats.osm import ENDINGS, read_osm
from superarm.roads.network.formats.sumo import read_sumo
from superarm.roads.network.network import RoadNetwork
from superarm.saving.compressed import require_file


def open_network(path: Path, heightmaps: Sequence[Path] = ()) -> RoadNetwork:
    """Read a network of any format, by the ending of its name.

    Args:
        path: the file.
        heightmaps: rasters of heights, for OpenStreetMap files.
    """
    require_file(path, "check the path, or make a network with superarm network generate or import")
    is_osm = path.name.endswith(ENDINGS)
    if heightmaps and not is_osm:
        msg = (
            f"{path} has heights of its own; a heightmap goes with OpenStreetMap files (.osm, "
            ".osm.gz, .osm.pbf) only"
        )
        raise DataError(msg)
    if is_osm:
        return read_osm(path, heightmaps)
    if path.name.endswith(".npz"):
        return RoadNetwork.load(path)
    if path.name.endswith((".net.xml", ".net.xml.gz")):
        return read_sumo(path)
    msg = f"{path}: unknown format; expected .npz, .net.xml(.gz), .osm(.gz) or .osm.pbf"
    raise DataError(msg)
