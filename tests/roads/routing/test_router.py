"""Routes, predictions and batteries, against enumeration, dense sums and closed forms."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from parts import require_module
from services import small_city
from strategies import finite, seeds
from superarm import InfeasibleError
from superarm.oracles import Dijkstra, Paths

require_module("fastapi", "service")

from superarm.roads.battery import Battery  # noqa: E402
from superarm.roads.models.fleet import Fleet  # noqa: E402
from superarm.roads.models.intervals import INTERVAL  # noqa: E402
from superarm.roads.models.posterior import RoadPosterior  # noqa: E402
from superarm.roads.routing.arrival import probability_of_arrival  # noqa: E402
from superarm.roads.routing.query import RouteQuery  # noqa: E402
from superarm.roads.routing.router import MOST_OF_FRONT, MOST_SHARED, Router  # noqa: E402
from superarm.roads.routing.search import LEAST_PROBABILITY  # noqa: E402
from superarm.roads.vehicle import CLASSES  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
ROUTER = Router(CITY)
PRIOR = FLEET.prior()
N = CITY.n_edges


def posterior_after(seed: int, trips: int = 30) -> RoadPosterior:
    """What is believed after some random edges were measured."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(N, size=8 * trips)
    rewards = 0.4 * rng.standard_normal(edges.size)
    belief = PRIOR.condition(FLEET.arms.take(edges), rewards)
    counts = np.bincount(edges, minlength=N).astype(float)
    return RoadPosterior.of(FLEET, belief, counts, trips=trips)


def wishes(seed: int) -> RouteQuery:
    start, goal = np.random.default_rng(seed).choice(N, size=2, replace=False)
    return RouteQuery(start=int(start), goal=int(goal))


@settings(max_examples=25)
@given(seeds, st.sampled_from(list(CLASSES)))
def test_the_best_route_has_the_least_expected_dissipation(seed: int, name: str) -> None:
    posterior, drivetrain = posterior_after(seed), FLEET.drivetrain(CLASSES[name])
    query = RouteQuery(start=wishes(seed).start, goal=wishes(seed).goal, mode="best")
    answer = ROUTER.answer(query, posterior, drivetrain, np.random.default_rng(0))
    costs = np.maximum(posterior.cost_wh(drivetrain), 0)
    paths = Paths.on_turns(N, CITY.turns, query.start, query.goal)
    expected = Dijkstra().select(paths, -costs)
    assert paths.contains(answer.route.edges)
    assert_allclose(costs[answer.route.edges].sum(), costs[expected].sum(), rtol=1e-12)
    assert answer.exploration_wh == 0.0
    assert answer.fallback is None


@settings(max_examples=25)
@given(seeds, st.sampled_from(list(CLASSES)))
def test_predictions_use_the_joint_covariance_and_the_noise(seed: int, name: str) -> None:
    posterior, drivetrain = posterior_after(seed), FLEET.drivetrain(CLASSES[name])
    answer = ROUTER.answer(wishes(seed), posterior, drivetrain, np.random.default_rng(seed))
    edges = answer.route.edges
    belief: Any = posterior.belief
    cost = drivetrain.cost_wh - drivetrain.weights_wh * belief.mean[:N]
    energy = cost + drivetrain.potential_wh
    # what the whole trip has in common is in proportion to the larger of energy and dissipation
    whole = abs(cost[edges].sum()) >= abs(energy[edges].sum())
    shared = cost if whole else energy
    for end in range(1, edges.size + 1):
        some = edges[:end]
        weights = drivetrain.weights_wh[some]
        variance = weights @ belief.matrix[np.ix_(some, some)] @ weights
        variance += drivetrain.noise_variance[some].sum()
        variance += (posterior.spread * shared[some].sum()) ** 2
        assert_allclose(answer.route.profile_std_wh[end - 1], np.sqrt(variance), rtol=1e-9)
        mean = energy[some].sum()
        assert_allclose(answer.route.profile_mean_wh[end - 1], mean, rtol=1e-9, atol=1e-9)
    assert answer.route.mean_wh == answer.route.profile_mean_wh[-1]
    low, high = answer.route.interval_wh
    assert_allclose(high - low, 2 * 1.6448536 * answer.route.std_wh, rtol=1e-6)
    assert_allclose(high + low, 2 * answer.route.mean_wh, rtol=1e-6, atol=1e-6)


@settings(max_examples=25)
@given(seed=seeds, pieces=st.integers(1, 12))
def test_stretches_of_a_long_route_are_predicted_as_its_edges_are(seed: int, pieces: int) -> None:
    posterior, drivetrain = posterior_after(seed), FLEET.drivetrain(CLASSES["car"])
    route = ROUTER.answer(wishes(seed), posterior, drivetrain, np.random.default_rng(seed)).route
    edges = route.edges
    starts = np.unique(np.linspace(0, edges.size, min(pieces, edges.size) + 1).astype(np.intp))
    mean, covariance = posterior.along(edges, drivetrain)
    few, joint = posterior.along(edges, drivetrain, starts)
    sums = np.add.reduceat(np.eye(edges.size), starts[:-1], axis=0)
    assert_allclose(few, sums @ mean, rtol=1e-9, atol=1e-9)
    # what all of a trip has in common is in proportion to sums of one sign, or of edges
    assert_allclose(joint, sums @ covariance @ sums.T, rtol=1e-8, atol=1e-8)


def test_a_route_of_very_many_edges_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, drivetrain = posterior_after(3), FLEET.drivetrain(CLASSES["car"])
    whole = ROUTER.answer(wishes(3), posterior, drivetrain, np.random.default_rng(3)).route
    monkeypatch.setattr("superarm.roads.routing.search.MOST_SINGLE", 4)
    cut = ROUTER.answer(wishes(3), posterior, drivetrain, np.random.default_rng(3)).route
    assert cut.edges.size > 4
    assert_array_equal(cut.edges, whole.edges)
    assert_allclose(cut.mean_wh, whole.mean_wh)
    assert_allclose(cut.std_wh, whole.std_wh)
    assert_allclose(cut.profile_mean_wh, whole.profile_mean_wh)
    assert cut.profile_std_wh.shape == whole.profile_std_wh.shape


def test_the_interval_holds_nine_of_ten_draws_of_the_posterior() -> None:
    posterior, drivetrain = posterior_after(4), FLEET.drivetrain(CLASSES["truck"])
    route = ROUTER.answer(wishes(4), posterior, drivetrain, np.random.default_rng(0)).route
    mean, covariance = posterior.along(route.edges, drivetrain)
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, size=20_000).sum(axis=1)
    low, high = route.interval_wh
    assert abs(((draws >= low) & (draws <= high)).mean() - 0.9) < 0.01
    assert_allclose(norm.cdf(INTERVAL), 0.95, atol=1e-12)


@settings(max_examples=30)
@given(seeds, finite(0.0, 0.3), st.sampled_from(["explore", "optimistic"]), finite(0.3, 3.0))
def test_exploring_keeps_to_its_limits(seed: int, extra: float, mode: Any, charge: float) -> None:
    posterior, drivetrain = posterior_after(seed % 50), FLEET.drivetrain(CLASSES["car"])
    plain = wishes(seed)
    best = ROUTER.answer(
        RouteQuery(start=plain.start, goal=plain.goal, mode="best"),
        posterior,
        drivetrain,
        np.random.default_rng(0),
    )
    battery = Battery(max(charge * best.route.mean_wh, 50.0), 20_000.0, 20.0)
    query = RouteQuery(
        start=plain.start,
        goal=plain.goal,
        mode=mode,
        closed=(),
        battery=battery,
        alternatives=0,
        max_extra_energy=extra,
    )
    answer = ROUTER.answer(query, posterior, drivetrain, np.random.default_rng(seed))
    assert answer.route.mean_wh <= answer.best.mean_wh + extra * abs(answer.best.mean_wh) + 1e-9
    assert answer.route.arrival is not None
    if not np.array_equal(answer.route.edges, answer.best.edges):
        assert answer.route.arrival >= LEAST_PROBABILITY
    assert (answer.fallback is None) == (answer.boldness == 1.0)


def test_exploring_is_as_bold_as_its_limits_allow() -> None:
    """Where the drawn route is too dear, a blend still leaves the best one now and then."""
    posterior, drivetrain = posterior_after(7), FLEET.drivetrain(CLASSES["car"])
    cut = other = 0
    for seed in range(60):
        plain = wishes(seed)
        query = RouteQuery(
            start=plain.start,
            goal=plain.goal,
            mode="optimistic",
            closed=(),
            battery=None,
            alternatives=0,
            max_extra_energy=0.05,
        )
        answer = ROUTER.answer(query, posterior, drivetrain, np.random.default_rng(seed))
        if answer.fallback is not None:
            cut += 1
            other += not np.array_equal(answer.route.edges, answer.best.edges)
            assert 0 <= answer.boldness < 1
    assert cut > 0
    assert other > 0


@settings(max_examples=25, deadline=None)
@given(seeds, finite(0.0, 0.5), st.sampled_from(["explore", "optimistic", "best"]))
def test_no_route_is_slower_than_asked_for(seed: int, extra: float, mode: Any) -> None:
    posterior, drivetrain = posterior_after(seed % 50), FLEET.drivetrain(CLASSES["car"])
    plain = wishes(seed)
    query = RouteQuery(
        start=plain.start,
        goal=plain.goal,
        mode=mode,
        closed=(),
        battery=None,
        alternatives=2,
        max_extra_energy=1.0,
        max_extra_time=extra,
    )
    answer = ROUTER.answer(query, posterior, drivetrain, np.random.default_rng(seed))
    seconds = posterior.times.seconds(1)
    paths = Paths.on_turns(N, CITY.turns, query.start, query.goal)
    fastest = seconds[Dijkstra().select(paths, -seconds)].sum()
    for route in (answer.route, answer.best, *answer.alternatives):
        assert route.mean_s <= (1 + extra) * fastest * (1 + 1e-6)
    # the best is the thriftiest of all that are fast enough: of the exact front
    costs = np.maximum(posterior.cost_wh(drivetrain), 0)
    permit = ROUTER.permits.of(drivetrain.vehicle)
    front = permit.front(seconds, costs, query.start, query.goal)
    allowed = [one.second for one in front if one.first <= (1 + extra) * fastest * (1 + 1e-9)]
    assert_allclose(costs[answer.best.edges].sum(), min(allowed), rtol=1e-9, atol=1e-9)


def test_the_dearer_minutes_are_the_faster_routes_become() -> None:
    posterior, drivetrain = posterior_after(3), FLEET.drivetrain(CLASSES["car"])
    for seed in range(10):
        plain = wishes(seed)
        times, energies = [], []
        for value in (0.0, 5.0, 50.0, 1e5):
            query = RouteQuery(start=plain.start, goal=plain.goal, mode="best", wh_per_minute=value)
            best = ROUTER.answer(query, posterior, drivetrain, np.random.default_rng(0)).best
            times.append(best.mean_s)
            energies.append(best.mean_wh)
        assert (np.diff(times) <= 1e-6).all()
        assert (np.diff(energies) >= -1e-6).all()


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_front_lies_between_the_fastest_and_the_thriftiest(seed: int) -> None:
    posterior, drivetrain = posterior_after(seed % 50), FLEET.drivetrain(CLASSES["car"])
    query = RouteQuery(start=wishes(seed).start, goal=wishes(seed).goal, mode="best")
    routes, share = ROUTER.front(query, posterior, drivetrain)
    assert 1 <= len(routes) <= MOST_OF_FRONT
    seconds, costs = posterior.times.seconds(1), np.maximum(posterior.cost_wh(drivetrain), 0)
    permit = ROUTER.permits.of(drivetrain.vehicle)
    every = permit.front(seconds, costs, query.start, query.goal)
    mine = np.array([[seconds[one.edges].sum(), costs[one.edges].sum()] for one in routes])
    assert (np.diff(mine[:, 0]) > 0).all()
    assert (np.diff(mine[:, 1]) < 0).all()
    for one in every:
        worse = np.maximum(mine[:, 0] / one.first, mine[:, 1] / max(one.second, 1e-12)).min() - 1
        assert worse <= share + 1e-9
    if len(every) <= MOST_OF_FRONT:
        assert share == 0.0


def test_exploring_does_explore_and_says_when_it_may_not() -> None:
    posterior, drivetrain = posterior_after(7), FLEET.drivetrain(CLASSES["car"])
    rng = np.random.default_rng(0)
    found, fallbacks = set(), 0
    for seed in range(40):
        plain = wishes(seed)
        bold = RouteQuery(
            start=plain.start,
            goal=plain.goal,
            mode="explore",
            closed=(),
            battery=None,
            alternatives=0,
            max_extra_energy=1.0,
        )
        shy = RouteQuery(
            start=plain.start,
            goal=plain.goal,
            mode="explore",
            closed=(),
            battery=None,
            alternatives=0,
            max_extra_energy=0.0,
        )
        found.add(ROUTER.answer(bold, posterior, drivetrain, rng).exploration_wh > 0)
        fallbacks += ROUTER.answer(shy, posterior, drivetrain, rng).fallback is not None
    assert found == {True, False}
    assert fallbacks > 0


@settings(max_examples=30)
@given(seeds)
def test_alternatives_differ_and_do_not_cost_much_more(seed: int) -> None:
    posterior, drivetrain = posterior_after(seed % 20), FLEET.drivetrain(CLASSES["car"])
    plain = wishes(seed)
    query = RouteQuery(
        start=plain.start, goal=plain.goal, mode="best", closed=(), battery=None, alternatives=3
    )
    answer = ROUTER.answer(query, posterior, drivetrain, np.random.default_rng(0))
    routes = [answer.route, *answer.alternatives]
    assert len(routes) <= 4
    for one, other in itertools.combinations(routes, 2):
        shared = CITY.length_m[np.intersect1d(one.edges, other.edges)].sum()
        assert shared < MOST_SHARED * CITY.length_m[other.edges].sum()  # the later one
    for other in answer.alternatives:
        assert other.mean_wh <= answer.best.mean_wh + 0.2 * abs(answer.best.mean_wh) + 1e-9
        paths = Paths.on_turns(N, CITY.turns, query.start, query.goal)
        assert paths.contains(other.edges)


def test_alternatives_are_found_where_there_are_some() -> None:
    posterior, drivetrain = posterior_after(1), FLEET.drivetrain(CLASSES["car"])
    counts = []
    for seed in range(20):
        plain = wishes(seed)
        query = RouteQuery(
            start=plain.start, goal=plain.goal, mode="best", closed=(), battery=None, alternatives=3
        )
        counts.append(len(ROUTER.answer(query, posterior, drivetrain, None).alternatives))  # type: ignore[arg-type]
    assert np.mean(counts) > 0.5


def test_closed_edges_are_avoided_and_dead_ends_are_named() -> None:
    posterior, drivetrain = posterior_after(1), FLEET.drivetrain(CLASSES["car"])
    rng = np.random.default_rng(0)
    plain = wishes(5)
    first = ROUTER.answer(
        RouteQuery(start=plain.start, goal=plain.goal, mode="best"), posterior, drivetrain, rng
    ).route
    middle = int(first.edges[first.edges.size // 2])
    other = RouteQuery(start=plain.start, goal=plain.goal, mode="best", closed=(middle,))
    assert middle not in ROUTER.answer(other, posterior, drivetrain, rng).route.edges
    around = set(CITY.turns[CITY.turns[:, 1] == plain.goal, 0].tolist())
    with pytest.raises(InfeasibleError, match="no open road leads from edge"):
        ROUTER.answer(
            RouteQuery(start=plain.start, goal=plain.goal, mode="best", closed=tuple(around)),
            posterior,
            drivetrain,
            rng,
        )


def test_a_route_to_where_one_is_has_one_edge() -> None:
    posterior, drivetrain = posterior_after(1), FLEET.drivetrain(CLASSES["car"])
    answer = ROUTER.answer(
        RouteQuery(start=3, goal=3), posterior, drivetrain, np.random.default_rng(0)
    )
    assert answer.route.edges.tolist() == [3]


# ---- batteries


@given(finite(-500, 500), finite(1, 200), finite(0, 400), finite(0, 100))
def test_one_edge_has_a_closed_form(mean: float, std: float, charge: float, reserve: float) -> None:
    battery = Battery(charge, 1000.0, reserve)
    found = probability_of_arrival(battery, np.array([mean]), np.array([[std**2]]))
    expected = 0.0 if charge < reserve else norm.cdf((charge - reserve - mean) / std)
    assert abs(found - expected) < 0.005


@settings(max_examples=20)
@given(seeds, st.integers(2, 60))
def test_joint_prefix_sums_are_what_simulation_says(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size)) * 5
    mean, covariance = rng.uniform(-20, 40, size), root @ root.T + np.eye(size)
    battery = Battery(max(mean.sum(), 0) + 20 * np.sqrt(size), mean.sum() + 60 * size, 10.0)
    found = probability_of_arrival(battery, mean, covariance)
    charge, lasting = np.full(20_000, battery.charge_wh), np.ones(20_000, dtype=bool)
    for energy in rng.multivariate_normal(mean, covariance, 20_000, method="cholesky").T:
        charge = np.minimum(charge - energy, battery.capacity_wh)
        lasting &= charge >= battery.reserve_wh
    assert abs(found - lasting.mean()) < 0.025


def test_what_a_full_battery_cannot_take_is_lost() -> None:
    mean, nothing = np.array([-100.0, 100.0]), np.full((2, 2), 1e-12) + 1e-12 * np.eye(2)
    full = Battery(50.0, 50.0, 0.0)
    assert probability_of_arrival(full, mean, nothing) == 0.0  # 50 -> 50 (full) -> -50
    assert probability_of_arrival(Battery(50.0, 150.0), mean, nothing) == 1.0
    assert probability_of_arrival(Battery(5.0, 50.0, 6.0), mean, nothing) == 0.0
