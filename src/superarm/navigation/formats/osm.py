"""OpenStreetMap files as road networks, by SUMO's netconvert (extra `osm`)."""

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from superarm.errors import DataError
from superarm.navigation.formats.compressed import MOST_BYTES, require_file, unpack
from superarm.navigation.formats.sumo import read_sumo
from superarm.navigation.network import RoadNetwork

TIMEOUT_S = 3600


def read_osm(
    path: str | os.PathLike[str],
    heightmap: str | os.PathLike[str] | None = None,
    *,
    most_bytes: int = MOST_BYTES,
) -> RoadNetwork:
    """Read an OpenStreetMap extract as a network of passenger roads.

    Args:
        path: an .osm or .osm.gz file.
        heightmap: a GeoTIFF with heights in metres; without it heights come from `ele` tags.
        most_bytes: refuse files that unpack to more.
    """
    source = Path(path)
    require_file(source)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # names of our own, so that no file name can be taken for an option or a list of files
        unpack(source, folder / "input.osm", most_bytes)
        heights = ["--osm.elevation"]
        if heightmap is not None:
            require_file(Path(heightmap))
            unpack(Path(heightmap), folder / "heights.tif", most_bytes)
            _require_tiff(Path(heightmap), folder / "heights.tif")
            heights = ["--heightmap.geotiff", "heights.tif"]
        _netconvert(source, folder, heights)
        network = read_sumo(folder / "output.net.xml", most_bytes=most_bytes)
    if heightmap is not None:
        network = _with_coverage(network, source, Path(heightmap))
    return replace(network, name=source.name.removesuffix(".gz").removesuffix(".osm"))


def _require_tiff(heightmap: Path, plain: Path) -> None:
    with plain.open("rb") as file:
        begin = file.read(4)
    if begin[:2] not in (b"II", b"MM") or begin[2:] not in (b"*\0", b"\0*", b"+\0", b"\0+"):
        msg = f"{heightmap} is no GeoTIFF; heights come from a GeoTIFF in metres"
        raise DataError(msg)


def _with_coverage(network: RoadNetwork, source: Path, heightmap: Path) -> RoadNetwork:
    """Refuse a raster that misses the roads, and say if it misses some (netconvert puts zeros)."""
    share = float((network.junction_height_m == 0).mean())
    if share == 1:
        msg = (
            f"{heightmap} covers none of the junctions of {source}: all heights are missing; is it "
            "the raster of this region, in metres, with its coordinate system?"
        )
        raise DataError(msg)
    if share == 0:
        return network
    told = f"{share:.1%} of junctions have no height in {heightmap.name}, or lie at sea level"
    return replace(network, notes=(*network.notes, told))


def _netconvert(source: Path, folder: Path, heights: list[str]) -> None:
    try:
        import sumo  # noqa: PLC0415 - an optional part
    except ImportError as error:
        msg = "reading OpenStreetMap files needs netconvert; pip install 'superarm[osm]'"
        raise ImportError(msg) from error
    program = Path(sumo.SUMO_HOME) / "bin" / ("netconvert.exe" if os.name == "nt" else "netconvert")
    done = subprocess.run(  # noqa: S603 - a program of ours on files named by us
        [
            str(program),
            "--osm-files",
            "input.osm",
            *heights,
            "--proj.utm",
            "--geometry.remove",
            "--ramps.guess",
            "--keep-edges.by-vclass",
            "passenger",
            "--no-warnings",
            "--output-file",
            "output.net.xml",
        ],
        cwd=folder,
        env=os.environ | {"SUMO_HOME": str(sumo.SUMO_HOME)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode or not (folder / "output.net.xml").is_file():
        reason = (done.stderr or done.stdout).strip().replace("\n", "; ")
        msg = f"{source} could not be converted: {reason or 'netconvert failed'}"
        raise DataError(msg)
