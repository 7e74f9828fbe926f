r"""Heights from rasters, SRTM tiles (.hgt, .hgt.zip) and GeoTIFFs, smoothed along roads.

A raster of 90 m cells knows the ground, not the road: it is noisy from cell to cell, knows the
valley under a bridge and the mountain over a tunnel. So heights along roads are the h that minimise

.. math:: \sum_i w_i (h_i - r_i)^2 + L^2 \sum_{ij} \frac{(h_i - h_j)^2}{\ell_{ij}},

over all points i of all roads, with the raster's heights r, the length w that a point stands for
(none on bridges and in tunnels, which are thus bridged by even grades), lengths :math:`\ell` of
the pieces between points, and a smoothing length L.
"""

import os
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import splu

from superarm.arrays import Matrix, Pairs, Vector
from superarm.errors import DataError
from superarm.roads.network.access import Marks
from superarm.saving.compressed import MOST_BYTES, require_file

SMOOTHING_M = 60.0
"""The length over which heights along roads are smoothed."""

_VOID = -32768
_SIZES = {1201: "3", 3601: "1"}
_TILE = re.compile(r"([NS])(\d{2})([EW])(\d{3})", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Tile:
    """One raster: heights at the corners of a regular grid in degrees.

    Attributes:
        heights: in m, NaN where there is none, northernmost row first, shape (rows, columns).
        west: longitude of the first column.
        north: latitude of the first row.
        step_x: degrees between columns.
        step_y: degrees between rows.
    """

    heights: Matrix
    west: float
    north: float
    step_x: float
    step_y: float

    def at(self, longitude: Vector, latitude: Vector) -> Vector:
        """Return heights by linear interpolation in both directions, NaN outside."""
        rows, columns = self.heights.shape
        x = (longitude - self.west) / self.step_x
        y = (self.north - latitude) / self.step_y
        slack = 1e-6  # a seam belongs to both tiles
        inside = (x >= -slack) & (x <= columns - 1 + slack)
        inside &= (y >= -slack) & (y <= rows - 1 + slack)
        x, y = np.clip(x, 0, columns - 1), np.clip(y, 0, rows - 1)
        left = np.minimum(x.astype(np.intp), max(columns - 2, 0))
        top = np.minimum(y.astype(np.intp), max(rows - 2, 0))
        right, bottom = np.minimum(left + 1, columns - 1), np.minimum(top + 1, rows - 1)
        a, b = x - left, y - top
        corners = (
            (self.heights[top, left], (1 - a) * (1 - b)),
            (self.heights[top, right], a * (1 - b)),
            (self.heights[bottom, left], (1 - a) * b),
            (self.heights[bottom, right], a * b),
        )
        # a void counts for nothing where other corners are known
        total, weight = np.zeros(x.size), np.zeros(x.size)
        for height, share in corners:
            known = np.isfinite(height)
            total += np.where(known, height, 0.0) * share
            weight += np.where(known, share, 0.0)
        known = inside & (weight > slack)
        return np.where(known, total / np.where(known, weight, 1.0), np.nan)


def read_tiles(paths: Sequence[str | os.PathLike[str]]) -> list[Tile]:
    """Read rasters; several of them cover together what each covers alone."""
    return [_tile(Path(path)) for path in paths]


def heights_at(tiles: Sequence[Tile], longitude: Vector, latitude: Vector) -> Vector:
    """Return heights of places by the first tile that knows them, NaN where none does."""
    found = np.full(longitude.size, np.nan)
    for tile in tiles:
        open_ = np.isnan(found)
        if open_.any():
            found[open_] = tile.at(longitude[open_], latitude[open_])
    return found


def smoothed_heights(
    raw: Vector, pieces: Pairs, length_m: Vector, bridged: Marks, smoothing_m: float = SMOOTHING_M
) -> Vector:
    """Return heights of all points of roads that follow the ground smoothly.

    Args:
        raw: heights of the ground, NaN where not known, shape (p,).
        pieces: pairs of neighbouring points, shape (q, 2).
        length_m: of pieces, positive, shape (q,).
        bridged: which pieces are on bridges or in tunnels, shape (q,).
        smoothing_m: over which length.
    """
    n = raw.size
    weight = np.zeros(n)
    for end in (0, 1):
        np.add.at(weight, pieces[~bridged, end], length_m[~bridged] / 2)
    weight[~np.isfinite(raw)] = 0.0
    if not weight.any():  # all of it bridges: the ground is better than nothing
        weight = np.where(np.isfinite(raw), 1.0, 0.0)
    stiff = smoothing_m**2 / length_m
    first, second = pieces.T
    graph = csc_array(
        (
            np.concatenate([stiff, stiff, -stiff, -stiff]),
            (
                np.concatenate([first, second, first, second]),
                np.concatenate([first, second, second, first]),
            ),
        ),
        shape=(n, n),
    )
    # parts of the map without any known height stay at zero instead of nowhere
    anchor = 1e-9 * max(float(weight.max()), 1.0)
    matrix = csc_array(graph + diags_array(weight + anchor))
    ground = np.where(np.isfinite(raw), raw, 0.0)
    level = float(np.average(ground, weights=weight)) if weight.any() else 0.0
    solved: Any = splu(matrix).solve(weight * (ground - level))
    return np.asarray(solved + level, dtype=np.float64)


def _tile(path: Path) -> Tile:
    require_file(path)
    name = path.name.lower()
    if name.endswith((".hgt", ".hgt.zip", ".hgt.gz")):
        return _hgt(path)
    with path.open("rb") as file:
        begin = file.read(4)
    if begin[:2] in (b"II", b"MM") and begin[2:] in (b"*\0", b"\0*", b"+\0", b"\0+"):
        return _geotiff(path)
    msg = f"{path} is no GeoTIFF, and no SRTM tile (N42E001.hgt, .hgt.zip): heights come from these"
    raise DataError(msg)


def _hgt(path: Path) -> Tile:
    """Read an SRTM tile: its name says where its south-western corner is."""
    corner = _TILE.search(path.name)
    if corner is None:
        msg = f"{path}: SRTM tiles are named by their corner, as N42E001.hgt"
        raise DataError(msg)
    content = _unzipped(path) if path.name.lower().endswith((".zip", ".gz")) else path.read_bytes()
    size = int(np.sqrt(len(content) // 2))
    if size not in _SIZES or 2 * size * size != len(content):
        msg = f"{path} holds {len(content):,} bytes; a tile has 1201 x 1201 or 3601 x 3601 numbers"
        raise DataError(msg)
    heights = np.frombuffer(content, dtype=">i2").reshape(size, size).astype(np.float64)
    heights[heights == _VOID] = np.nan
    south = float(corner[2]) * (1 if corner[1].upper() == "N" else -1)
    west = float(corner[4]) * (1 if corner[3].upper() == "E" else -1)
    return Tile(heights, west, south + 1, 1 / (size - 1), 1 / (size - 1))


def _unzipped(path: Path) -> bytes:
    import gzip  # noqa: PLC0415 - seldom
    import zlib  # noqa: PLC0415 - likewise

    most = 2 * max(_SIZES) ** 2
    try:
        if path.name.lower().endswith(".gz"):
            with gzip.open(path) as file:
                return file.read(most + 1)
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".hgt")]
            if len(names) != 1:
                msg = f"{path} holds {len(names)} tiles; one is expected"
                raise DataError(msg)
            with archive.open(names[0]) as file:
                return file.read(most + 1)
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error) as error:
        msg = f"{path} is damaged: {error}"
        raise DataError(msg) from error


def _geotiff(path: Path) -> Tile:
    """Read a GeoTIFF; one in another coordinate system is brought to degrees."""
    try:
        import rasterio  # noqa: PLC0415 - an optional part
        from rasterio.errors import RasterioError  # noqa: PLC0415
        from rasterio.vrt import WarpedVRT  # noqa: PLC0415
    except ImportError as error:
        msg = "reading GeoTIFFs needs rasterio; pip install 'superarm[osm]'"
        raise ImportError(msg) from error
    try:
        with rasterio.open(path) as raster:
            if raster.crs is None:
                msg = f"{path} does not say in which coordinate system it is"
                raise DataError(msg)
            nothing = {"nodata": float(_VOID), "dtype": "float64"}  # outside a turned raster
            with WarpedVRT(raster, crs="EPSG:4326", **nothing) as degrees:
                if 8 * degrees.width * degrees.height > MOST_BYTES:
                    size = f"{degrees.width:,} x {degrees.height:,}"
                    msg = f"{path} has {size} cells, too many; cut it"
                    raise DataError(msg)
                band = degrees.read(1, masked=True).astype(np.float64).filled(np.nan)
                place = degrees.transform
    except RasterioError as error:
        msg = f"{path} is damaged: {error}"
        raise DataError(msg) from error
    # cells are areas: their heights are those of their middles
    west, north = place.c + place.a / 2, place.f + place.e / 2
    return Tile(band, west, north, place.a, -place.e)
