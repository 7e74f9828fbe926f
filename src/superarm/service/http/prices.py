"""What questions cost, in plain requests: by the work that they take on this network."""

from superarm.roads.charging.legs import (
    LARGE_NETWORK,
    MOST_PLACES,
    MOST_PLACES_OF_LARGE,
    WAYS_OF_SMALL,
)
from superarm.service.routes.schemas import RouteRequest
from superarm.service.vehicles import Parameters

REQUEST_S = 0.004
"""Processor seconds of a plain request: what a question takes beyond its price is charged by it."""

STEPS_OF_REQUEST = 25_000.0
"""Road sections that searches visit in that time."""

_PARAMETERS, _BATTERY, _ALTERNATIVE = 4.0, 1.0, 1.0
_FRONT, _REACH, _PLAN, _ORIGIN, _PAIR = 10.0, 20.0, 40.0, 2.0, 0.1
_LONG, _TIMES_PLAIN = 12.5, 3.0  # 50 ms; and where every question takes that long
_SEARCHES_OF_ALTERNATIVE, _SEARCHES_IN_TIME = 3, 4
_TREES_OF_FRONT = 6
_STEPS_AT_LEAST, _TREES_AT_LEAST = 30_000_000.0, 60.0


def most_steps(n_edges: int) -> float:
    """Return how many road sections the searches of one question may visit in all."""
    return max(_STEPS_AT_LEAST, _TREES_AT_LEAST * n_edges)


def is_long(price: float, n_edges: int) -> bool:
    """Say whether a question of this price takes much longer than a plain one."""
    return price > max(_LONG, _TIMES_PLAIN * _price_of_searches(3, n_edges))


def price_of_route(request: RouteRequest, n_edges: int) -> float:
    """Return how many plain requests a request for a route costs beside itself."""
    price = _ALTERNATIVE * request.alternatives
    changed = request.temperature_c is not None or bool(request.payload_kg)
    if isinstance(request.vehicle, Parameters) or changed:
        price += _PARAMETERS
    if request.battery is not None:
        price += _BATTERY
    searches = 1 if request.mode == "best" else 3
    searches += _SEARCHES_OF_ALTERNATIVE * request.alternatives
    # every part of the way is searched for, and again and again where time is limited
    if request.max_extra_time is not None:
        searches *= _SEARCHES_IN_TIME
    return price + _price_of_searches(searches * (1 + len(request.via)), n_edges)


def price_of_front(n_edges: int) -> float:
    """Return the price of the routes between the fastest and the thriftiest."""
    return _FRONT + _TREES_OF_FRONT * n_edges / STEPS_OF_REQUEST


def price_of_reach(n_edges: int) -> float:
    """Return the price of the areas that a charge reaches."""
    return _REACH + 2 * n_edges / STEPS_OF_REQUEST


def price_of_row(n_edges: int, destinations: int) -> float:
    """Return the price of one row of a matrix."""
    return _ORIGIN + destinations * _PAIR + n_edges / STEPS_OF_REQUEST


def price_of_plan(n_edges: int, n_stations: int) -> float:
    """Return the price of a plan with stops: trees from the stations that are looked at."""
    if n_edges > LARGE_NETWORK:
        trees = min(n_stations, MOST_PLACES_OF_LARGE)
    else:
        trees = WAYS_OF_SMALL * min(n_stations, MOST_PLACES)
    return _PLAN + trees * n_edges / STEPS_OF_REQUEST


def _price_of_searches(count: int, n_edges: int) -> float:
    """Return the price of searches between two places: each visits half of the network."""
    return count * n_edges / 2 / STEPS_OF_REQUEST
