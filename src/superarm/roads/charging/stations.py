"""Charging stations, from GeoJSON or from OpenStreetMap."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from superarm.errors import DataError
from superarm.roads.charging.hours import OpeningHours
from superarm.roads.network.formats.osm import ENDINGS
from superarm.roads.network.formats.osm_reading import open_osm, osmium_errors
from superarm.saving.compressed import open_packed, require_file

USUAL_W = 11_000.0
"""The power of a station that does not say."""

MOST_GEOJSON_BYTES = 2**30
"""Files of stations that are larger are refused; a country's stations take some 100 MB."""

LEAST_W = 100.0
"""Less is no charging station."""

_LONGEST = 200
_POWER = re.compile(r"(\d+(?:[.,]\d+)?)\s*(kw|kva|w)?", re.IGNORECASE)
_KILO_IF_BELOW = 1000.0
_MOST_W = 5e6


@dataclass(frozen=True)
class Station:
    """Where one can charge.

    Attributes:
        name: what to call it.
        longitude: in degrees.
        latitude: in degrees.
        power_w: of its fastest plug.
        plugs: how many.
        hours: when it is open.
    """

    name: str
    longitude: float
    latitude: float
    power_w: float = USUAL_W
    plugs: int = 1
    hours: OpeningHours = field(default_factory=OpeningHours)

    def __post_init__(self) -> None:
        """Refuse what no station has."""
        if not LEAST_W <= self.power_w <= _MOST_W:
            msg = (
                f"station {self.name!r} has a power of {self.power_w:g} W; stations have "
                f"{LEAST_W:g} W to {_MOST_W:g} W"
            )
            raise ValueError(msg)
        if not (abs(self.longitude) <= 180 and abs(self.latitude) <= 90):  # noqa: PLR2004 - degrees
            msg = f"station {self.name!r} lies at {self.longitude}, {self.latitude}: no such place"
            raise ValueError(msg)
        if self.plugs < 1:
            msg = f"station {self.name!r} has no plug"
            raise ValueError(msg)


def read_stations(path: str | os.PathLike[str]) -> tuple[list[Station], list[str]]:
    """Read charging stations, and say what was left out or assumed.

    Args:
        path: GeoJSON with points whose properties are ``power_kw``, ``name``, ``plugs``,
            ``opening_hours``; or an OpenStreetMap extract.
    """
    source = Path(path)
    require_file(source)
    osm = source.name.lower().endswith(ENDINGS)
    found, notes = [], []
    for number, (where, tags) in enumerate(_from_osm(source) if osm else _from_json(source)):
        try:
            station, assumed = _station(f"station {number + 1}", where, tags)
        except (ValueError, TypeError, OverflowError) as error:
            notes.append(f"left out: {error}")
            continue
        found.append(station)
        notes += assumed
    if not found:
        reason = f": {notes[0]}" if notes else ""
        msg = f"{source} holds no charging stations{reason}"
        raise DataError(msg)
    return found, notes


def _station(
    usual: str, where: tuple[float, float], tags: Mapping[str, Any]
) -> tuple[Station, list[str]]:
    name = _seen(str(tags.get("name") or tags.get("operator") or tags.get("brand") or "")) or usual
    notes = []
    power = _power(tags)
    if power is None:
        notes.append(f"{name} does not say its power: {USUAL_W / 1000:g} kW assumed")
    plugs = _count(tags.get("plugs", tags.get("capacity", 1)))
    hours = OpeningHours()
    if tags.get("opening_hours"):
        try:
            hours = OpeningHours.of(str(tags["opening_hours"]))
        except ValueError as error:
            notes.append(f"{name} counts as always open: {error}")
    longitude, latitude = (float(value) for value in where)
    if not np.isfinite([longitude, latitude]).all():
        msg = f"{name} lies nowhere"
        raise ValueError(msg)
    watts = USUAL_W if power is None else power
    return Station(name, longitude, latitude, watts, plugs, hours), notes


def _seen(text: str) -> str:
    """Return a name without anything that cannot be seen, and not too long."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST])
    return " ".join(shown.split())


def _power(tags: Mapping[str, Any]) -> float | None:
    """Return the power of the fastest plug, in W, if it is told."""
    if tags.get("power_kw") is not None:
        return 1000 * float(tags["power_kw"])
    if tags.get("power_w") is not None:
        return float(tags["power_w"])
    names = [name for name in tags if name.endswith(":output") or name == "maxpower"]
    told = [_watts(str(tags[name])) for name in names]
    known = [value for value in told if value is not None]
    return max(known, default=None)


def _watts(text: str) -> float | None:
    found = [_POWER.fullmatch(part.strip()) for part in re.split(r"[;/]", text)]
    values = []
    for one in found:
        if one is None:
            continue
        value = float(one[1].replace(",", "."))
        plain = (one[2] or "").lower() == "w" or (not one[2] and value >= _KILO_IF_BELOW)
        values.append(value if plain else 1000 * value)
    return max((value for value in values if 0 < value <= _MOST_W), default=None)


def _count(value: object) -> int:
    try:
        return max(int(float(str(value))), 1)
    except (ValueError, OverflowError):
        return 1


def _from_json(source: Path) -> Iterator[tuple[tuple[float, float], Mapping[str, Any]]]:
    try:
        with open_packed(source, MOST_GEOJSON_BYTES) as file:
            content = json.load(file)
        features = list(content["features"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"{source} is no GeoJSON FeatureCollection: {error}"
        raise DataError(msg) from error
    for feature in features:
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(geometry, dict) or geometry.get("type") != "Point":
            continue
        where = geometry.get("coordinates")
        properties = feature.get("properties")
        if isinstance(where, list) and len(where) >= 2:  # noqa: PLR2004 - longitude, latitude
            yield (where[0], where[1]), properties if isinstance(properties, dict) else {}


def _from_osm(source: Path) -> Iterator[tuple[tuple[float, float], Mapping[str, Any]]]:
    """Yield nodes, and areas by their first node, that are charging stations."""
    osmium, file = open_osm(source)
    areas: dict[int, Mapping[str, Any]] = {}
    with osmium_errors(source):
        for one in osmium.FileProcessor(file, osmium.osm.WAY):
            tags = {tag.k: tag.v for tag in one.tags}
            if _is_station(tags) and len(one.nodes):
                areas[one.nodes[0].ref] = tags
        for node in osmium.FileProcessor(file, osmium.osm.NODE):
            if not node.location.valid():
                continue
            tags = {tag.k: tag.v for tag in node.tags} if len(node.tags) else {}
            where = node.location.lon, node.location.lat
            if _is_station(tags):
                yield where, tags
            if node.id in areas:
                yield where, areas[node.id]


def _is_station(tags: Mapping[str, str]) -> bool:
    private = tags.get("access") in {"private", "no"} or tags.get("motorcar") == "no"
    return tags.get("amenity") == "charging_station" and not private
