"""Routes that a vehicle may take, against enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small_networks
from superarm.errors import DataError, InfeasibleError
from superarm.roads.network import Access, RoadNetwork
from superarm.roads.network.access import CLOSED, ENDS_ONLY, FOR_CARS, FOR_TRUCKS, zones_of
from superarm.roads.routing.query import RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.routing.vehicle_access import Permit, Permits
from superarm.roads.vehicle import Vehicle

TRUCK = Vehicle(mass_kg=18_000.0, height_m=4.0)


def ruled(seed: int) -> RoadNetwork:
    """A small network with rules drawn at random."""
    rng = np.random.default_rng(seed)
    network = small_networks.random_network(seed, n_edges=12)
    n, t = network.n_edges, network.n_turns
    access = Access(
        cars=rng.choice([0, 1, 2, 2, 2], n).astype(np.uint8),
        trucks=rng.choice([0, 1, 2, 2], n).astype(np.uint8),
        most_t=rng.choice([7.5, 40.0, np.inf, np.inf], n),
        most_m=rng.choice([3.0, np.inf, np.inf], n),
        toll=np.zeros(n, dtype=np.bool_),
        turns=rng.choice([0, FOR_CARS, FOR_TRUCKS, 3, 3, 3], t).astype(np.uint8),
    )
    return replace(network, access=access)


def cheapest(
    network: RoadNetwork, vehicle: Vehicle, costs: np.ndarray, ends: tuple[int, int]
) -> float:
    """The least cost of all paths that the rules allow, by looking at all of them."""
    access = network.access
    codes = access.edges_for(vehicle)
    zones = zones_of(codes, network.turns)
    mine = {int(zones[end]) for end in ends} - {-1}
    fine = [
        codes[e] != CLOSED and (codes[e] != ENDS_ONLY or int(zones[e]) in mine)
        for e in range(network.n_edges)
    ]
    turns = network.turns[access.turns_for(vehicle)].tolist()
    best = np.inf
    stack: list[tuple[tuple[int, ...], float]] = []
    if fine[ends[0]]:
        stack.append(((ends[0],), float(costs[ends[0]])))
    while stack:
        path, cost = stack.pop()
        if path[-1] == ends[1]:
            best = min(best, cost)
            continue
        stack += [
            ((*path, b), cost + float(costs[b]))
            for a, b in turns
            if a == path[-1] and b not in path and fine[b]
        ]
    return best


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_routes_keep_the_rules_and_are_the_cheapest_that_do(seed: int, heavy: bool) -> None:
    network = ruled(seed)
    rng = np.random.default_rng(seed + 1)
    start, goal = (int(one) for one in rng.choice(network.n_edges, 2, replace=False))
    costs = rng.uniform(0.1, 1.0, network.n_edges)
    vehicle = TRUCK if heavy else Vehicle()
    expected = cheapest(network, vehicle, costs, (start, goal))
    router = Router(network)
    query = RouteQuery(start=start, goal=goal)
    if np.isinf(expected):
        with pytest.raises(InfeasibleError, match=f"{vehicle.mass_kg / 1000:g} t"):
            router.path(costs, query, vehicle)
        with pytest.raises(InfeasibleError, match=f"{vehicle.mass_kg / 1000:g} t"):
            router.permits.of(vehicle).front(costs, costs[::-1].copy(), start, goal)
    else:
        fastest = router.permits.of(vehicle).front(costs, costs[::-1].copy(), start, goal)[0]
        assert fastest.first == pytest.approx(expected)
        assert costs[router.path(costs, query, vehicle)].sum() == pytest.approx(expected)


def test_an_open_network_has_one_permit_for_all() -> None:
    permits = Permits(small_networks.random_network(1))
    assert permits.of(TRUCK) is permits.of(Vehicle())
    ruled_ones = Permits(ruled(3))
    assert ruled_ones.of(TRUCK) is not ruled_ones.of(Vehicle())
    assert ruled_ones.of(TRUCK) is ruled_ones.of(TRUCK)
    for mass in range(100):  # permits of many vehicles are forgotten again
        ruled_ones.of(Vehicle(mass_kg=1000.0 + mass))
    assert isinstance(ruled_ones.of(TRUCK), Permit)


def test_rules_that_do_not_fit_are_refused() -> None:
    network = small_networks.random_network(1)
    with pytest.raises(DataError, match="access.cars has shape|access.toll has shape"):
        replace(network, access=replace(ruled(1).access, toll=np.zeros(3, dtype=np.bool_)))
    wrong = replace(
        Access.everywhere(network.n_edges, network.n_turns), most_t=np.full(network.n_edges, np.nan)
    )
    with pytest.raises(DataError, match="not a number"):
        replace(network, access=wrong)
