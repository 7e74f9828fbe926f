"""Fronts of two costs against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superarm import CapacityError, InfeasibleError
from superarm.oracles import Paths
from superarm.oracles.fronts import FrontRoute, front, spread_out
from superarm.roads.network import generate_city
from superarm.roads.routing.vehicle_access import Permit
from superarm.roads.vehicle import Vehicle

_CLOSE = 1e-9


def line_graph(rng: np.random.Generator, n: int, arcs: int) -> Paths:
    """A random line graph in which the goal can be reached."""
    chain = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    more = rng.integers(n, size=(arcs, 2))
    turns = np.unique(np.concatenate([chain, more[more[:, 0] != more[:, 1]]]), axis=0)
    return Paths.on_turns(n, turns, 0, n - 1)


def all_costs(paths: Paths, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.array([[first[rows].sum(), second[rows].sum()] for rows in paths.super_arms()])


def beats(one: np.ndarray, other: np.ndarray) -> bool:
    no_worse = (one <= other + _CLOSE).all()
    return bool(no_worse and (one < other - _CLOSE).any())


@settings(max_examples=150)
@given(
    st.integers(0, 10**6), st.integers(3, 9), st.integers(0, 18), st.sampled_from([0.0, 0.02, 0.3])
)
def test_a_front_is_not_beaten_and_covers_all_paths(
    seed: int, n: int, arcs: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    paths = line_graph(rng, n, arcs)
    whole = rng.random() < 0.5  # ties and zeros
    first, second = rng.integers(0, 4, (2, n)).astype(float) if whole else rng.random((2, n))
    routes = front(paths, first, second, share)
    every = all_costs(paths, first, second)
    costs = np.array([[route.first, route.second] for route in routes])
    for route in routes:
        assert paths.contains(route.rows) or whole  # a loop that costs nothing is no harm
        assert route.first == pytest.approx(first[route.rows].sum())
        assert route.second == pytest.approx(second[route.rows].sum())
        mine = np.array([route.first, route.second])
        assert not any(beats(other, mine) for other in every)
    assert (np.diff(costs[:, 0]) > -_CLOSE).all()
    assert (np.diff(costs[:, 1]) < 0).all()
    assert costs[0, 0] == pytest.approx(every[:, 0].min())
    assert costs[-1, 1] == pytest.approx(every[:, 1].min())
    for one in every:
        covered = (costs[:, 0] <= one[0] + _CLOSE) & (costs[:, 1] <= (1 + share) * one[1] + _CLOSE)
        assert covered.any()


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(2, 14), st.integers(2, 6))
def test_few_routes_cover_a_front_as_well_as_said(seed: int, size: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    first = np.sort(rng.uniform(1, 2, size))
    second = np.sort(rng.uniform(1, 2, size))[::-1]
    routes = [
        FrontRoute(np.array([place]), float(a), float(b))
        for place, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    kept, share = spread_out(routes, most)
    assert 2 <= len(kept) <= max(most, 2)
    assert kept[0] is routes[0]
    assert kept[-1] is routes[-1]
    worst = max(min(max(k.first / r.first, k.second / r.second) for k in kept) - 1 for r in routes)
    assert worst == pytest.approx(max(share, 0.0), abs=1e-12)


def test_of_five_routes_the_best_three_are_kept() -> None:
    costs = [(1.0, 2.0), (1.2, 1.7), (1.25, 1.6), (1.3, 1.55), (1.8, 1.0)]
    routes = [FrontRoute(np.array([0]), *pair) for pair in costs]
    kept, _ = spread_out(routes, 3)
    assert [route.first for route in kept] == [1.0, 1.25, 1.8]


def test_on_a_city_both_ends_are_the_cheapest_paths() -> None:
    city = generate_city(0, 1000).largest_component()
    rng = np.random.default_rng(0)
    first, second = rng.random((2, city.n_edges))
    permit = Permit.of(city, Vehicle())
    for _ in range(10):
        start, goal = (int(edge) for edge in rng.choice(city.n_edges, 2, replace=False))
        routes = front(permit.paths.between(start, goal), first, second, 0.02)
        assert routes[0].first == pytest.approx(first[permit.cheapest(first, start, goal)].sum())
        last = second[permit.cheapest(second, start, goal)].sum()
        assert routes[-1].second == pytest.approx(last)


def test_what_cannot_be_is_said() -> None:
    paths = Paths.on_turns(3, [[0, 1], [1, 2]], 0, 2)
    ones = np.ones(3)
    with pytest.raises(ValueError, match="none of them negative"):
        front(paths, -ones, ones)
    with pytest.raises(ValueError, match="none of them negative or NaN"):
        front(paths, ones, np.full(3, np.nan))
    with pytest.raises(ValueError, match="line graphs"):
        front(Paths(2, [[0, 1]], 0, 1), np.ones(1), np.ones(1))
    with pytest.raises(InfeasibleError, match="no open path"):
        front(paths, np.array([1.0, np.inf, 1.0]), ones)
    with pytest.raises(ValueError, match="two ends"):
        spread_out([], 1)
    rng = np.random.default_rng(0)
    dense = line_graph(rng, 400, 8000)
    with pytest.raises(CapacityError, match="larger share"):
        front(dense, rng.random(400), rng.random(400), most_labels=10)
    (only,) = front(Paths.on_turns(3, [[0, 1], [1, 2]], 1, 1), ones, ones)
    assert only.rows.tolist() == [1]
