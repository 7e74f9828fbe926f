"""Route ids that carry their route: signed, so that nothing needs to be stored to believe them.

A token holds the edges (the first one, then which turn was taken: four bits each where four are
enough), the vehicle, what was predicted and who asked, and ends in a signature by a secret of the
database that all workers share.
"""

import base64
import hashlib
import hmac
import json
import struct
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Rows
from superarm.roads.network.network import RoadNetwork
from superarm.roads.vehicle import Vehicle

_SIGNATURE = 16
_HEAD = struct.Struct("<BdddQiH")
_LENGTH = struct.Struct("<H")  # of the vehicle; one byte before the second format
_FORMAT, _BY_POSITION = 2, 1
_POSITIONS = (  # of the numbers of a vehicle in the first format
    "mass_kg",
    "rolling_resistance",
    "front_area_m2",
    "drag_coefficient",
    "powertrain_efficiency",
    "recuperation_efficiency",
    "gravity",
    "air_density",
    "rotating_mass_kg",
    "auxiliary_power_w",
    "height_m",
)
_LARGE = 15  # in four bits: the next sixteen say which turn


class UnknownRouteError(Exception):
    """A route id that was not issued here; the message says what to do."""


@dataclass(frozen=True, eq=False)
class IssuedRoute:
    """A route and what was said of it.

    Attributes:
        edges: positions, in driving order.
        vehicle: what it was for.
        mean_wh: expected energy.
        std_wh: its standard deviation.
        best_wh: expected of the best route.
        issued_us: when, in microseconds since 1970.
    """

    edges: Rows
    vehicle: Vehicle
    mean_wh: float
    std_wh: float
    best_wh: float
    issued_us: int


class RouteTokens:
    """Writes and reads route ids of one network and database."""

    def __init__(self, network: RoadNetwork, secret: bytes) -> None:
        """Sort the turns by the edge they leave."""
        self._secret = secret
        order = np.lexsort((network.turns[:, 1], network.turns[:, 0]))
        self._heads = np.ascontiguousarray(network.turns[order, 1])
        self._pairs = network.turns[order, 0].astype(np.int64) * network.n_edges + self._heads
        counts = np.bincount(network.turns[:, 0], minlength=network.n_edges)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self._n_edges = network.n_edges

    def written(self, route: IssuedRoute) -> str:
        """Return the id of a route."""
        vehicle = route.vehicle.to_json().encode()
        head = _HEAD.pack(
            _FORMAT,
            route.mean_wh,
            route.std_wh,
            route.best_wh,
            route.issued_us,
            int(route.edges[0]),
            route.edges.size,
        )
        body = head + _LENGTH.pack(len(vehicle)) + vehicle + self._turns(route.edges)
        return base64.urlsafe_b64encode(body + self._signed(body)).rstrip(b"=").decode()

    def read(self, token: str) -> IssuedRoute:
        """Return the route of an id, or say that it is none of ours."""
        try:
            data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError as error:
            raise _unknown() from error
        body, signature = data[:-_SIGNATURE], data[-_SIGNATURE:]
        if not hmac.compare_digest(signature, self._signed(body)):
            raise _unknown()
        # what follows was written here
        kind, mean, std, best, issued, first, count = _HEAD.unpack_from(body)
        place = _HEAD.size
        if kind == _FORMAT:
            (size,) = _LENGTH.unpack_from(body, place)
            place += _LENGTH.size
            vehicle = Vehicle.from_json(body[place : place + size].decode())
        elif kind == _BY_POSITION:
            size = body[place]
            place += 1
            vehicle = _by_position(body[place : place + size].decode())
        else:
            raise _unknown()
        edges = self._edges(first, count, body[place + size :])
        return IssuedRoute(edges, vehicle, mean, std, best, issued)

    def short(self, token: str) -> str:
        """Return what to keep of an id."""
        return hashlib.sha256(token.encode()).hexdigest()[:32]

    def _signed(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, "sha256")[:_SIGNATURE]

    def _turns(self, edges: Rows) -> bytes:
        pairs = edges[:-1].astype(np.int64) * self._n_edges + edges[1:]
        turns = np.searchsorted(self._pairs, pairs) - self._starts[edges[:-1]]
        if (turns >= _LARGE).any():
            digits = np.array([digit for turn in turns.tolist() for digit in _digits(turn)])
        else:
            digits = turns
        padded = np.append(digits, np.zeros(digits.size % 2, dtype=np.intp)).astype(np.uint8)
        return (padded[::2] << 4 | padded[1::2]).tobytes()

    def _edges(self, first: int, count: int, packed: bytes) -> Rows:
        digits = [digit for byte in packed for digit in (byte >> 4, byte & 15)]
        edges, place = [first], 0
        while len(edges) < count:
            turn = digits[place]
            place += 1
            if turn == _LARGE:
                turn = 0
                for digit in digits[place : place + 4]:
                    turn = turn << 4 | digit
                place += 4
            edges.append(int(self._heads[self._starts[edges[-1]] + turn]))
        return np.array(edges, dtype=np.intp)


def _digits(turn: int) -> list[int]:
    """Return four bits, or five times four where four do not do."""
    if turn < _LARGE:
        return [turn]
    return [_LARGE, turn >> 12 & 15, turn >> 8 & 15, turn >> 4 & 15, turn & 15]


def _by_position(text: str) -> Vehicle:
    """Return the vehicle of a route id of the first format: a class, or numbers by position."""
    if not text.startswith("["):
        return Vehicle.from_json(text)
    return Vehicle(**dict(zip(_POSITIONS, json.loads(text), strict=False)))


def _unknown() -> UnknownRouteError:
    return UnknownRouteError(
        "this route_id was not issued by this service, or was cut short; send it as it was "
        "answered, or report the trip with its edges instead"
    )
