"""Places by name: streets, charging stations and edges."""

import unicodedata
from functools import cached_property

import numpy as np

from superarm.roads.charging import StationPlaces
from superarm.roads.network.geography import Geography
from superarm.service.routes.schemas import FoundPlace, PlacesAnswer

MOST_FOUND = 10


class PlaceNames:
    """Finds places whose names hold some words."""

    def __init__(self, geography: Geography, stations: StationPlaces) -> None:
        """Take the names of a network and of stations; they are sorted when first asked for."""
        self._geography, self._stations = geography, stations

    @cached_property
    def _streets(self) -> list[tuple[str, str, int]]:
        """Every name once, plain and as it is written, with an edge in the middle of its edges."""
        names = self._geography.network.streets
        order = np.argsort(names, kind="stable")
        found, starts = np.unique(names[order], return_index=True)
        ends = np.append(starts[1:], names.size)
        return [
            (plain(str(name)), str(name), int(order[(begin + end) // 2]))
            for name, begin, end in zip(found, starts, ends, strict=True)
            if name
        ]

    def found(self, words: str) -> bytes:
        """Return what is found, as the answer to send."""
        wanted = plain(words)
        places: list[FoundPlace] = []
        for one in self._stations.stations:
            if wanted and wanted in plain(one.name):
                where = one.longitude, one.latitude
                places.append(
                    FoundPlace(name=one.name, kind="station", longitude=where[0], latitude=where[1])
                )
        for key, name, edge in self._streets:
            if wanted and wanted in key:
                places.append(self._at(name, "street", edge))
        position = self._geography.network.positions([words.strip()])[0]
        if position is not None:
            places.append(self._at(words.strip(), "edge", position))
        places.sort(key=lambda one: (not plain(one.name).startswith(wanted), len(one.name)))
        return PlacesAnswer(places=places[:MOST_FOUND]).model_dump_json().encode()

    def _at(self, name: str, kind: str, edge: int) -> FoundPlace:
        line = self._geography.line(np.array([edge]))
        longitude, latitude = line[len(line) // 2]
        return FoundPlace.model_validate(
            {"name": name, "kind": kind, "longitude": longitude, "latitude": latitude}
        )


def plain(text: str) -> str:
    """Return a text without case, accents and doubled spaces."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return " ".join(letters.split())
