"""Energy, its split by height, and the navigation problem."""

import itertools
import tomllib
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

import small_networks
from parts import require_module, require_networks
from strategies import seeds
from superarm import InfeasibleError, cumulative_regret, play
from superarm.beliefs import StreamingGP
from superarm.oracles import BellmanFord, Dijkstra, Exhaustive, Paths
from superarm.roads.bandit import (
    METHODS,
    Closures,
    Congestion,
    NavigationProblem,
    crossing_routes,
    navigator,
)
from superarm.roads.models import EnergyModel
from superarm.roads.network import generate_city, read_sumo
from superarm.roads.physics import (
    deterministic_energy,
    dissipation,
    potential_difference,
    potential_energy,
)
from superarm.roads.vehicle import Vehicle

CITY = generate_city(0, 1000).largest_component()
ENDS = crossing_routes(CITY)["A"]
efficiencies = st.sampled_from(["paper", "physical"])
Efficiency = Literal["paper", "physical"]


@given(seeds)
def test_energy_is_the_papers_formula(seed: int) -> None:
    network = small_networks.random_network(seed)
    energy = deterministic_energy(network, Vehicle())
    for edge in range(network.n_edges):
        length, speed = network.length_m[edge], network.speed_ms[edge]
        climb = network.climb_m[edge]
        run = max(length, network.junction_distance_m[edge])
        angle = np.arcsin(np.clip(climb / run, -1, 1))
        expected = (
            1830 * 9.82 * climb
            + 1830 * 9.82 * 0.01 * length * np.cos(angle)
            + 0.5 * 0.35 * 2.6 * 1.2 * length * speed**2
        ) / (3600 * 0.98)
        assert_allclose(energy[edge], expected, rtol=1e-12)


@given(seeds)
def test_physical_efficiency_differs_where_braking_only(seed: int) -> None:
    network = small_networks.random_network(seed)
    paper = deterministic_energy(network, Vehicle(), "paper")
    physical = deterministic_energy(network, Vehicle(), "physical")
    up = paper > 0
    assert_allclose(physical[up], paper[up])
    assert_allclose(physical[~up], paper[~up] * 0.98 * 0.96)


@given(seeds, efficiencies)
def test_dissipation_is_never_negative(seed: int, efficiency: Efficiency) -> None:
    assert (dissipation(small_networks.random_network(seed), Vehicle(), efficiency) >= 0).all()


@given(seeds, efficiencies)
def test_along_any_path_energy_and_dissipation_differ_by_the_end_points(
    seed: int, efficiency: Efficiency
) -> None:
    network = small_networks.random_network(seed)
    rng = np.random.default_rng(seed)
    path = [int(rng.integers(network.n_edges))]
    for _ in range(8):
        following = network.turns[network.turns[:, 0] == path[-1], 1]
        if following.size:
            path.append(int(rng.choice(following)))
    energy = deterministic_energy(network, Vehicle(), efficiency)[path].sum()
    lost = dissipation(network, Vehicle(), efficiency)[path].sum()
    potential = potential_energy(network, Vehicle())
    ends = potential[network.to_junction[path[-1]]] - potential[network.from_junction[path[0]]]
    assert_allclose(energy - lost, ends, atol=1e-9)


@given(seeds, efficiencies)
def test_the_best_route_by_dissipation_is_the_best_by_energy(
    seed: int, efficiency: Efficiency
) -> None:
    """Dijkstra on dissipation finds what Bellman-Ford finds on energies with regeneration."""
    network = small_networks.random_network(seed)
    try:
        routes = Paths.on_turns(network.n_edges, network.turns, 0, 1)
    except InfeasibleError:
        return
    energy = deterministic_energy(network, Vehicle(), efficiency)
    by_energy = BellmanFord().select(routes, -energy)
    lost = np.maximum(dissipation(network, Vehicle(), efficiency), 0)
    by_dissipation = Dijkstra().select(routes, -lost)
    assert_allclose(energy[by_energy].sum(), energy[by_dissipation].sum(), atol=1e-8)


@pytest.mark.parametrize("bad", [{"mass_kg": 0.0}, {"drag_coefficient": -1.0}, {"gravity": np.nan}])
def test_impossible_vehicles_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Vehicle(**bad)
    with pytest.raises(ValueError, match="powertrain_efficiency must not exceed 1"):
        Vehicle(powertrain_efficiency=1.2)
    wrong: Any = "magic"
    with pytest.raises(ValueError, match="efficiency must be one of"):
        deterministic_energy(CITY, Vehicle(), wrong)


def test_features_are_standardised_over_the_network() -> None:
    assert_allclose(CITY.contexts.mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(CITY.contexts.std(axis=0), 1.0)
    mean, spread = CITY.feature_scale
    assert_allclose(CITY.contexts * spread + mean, CITY.features)


def test_the_prior_has_the_stated_spreads() -> None:
    model = EnergyModel(CITY)
    spread = deterministic_energy(CITY, Vehicle()).std()
    assert_allclose(model.kernel.diagonal(model.arms).mean(), (0.25 * spread) ** 2)
    assert_allclose(model.noise_std_wh, 0.1 * spread)
    gp, independent = model.gp.posterior(model.arms), model.independent.posterior(model.arms)
    assert_allclose(gp.mean, -model.prior_energy_wh)
    assert_allclose(gp.mean, independent.mean)
    assert_allclose(gp.std, independent.std)


@pytest.mark.slow
def test_true_energies_have_the_prior_spread() -> None:
    model = EnergyModel(CITY)
    rng = np.random.default_rng(0)
    gaps = np.array([model.draw_truth_wh("gp", rng) - model.prior_energy_wh for _ in range(300)])
    variance = model.gp.prior.variance
    assert_allclose((gaps**2).mean() / variance.mean(), 1.0, atol=0.15)
    climb = potential_difference(CITY, Vehicle())
    ratios = np.array(
        [
            (model.draw_truth_wh("positive", rng) - climb) / (model.prior_energy_wh - climb)
            for _ in range(300)
        ]
    )
    assert (ratios > 0).all()
    assert_allclose(ratios.mean(), 1.0, atol=0.05)


@given(seeds, st.sampled_from(["energy", "dissipation"]))
def test_rewards_costs_and_energies_fit_together(seed: int, rectify: Any) -> None:
    problem = NavigationProblem(
        CITY, *ENDS, rng=np.random.default_rng(seed), rectify=rectify, truth="positive"
    )
    rng = np.random.default_rng(seed)
    available = problem.observe(1, rng)
    route = Dijkstra().select(available.feasible, problem.expected_rewards(available.arms))
    energy = problem.energy_wh(available.arms)
    assert_allclose(problem.route_energy_wh(available, route), energy[route].sum())
    cost = problem.cost_wh(available.arms)
    height = potential_difference(CITY, Vehicle())
    assert_allclose(energy - cost, height if rectify == "dissipation" else 0.0, atol=1e-9)
    draws = np.array([problem.pull(available, route, rng) for _ in range(400)])
    error = 6 * problem.noise_std_wh / 20
    assert np.abs(draws.mean(axis=0) + cost[route]).max() <= error
    edge = int(rng.integers(CITY.n_edges))
    expected, _ = quad(
        lambda x: norm.sf(x, cost[edge], problem.noise_std_wh),
        0,
        max(cost[edge], 0) + 12 * problem.noise_std_wh,
    )
    assert_allclose(-problem.expected_rewards(available.arms)[edge], expected, rtol=1e-6)


def test_dissipation_keeps_regeneration_that_energy_throws_away() -> None:
    """With the truth known and positive, the route by dissipation is the best there is."""
    rng = np.random.default_rng(1)
    worse = 0
    for _ in range(20):
        seed = int(rng.integers(10**6))
        ends = CITY.edge_ids[rng.choice(CITY.n_edges, 2, replace=False)].tolist()
        found = {}
        for rectify in ("energy", "dissipation"):
            options: Any = {"rectify": rectify, "truth": "positive"}
            problem = NavigationProblem(CITY, *ends, rng=np.random.default_rng(seed), **options)
            now = problem.observe(1, rng)
            route = Dijkstra().select(now.feasible, -np.maximum(problem.cost_wh(now.arms), 0))
            found[rectify] = problem.route_energy_wh(now, route)
            best = BellmanFord().select(now.feasible, -problem.energy_wh(now.arms))
            found["best"] = problem.route_energy_wh(now, best)
        assert_allclose(found["dissipation"], found["best"], atol=1e-6)
        assert found["energy"] >= found["best"] - 1e-6
        worse += found["energy"] > found["best"] + 1e-6
    assert worse > 0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_drives_and_its_regret_is_not_negative(method: str) -> None:
    problem = NavigationProblem(CITY, *ENDS, rng=np.random.default_rng(0))
    streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    steps = [step for step, _ in play(problem, navigator(problem, method), 8, **streams)]
    regret = np.diff(cumulative_regret(steps, problem, Dijkstra()), prepend=0.0)
    assert (regret >= -1e-9).all()
    for step in steps:
        assert step.super_arm[0] == problem.start
        assert step.super_arm[-1] == problem.goal


@pytest.mark.slow
def test_gp_thompson_sampling_learns_the_route() -> None:
    problem = NavigationProblem(
        CITY, *ENDS, rng=np.random.default_rng(0), truth="positive", rectify="dissipation"
    )
    streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    steps = [step for step, _ in play(problem, navigator(problem, "GP-TS"), 60, **streams)]
    regret = np.diff(cumulative_regret(steps, problem, Dijkstra()), prepend=0.0)
    assert regret[-15:].mean() < 0.25 * regret[:5].mean()


@pytest.mark.parametrize("what", ["turns", "edges"])
def test_closures_change_what_is_open_and_the_optimum_follows(what: Any) -> None:
    closures = Closures(0.03, what)
    problem = NavigationProblem(CITY, *ENDS, rng=np.random.default_rng(0), closures=closures)
    rng = np.random.default_rng(0)
    open_turns = set()
    for t in range(1, 6):
        available = problem.observe(t, rng)
        open_turns.add(available.feasible.arcs.shape[0])
        assert available.feasible.arcs.shape[0] < problem.routes.arcs.shape[0]
        best = Dijkstra().select(available.feasible, problem.expected_rewards(available.arms))
        assert available.feasible.contains(best)
    assert len(open_turns) > 1


def test_closures_that_cut_everything_off_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\)"):
        Closures(1.0)
    odd: Any = "bridges"
    with pytest.raises(ValueError, match="what must be 'turns' or 'edges'"):
        Closures(0.1, odd)
    network = small_networks.random_network(3)
    routes = Paths.on_turns(network.n_edges, network.turns, 0, 1)
    with pytest.raises(InfeasibleError, match="cut the route off"):
        Closures(0.999).apply(routes, np.random.default_rng(0))


def test_congestion_is_smooth_standardised_and_known() -> None:
    congestion = Congestion.drawn(CITY, np.random.default_rng(0))
    day = np.array([congestion.levels(t) for t in range(1, 49)])
    assert_allclose(day.mean(), 0.0, atol=0.05)
    assert_allclose(day.std(), 1.0, atol=0.05)
    assert_allclose(congestion.levels(49), congestion.levels(1))
    assert np.abs(np.diff(day, axis=0)).max() < 0.5 * np.ptp(day)
    assert_array_equal(congestion.levels(5), congestion.levels(5))


def test_with_congestion_the_truth_is_one_function_of_edge_and_context() -> None:
    problem = NavigationProblem(CITY, *ENDS, rng=np.random.default_rng(0), congestion=True)
    morning, again, night = problem.arms(16), problem.arms(16 + 48), problem.arms(2)
    assert_allclose(problem.energy_wh(morning), problem.energy_wh(again))
    assert np.abs(problem.energy_wh(morning) - problem.energy_wh(night)).max() > 0
    assert isinstance(navigator(problem, "GP-TS").belief, StreamingGP)


@pytest.mark.slow
def test_the_streaming_belief_learns_congestion_where_independent_edges_cannot() -> None:
    regret = {}
    for method in ("GP-TS", "BI-TS"):
        total = 0.0
        for seed in range(2):
            problem = NavigationProblem(
                CITY, *ENDS, rng=np.random.default_rng(seed), congestion=True
            )
            streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
            steps = [s for s, _ in play(problem, navigator(problem, method), 96, **streams)]
            curve = cumulative_regret(steps, problem, Dijkstra())
            total += float(curve[-1] - curve[47])  # the second day
        regret[method] = total
    assert regret["GP-TS"] < regret["BI-TS"]


def test_bad_problems_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="has no edge 'nowhere'; the closest ids are"):
        NavigationProblem(CITY, "nowhere", ENDS[1], rng=rng)
    whole = generate_city(0, 1000)
    outside = np.setdiff1d(whole.edge_ids, CITY.edge_ids)
    lonely = str(outside[0])  # cannot be reached, or cannot be left
    with pytest.raises(InfeasibleError, match=r"closest to start \['"):
        [
            NavigationProblem(whole, *ends, rng=rng)
            for ends in ((lonely, ENDS[0]), (ENDS[0], lonely))
        ]
    wrong: Any = "hope"
    with pytest.raises(ValueError, match="truth must be one of"):
        NavigationProblem(CITY, *ENDS, rng=rng, truth=wrong)
    with pytest.raises(ValueError, match="rectify must be one of"):
        NavigationProblem(CITY, *ENDS, rng=rng, rectify=wrong)
    with pytest.raises(ValueError, match="lengthscale must be positive"):
        NavigationProblem(CITY, *ENDS, rng=rng, lengthscale=0.0)
    with pytest.raises(ValueError, match="truth='gp'"):
        NavigationProblem(CITY, *ENDS, rng=rng, congestion=True, truth="positive")
    with pytest.raises(ValueError, match="another network"):
        NavigationProblem(CITY, *ENDS, rng=rng, model=EnergyModel(whole))
    problem = NavigationProblem(CITY, *ENDS, rng=rng)
    with pytest.raises(ValueError, match="no method 'GP-XYZ'"):
        navigator(problem, "GP-XYZ")


def test_a_small_network_is_searched_as_enumeration_does() -> None:
    network = small_networks.random_network(5, n_junctions=5, n_edges=9)
    for start, goal in itertools.permutations(range(4), 2):
        try:
            routes = Paths.on_turns(9, network.turns, start, goal)
        except InfeasibleError:
            continue
        lost = -dissipation(network, Vehicle())
        left, right = Dijkstra().select(routes, lost), Exhaustive().select(routes, lost)
        assert_allclose(lost[left].sum(), lost[right].sum())


@pytest.mark.parametrize("city", ["luxembourg", "monaco"])
def test_prior_optimal_routes_of_the_real_networks_have_the_known_number_of_edges(
    city: str,
) -> None:
    require_module("sumolib", "sumo")
    folder = require_networks()
    routes = tomllib.loads((folder / "routes.toml").read_text())[city]["routes"]
    network = read_sumo(folder / f"{city}.net.xml.gz").largest_component()
    energy = deterministic_energy(network, Vehicle())
    for route in routes.values():
        ends = network.position(route["start"]), network.position(route["end"])
        paths = Paths.on_turns(network.n_edges, network.turns, *ends)
        assert BellmanFord().select(paths, -energy).size == route["k_raw"]
        lost = -np.maximum(dissipation(network, Vehicle()), 0.0)
        assert_allclose(
            energy[Dijkstra().select(paths, lost)].sum(),
            energy[BellmanFord().select(paths, -energy)].sum(),
            rtol=1e-9,
        )
