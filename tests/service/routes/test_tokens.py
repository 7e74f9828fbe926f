"""Route ids carry their route, and nobody can make them up."""

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from parts import require_module
from services import small_city, trip_between
from strategies import finite, seeds
from superarm.roads.vehicle import Vehicle

require_module("fastapi", "service")

from superarm.roads.vehicle import CLASSES  # noqa: E402
from superarm.service.routes.tokens import (  # noqa: E402
    IssuedRoute,
    RouteTokens,
    UnknownRouteError,
)
from superarm.service.trips.schemas import MOST_CHARACTERS  # noqa: E402

CITY = small_city()
TOKENS = RouteTokens(CITY, b"a secret")


def a_route(seed: int, steps: int, vehicle: Vehicle, mean: float = 1.5) -> IssuedRoute:
    names, _ = trip_between(CITY, np.random.default_rng(seed), steps)
    edges = np.array([CITY.position(name) for name in names])
    return IssuedRoute(edges, vehicle, mean, 2.5, -3.5, 1_700_000_000_000_000)


vehicles = st.sampled_from(list(CLASSES.values())) | st.builds(Vehicle, mass_kg=finite(500, 5e4))


@settings(max_examples=50)
@given(seeds, st.integers(1, 400), vehicles, finite(-1e5, 1e5))
def test_routes_survive_their_ids(seed: int, steps: int, vehicle: Vehicle, mean: float) -> None:
    route = a_route(seed, steps, vehicle, mean)
    name = TOKENS.written(route)
    parameters = 0 if vehicle.class_name else 450
    assert len(name) < min(300 + parameters + steps, MOST_CHARACTERS)
    found = TOKENS.read(name)
    assert_array_equal(found.edges, route.edges)
    assert found.vehicle == vehicle
    assert (found.mean_wh, found.std_wh, found.best_wh) == (mean, 2.5, -3.5)
    assert found.issued_us == route.issued_us


@settings(max_examples=50)
@given(seeds, st.data())
def test_no_bit_can_be_changed(seed: int, data: st.DataObject) -> None:
    name = TOKENS.written(a_route(seed, 20, Vehicle()))
    raw = bytearray(base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    other = base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode()
    with pytest.raises(UnknownRouteError, match="not issued by this service"):
        TOKENS.read(other)
    with pytest.raises(UnknownRouteError):
        RouteTokens(CITY, b"another secret").read(name)


@given(st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", max_size=200))
def test_nonsense_is_no_route(text: str) -> None:
    with pytest.raises(UnknownRouteError):
        TOKENS.read(text)
