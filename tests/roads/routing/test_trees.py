"""Reach, matrices and places on the way, against routes one at a time and drives that are drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.path import Path
from numpy.testing import assert_allclose

from parts import require_module
from services import small_city
from strategies import finite, seeds
from superarm import InfeasibleError
from superarm.oracles.reach import Tree
from superarm.roads.network.access import CLOSED, ENDS_ONLY, Access
from superarm.values import changed

require_module("fastapi", "service")

from superarm.roads.battery import Battery  # noqa: E402
from superarm.roads.models.fleet import Fleet  # noqa: E402
from superarm.roads.models.posterior import RoadPosterior  # noqa: E402
from superarm.roads.routing.areas import AreaGrid  # noqa: E402
from superarm.roads.routing.arrival import probability_of_arrival  # noqa: E402
from superarm.roads.routing.matrix import row_of  # noqa: E402
from superarm.roads.routing.query import RouteQuery  # noqa: E402
from superarm.roads.routing.router import Router  # noqa: E402
from superarm.roads.routing.search import Search  # noqa: E402
from superarm.roads.routing.trees import Branches  # noqa: E402
from superarm.roads.vehicle import CLASSES  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
ROUTER = Router(CITY)
PRIOR = FLEET.prior()
N = CITY.n_edges
CAR = FLEET.drivetrain(CLASSES["car"])
MIND = np.random.default_rng(0)


def posterior_after(seed: int) -> RoadPosterior:
    rng = np.random.default_rng(seed % 7)
    edges = rng.integers(N, size=240)
    belief = PRIOR.condition(FLEET.arms.take(edges), 0.4 * rng.standard_normal(edges.size))
    counts = np.bincount(edges, minlength=N).astype(float)
    return RoadPosterior.of(FLEET, belief, counts, trips=30)


def searching(seed: int, start: int, **options: object) -> Search:
    query = RouteQuery(start=start, goal=start, mode="best", **options)  # type: ignore[arg-type]
    return ROUTER.search(query, posterior_after(seed), CAR)


def way(search: Search, start: int, goal: int) -> np.ndarray:
    costs = np.maximum(search.posterior.cost_wh(CAR), 0.0)
    return search.permit.cheapest(costs, start, goal)


@settings(max_examples=15)
@given(seeds, st.sampled_from(["energy", "time"]))
def test_a_matrix_holds_what_single_routes_say(seed: int, by: str) -> None:
    rng = np.random.default_rng(seed)
    start, *goals = rng.choice(N, size=6, replace=False).tolist()
    search = searching(seed, start)
    row = row_of(search, [*goals, start], by)  # type: ignore[arg-type]
    costs = search.seconds if by == "time" else search.posterior.cost_wh(CAR)
    for place, goal in enumerate([*goals, start]):
        edges = search.permit.cheapest(np.maximum(costs, 0.0), start, goal)
        alone = search.predicted(edges)
        assert_allclose(row.energy_wh[place], alone.mean_wh, rtol=1e-9)
        assert_allclose(row.seconds[place], alone.mean_s, rtol=1e-9)
        assert_allclose(row.length_m[place], CITY.length_m[edges].sum(), rtol=1e-12)
        assert_allclose(row.energy_std_wh[place], alone.std_wh, rtol=1e-6)
        assert_allclose(row.std_s[place], alone.std_s, rtol=1e-6)


def test_a_matrix_says_where_nothing_leads() -> None:
    search = searching(0, 0)
    around = CITY.turns[CITY.turns[:, 0] == 0, 1]
    shut = searching(0, 0, closed=tuple(around.tolist()))
    goal = next(edge for edge in range(1, N) if edge not in around)
    assert np.isfinite(row_of(search, [goal], "energy").energy_wh).all()
    row = row_of(shut, [goal, 0], "energy")
    assert np.isnan(row.energy_wh[0])
    assert np.isnan(row.std_s[0])
    assert np.isfinite(row.energy_wh[1])


@settings(max_examples=10)
@given(seeds)
def test_the_fitted_share_says_how_sure_paths_are(seed: int) -> None:
    start = int(np.random.default_rng(seed).integers(N))
    search = searching(seed, start)
    costs = np.maximum(search.posterior.cost_wh(CAR), 0.0)
    branches = Branches(search, Tree.away(search.permit.paths, costs, start))
    told = np.sqrt(branches.sums.variance_wh(branches.share, search.posterior.spread))
    goals = np.random.default_rng(seed).choice(N, 40)
    exact = np.array([search.predicted(branches.tree.path(int(goal))).std_wh for goal in goals])
    # between all or nothing in common: right to a tenth for most, never half or twice
    assert np.median(np.abs(told[goals] / exact - 1)) < 0.1
    assert np.abs(np.log(told[goals] / exact)).max() < np.log(2)


@settings(max_examples=12)
@given(seeds, finite(0.05, 0.9), finite(0.0, 0.3))
def test_what_is_reached_is_where_the_charge_lasts_to(
    seed: int, share: float, reserve: float
) -> None:
    rng = np.random.default_rng(seed)
    start = int(rng.integers(N))
    search = searching(seed, start)
    everywhere = [search.predicted(way(search, start, int(goal))) for goal in range(0, N, 9)]
    charge = share * max(route.mean_wh for route in everywhere) + 100.0
    battery = Battery(charge, 1.5 * charge, reserve * charge)
    half, most, sure = ROUTER.reached(
        RouteQuery(start=start, goal=start, mode="best", closed=(), battery=battery),
        search.posterior,
        CAR,
        (0.5, 0.8, 0.95),
        back=False,
    )
    assert set(sure.edges) <= set(most.edges) <= set(half.edges)
    wrong = 0
    for route in everywhere:
        mean, covariance = search.posterior.along(route.edges, CAR)
        arrival = probability_of_arrival(battery, mean, covariance)
        goal = int(route.edges[-1])
        for some in (half, most, sure):
            told = goal in some.edges
            # deviations are fitted, and the worst of several moments is worse than each of them
            wrong += told and arrival < some.confidence - 0.12
            # where a climb comes first it is more careful than it need be
            wrong += not told and arrival > some.confidence + 0.2
    assert wrong <= 0.03 * 3 * len(everywhere)


@settings(max_examples=10)
@given(seeds)
def test_coming_back_takes_the_charge_of_both_ways(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = int(rng.integers(N))
    search = searching(seed, start)
    battery = Battery(600.0, 2000.0, 50.0)
    query = RouteQuery(start=start, goal=start, mode="best", closed=(), battery=battery)
    there = ROUTER.reached(query, search.posterior, CAR, (0.5,), back=False)[0].edges
    home = ROUTER.reached(query, search.posterior, CAR, (0.5,), back=True)[0].edges
    assert set(home) <= set(there)
    energy = search.posterior.energy_wh(CAR)
    for goal in rng.choice(N, 40):
        out, back = way(search, start, int(goal)), way(search, int(goal), start)
        used = np.cumsum(energy[np.concatenate([out, back[1:]])])
        if used.min() < -1400:  # the battery is full on the way
            continue
        lasts = 600.0 - used.max() >= 50.0
        assert (int(goal) in home) == lasts or abs(550.0 - used.max()) < 1e-6


@settings(max_examples=10)
@given(seeds)
def test_a_full_battery_takes_nothing_back_on_the_way_home(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, full = int(rng.integers(N)), float(rng.uniform(60, 300))
    search = searching(seed, start)
    query = RouteQuery(
        start=start, goal=start, mode="best", closed=(), battery=Battery(full, full, 0.0)
    )
    home = set(ROUTER.reached(query, search.posterior, CAR, (0.5,), back=True)[0].edges.tolist())
    energy = search.posterior.energy_wh(CAR)
    for goal in rng.choice(N, 60):
        out, back = way(search, start, int(goal)), way(search, int(goal), start)
        charge = least = full
        for edge in np.concatenate([out, back[1:]]):
            charge = min(charge - energy[edge], full)
            least = min(least, charge)
        assert (int(goal) in home) == (least >= 0) or abs(least) < 1e-6


def with_access(**codes: list[int]) -> Router:
    """The city with some edges closed, or open to those who begin or end there alone."""
    access = Access.everywhere(N, CITY.turns.shape[0])
    edges = access.cars.copy()
    for name, some in codes.items():
        edges[some] = {"closed": CLOSED, "ends": ENDS_ONLY}[name]
    return Router(changed(CITY, access=changed(access, cars=edges)))


def test_one_closed_destination_says_nothing_about_others() -> None:
    router = with_access(closed=[10])
    posterior = posterior_after(0)
    search = router.search(RouteQuery(start=0, goal=5, mode="best"), posterior, CAR)
    for goals in ([10, 400, 300], [400, 300, 10]):
        row = row_of(search, goals, "energy")
        assert np.isnan(row.energy_wh).tolist() == [goal == 10 for goal in goals]


def test_areas_of_their_own_are_reached_and_not_driven_through() -> None:
    posterior = posterior_after(0)
    inner = 40
    router = with_access(ends=[inner])
    search = router.search(RouteQuery(start=0, goal=5, mode="best"), posterior, CAR)
    row = row_of(search, list(range(N)), "energy")
    costs = np.maximum(posterior.cost_wh(CAR), 0.0)
    for goal in (*range(0, N, 37), inner):
        edges = search.permit.cheapest(costs, 0, goal)
        assert_allclose(row.energy_wh[goal], search.predicted(edges).mean_wh, rtol=1e-9)
    query = RouteQuery(start=0, goal=0, mode="best", closed=(), battery=Battery(1e5, 1e5))
    for back in (False, True):
        found = router.reached(query, posterior, CAR, (0.5,), back=back)[0]
        assert inner in found.edges


def test_closed_roads_are_not_reached() -> None:
    battery = Battery(1e5, 1e5)
    around = tuple(CITY.turns[CITY.turns[:, 0] == 0, 1].tolist())
    search = searching(0, 0)
    query = RouteQuery(start=0, goal=0, mode="best", closed=around, battery=battery)
    found = ROUTER.reached(query, search.posterior, CAR, (0.5,), back=False)[0]
    assert found.edges.tolist() == [0]
    with pytest.raises(ValueError, match="give one"):
        ROUTER.reached(RouteQuery(start=0, goal=0), search.posterior, CAR, (0.5,), back=False)


@settings(max_examples=20)
@given(seeds, st.integers(1, 200))
def test_areas_hold_their_roads_and_end_beside_them(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    middle = (CITY.junction_xy_m[CITY.from_junction] + CITY.junction_xy_m[CITY.to_junction]) / 2
    near = np.argsort(((middle - middle[rng.integers(N)]) ** 2).sum(axis=1))[:count]
    grid = AreaGrid(CITY, near)
    area = grid.area(near)
    ends = CITY.junction_xy_m[CITY.to_junction[near]]
    covered = np.zeros(len(ends), dtype=bool)
    for rings in area:
        for ring in rings:
            assert (ring[0] == ring[-1]).all()
        inside = Path(rings[0]).contains_points(ends)
        for hole in rings[1:]:
            inside &= ~Path(hole).contains_points(ends)
        covered |= inside
    assert covered.all()
    borders = np.concatenate([ring for rings in area for ring in rings])
    shapes = np.concatenate(
        [CITY.shape_xy_m[CITY.shape_start[e] : CITY.shape_start[e + 1]] for e in near]
    )
    low, high = shapes.min(axis=0) - 400, shapes.max(axis=0) + 400
    assert ((borders >= low) & (borders <= high)).all()
    assert grid.area(np.empty(0, dtype=np.intp)) == []


@settings(max_examples=15)
@given(seeds, st.integers(1, 3))
def test_places_on_the_way_are_passed_in_their_order(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    start, *via, goal = rng.choice(N, size=count + 2, replace=False).tolist()
    posterior = posterior_after(seed)
    query = RouteQuery(start=start, goal=goal, mode="best", via=tuple(via))
    answer = ROUTER.answer(query, posterior, CAR, MIND)
    costs = np.maximum(posterior.cost_wh(CAR), 0.0)
    legs = [
        ROUTER.permits.of(CAR.vehicle).cheapest(costs, a, b)
        for a, b in zip([start, *via], [*via, goal], strict=True)
    ]
    expected = sum(costs[leg].sum() for leg in legs) - costs[via].sum()
    assert_allclose(costs[answer.route.edges].sum(), expected, rtol=1e-9)
    assert ROUTER.permits.of(CAR.vehicle).network is CITY
    places = answer.route.edges.tolist()
    at = -1
    for edge in (start, *via, goal):
        at = places.index(edge, at + 1)
    assert at == len(places) - 1
    within = RouteQuery(start=start, goal=goal, mode="explore", via=tuple(via), max_extra_time=0.05)
    search = ROUTER.search(within, posterior, CAR)
    fast = ROUTER.answer(within, posterior, CAR, np.random.default_rng(seed)).route
    assert search.seconds[fast.edges].sum() <= search.limit_s


def test_a_place_on_the_way_that_cannot_be_reached_is_said() -> None:
    around = tuple(CITY.turns[CITY.turns[:, 1] == 7, 0].tolist())
    query = RouteQuery(start=0, goal=1, mode="best", closed=around, via=(7,))
    with pytest.raises(InfeasibleError, match="no open road leads"):
        ROUTER.answer(query, posterior_after(0), CAR, MIND)
