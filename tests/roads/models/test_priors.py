"""Mechanical energy as a potential, and physics that are calibrated and deviated from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import rngs
from superarm.oracles import Dijkstra, Paths
from superarm.roads.models import RoadBelief, RoadModel
from superarm.roads.models.costs import Factors
from superarm.roads.models.priors import ENERGY_SPREAD, Spread
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.physics import dissipation
from superarm.roads.physics.energy import potential_difference
from superarm.roads.physics.motion import kinetic_energy, mechanical_difference
from superarm.roads.vehicle import Vehicle

CITY = generate_city(3, 500).largest_component()
GRAVITY = 9.82


def route(start: int, goal: int, costs: Any = None) -> Any:
    paths = Paths.on_turns(CITY.n_edges, CITY.turns, start, goal)
    return Dijkstra().select(paths, -(CITY.length_m if costs is None else costs))


def drawn_route(rng: np.random.Generator) -> Any:
    start, goal = rng.choice(CITY.n_edges, size=2, replace=False)
    return route(int(start), int(goal), CITY.length_m * rng.uniform(0.5, 2, CITY.n_edges))


@given(rngs(), st.floats(0, 300))
@settings(max_examples=15)
def test_mechanical_energy_of_a_path_depends_on_its_ends_alone(
    rng: np.random.Generator, rotating: float
) -> None:
    vehicle, edges = Vehicle(rotating_mass_kg=rotating), drawn_route(rng)
    speeds = rng.uniform(0, 30, edges.size + 1)
    found = mechanical_difference(CITY, vehicle, edges, speeds)
    ends = CITY.junction_height_m[[CITY.to_junction[edges[-1]], CITY.from_junction[edges[0]]]]
    height = vehicle.mass_kg * GRAVITY * (ends[0] - ends[1]) / 3600 / 0.98
    motion = kinetic_energy(vehicle, speeds[-1]) - kinetic_energy(vehicle, speeds[0])
    assert_allclose(found.sum(), height + motion, atol=1e-9 * (1 + np.abs(found).sum()))


@given(rngs(), st.floats(0.1, 40))
@settings(max_examples=10)
def test_at_constant_speed_it_is_the_difference_of_heights(
    rng: np.random.Generator, speed: float
) -> None:
    edges = drawn_route(rng)
    found = mechanical_difference(CITY, Vehicle(), edges, np.full(edges.size + 1, speed))
    assert_allclose(found, potential_difference(CITY, Vehicle(), edges), atol=1e-9)
    assert_allclose(found, mechanical_difference(CITY, Vehicle(), edges), atol=1e-9)


@given(rngs(), st.floats(0.3, 1), st.floats(0.05, 1), st.floats(0, 500))
def test_dissipation_is_not_negative_whatever_the_speeds(
    rng: np.random.Generator, forward: float, back: float, auxiliary: float
) -> None:
    vehicle = Vehicle(
        powertrain_efficiency=forward,
        recuperation_efficiency=min(back, 1 / forward),
        rotating_mass_kg=40.0,
        auxiliary_power_w=auxiliary,
    )
    steps = 200
    speed = np.abs(np.cumsum(rng.normal(0, 1.5, steps + 1)))
    height = np.cumsum(rng.normal(0, 0.5, steps + 1))
    mass = vehicle.mass_kg + vehicle.rotating_mass_kg
    stored = 0.5 * mass * np.diff(speed**2) + vehicle.mass_kg * GRAVITY * np.diff(height)
    distance = (speed[1:] + speed[:-1]) / 2
    drag = 0.5 * 1.2 * vehicle.drag_coefficient * vehicle.front_area_m2 * distance**3
    losses = drag + vehicle.mass_kg * GRAVITY * vehicle.rolling_resistance * distance + auxiliary
    power = stored + losses
    battery = np.where(power > 0, power / forward, power * vehicle.recuperation_efficiency).sum()
    telescoped = stored.sum() / forward
    assert battery - telescoped >= losses.sum() - 1e-6 * np.abs(power).sum()


@given(rngs(), st.floats(0, 3), st.floats(0, 0.3))
@settings(max_examples=15)
def test_evidence_of_trips_is_a_dense_solve(
    rng: np.random.Generator, boundary: float, trip: float
) -> None:
    spread = Spread(**{**vars(ENERGY_SPREAD), "boundary": boundary, "trip": trip})
    model = RoadModel(CITY, spread=spread)
    drives = []
    total, pulled = np.zeros((CITY.n_edges,) * 2), np.zeros(CITY.n_edges)
    for _ in range(3):
        edges = drawn_route(rng)
        cost = model.physics[edges] + rng.standard_normal(edges.size)
        drives.append((edges, cost))
        between = np.diff(np.eye(edges.size), axis=0).T  # one side plus, the other minus
        noise = np.diag(model.noise_variance[edges]) + boundary**2 * between @ between.T
        noise += trip**2 * np.outer(model.physics[edges], model.physics[edges])
        which = np.eye(CITY.n_edges)[edges]
        solved = np.linalg.solve(noise, np.column_stack([which, -cost]))
        total += which.T @ solved[:, :-1]
        pulled += which.T @ solved[:, -1]
    found = model.evidence(drives)
    assert_allclose(found.precision.toarray(), total, rtol=1e-8, atol=1e-9)
    assert_allclose(found.weighted, pulled, rtol=1e-8, atol=1e-8)


def test_a_level_is_learned_for_roads_that_nobody_has_driven() -> None:
    rng, model = np.random.default_rng(1), RoadModel(CITY)
    drives = []
    for _ in range(40):
        edges = drawn_route(rng)
        drives.append((edges, 1.2 * model.physics[edges] + 1.5))
    driven = np.unique(np.concatenate([edges for edges, _ in drives]))
    others = np.setdiff1d(np.arange(CITY.n_edges), driven)
    belief = model.belief.condition_evidence(model.evidence(drives))
    expected = (1.2 * model.physics + 1.5)[others]
    off = np.abs(-belief.mean[others] - expected)
    assert off.mean() < 0.15 * np.abs(expected - model.physics[others]).mean()


@pytest.mark.parametrize("learned", [0, 15])
def test_intervals_of_whole_trips_cover(learned: int) -> None:
    rng, model = np.random.default_rng(2), RoadModel(CITY)
    prior = model.belief
    factor = np.linalg.cholesky(prior.matrix + 1e-9 * np.eye(CITY.n_edges))
    inside = count = 0
    for _ in range(12):
        truth = -prior.mean + factor @ rng.standard_normal(CITY.n_edges)

        def driven(edges: Any, truth: Any = truth) -> Any:
            own = np.sqrt(model.noise_variance[edges]) * rng.standard_normal(edges.size)
            moved = model.spreads.boundary * rng.standard_normal(edges.size - 1)
            shared = model.spreads.trip * rng.standard_normal() * model.physics[edges]
            return truth[edges] + own + shared + np.diff(moved, prepend=0, append=0)

        drives = [(edges, driven(edges)) for edges in (drawn_route(rng) for _ in range(learned))]
        belief = prior.condition_evidence(model.evidence(drives))
        for _ in range(25):
            edges = drawn_route(rng)
            off = driven(edges).sum() + belief.mean[edges].sum()
            inside += abs(off) < 1.645 * np.sqrt(sum(model.trip_variances(belief, edges)))
            count += 1
    # draws of one world are not independent: half of the trips, at worst
    assert abs(inside / count - 0.9) < 4 * np.sqrt(0.09 / (count / 8))


def test_times_are_learned_like_energies() -> None:
    model = RoadModel(CITY, target="time")
    edges = route(0, CITY.n_edges - 1)
    entered = np.concatenate([[100.0], 100 + np.cumsum(2 * model.physics[edges])])
    cost = model.measured(edges, np.zeros(edges.size), entered, None)
    assert_allclose(cost, 2 * model.physics[edges])
    assert_allclose(model.physics, CITY.length_m / CITY.speed_ms)
    belief = model.belief.condition_evidence(model.evidence([(edges, cost)] * 5))
    assert -belief.mean[edges].sum() > 1.5 * model.physics[edges].sum()


def test_physics_are_dissipation_with_braking_downhill_and_what_lights_take() -> None:
    assert_allclose(RoadModel(CITY).physics, dissipation(CITY, Vehicle(), "physical"))
    assert (RoadModel(CITY).physics >= dissipation(CITY, Vehicle()) - 1e-9).all()
    lit = RoadModel(CITY, Vehicle(auxiliary_power_w=1000.0)).physics
    assert_allclose(lit - RoadModel(CITY).physics, CITY.length_m / CITY.speed_ms * 1000 / 3600)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="target must be one of"):
        RoadModel(CITY, target="money")  # type: ignore[arg-type]
    good = vars(ENERGY_SPREAD)
    for wrong, told in (
        ({"share": 0.0}, "share must be positive"),
        ({"trip": -0.1}, "must not be negative"),
        ({"graph": 0.8, "alike": 0.8}, "parts of one"),
        ({"terms": (("weather", 1.0),)}, "no term 'weather'"),
    ):
        with pytest.raises(ValueError, match=told):
            Spread(**{**good, **wrong})
    with pytest.raises(ValueError, match="auxiliary_power_w"):
        Vehicle(auxiliary_power_w=-1.0)


@dataclass(frozen=True)
class Driven:
    """A drive, as a model reads it."""

    edges: Any
    energy_wh: Any
    entered_s: Any
    speed_ms: Any


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("true", [0.3, 1.0, 5.0])
def test_how_uncertain_trips_are_is_fitted(scale: float, true: float) -> None:
    rng = np.random.default_rng(0)
    roads, noise = rng.uniform(5, 300, 3000), rng.uniform(50, 200, 3000)
    off = np.sqrt(scale * (roads + true * noise)) * rng.standard_normal(3000)
    found = Factors.fitted(list(zip(off, roads, noise, strict=True)))
    z = off / np.sqrt([found.variance(*pair) for pair in zip(roads, noise, strict=True)])
    assert abs(np.log(found.scale / scale)) < 0.5
    assert abs(np.log(found.noise / true)) < 0.7
    assert abs((np.abs(z) < 1.645).mean() - 0.9) < 0.02


def test_few_or_wild_trips_do_not_spoil_the_factors() -> None:
    assert Factors.fitted([(1e9, 1.0, 1.0)] * 5) == Factors()  # too few to say
    rng = np.random.default_rng(0)
    usual = [(float(z), 0.5, 0.5) for z in rng.standard_normal(300)]
    wild = Factors.fitted([*usual, *[(50.0, 0.5, 0.5)] * 3])
    assert wild.variance(0.5, 0.5) < 2 * Factors.fitted(usual).variance(0.5, 0.5)


def test_learning_again_with_another_noise_is_learning_with_it_at_once() -> None:
    rng, model = np.random.default_rng(1), RoadModel(CITY)
    belief = RoadBelief.before(model)
    shown = np.arange(40)
    drives = []
    for _ in range(45):
        edges = rng.permutation(shown)[:20]
        energy = model.physics[edges] + 30 * rng.standard_normal(20)
        drives.append(Driven(edges, energy, np.arange(21.0), np.zeros(21)))
    flat = RoadModel(CITY, kinetic=False)
    belief = belief.after(drives[:20])
    assert belief.factors == Factors()
    belief = belief.after(drives[20:])
    assert belief.factors.noise > 3
    seen = [(one.edges, flat.measured_of(one)) for one in drives]
    evidence = model.evidence(seen).with_noise(belief.learned_noise)
    again = model.belief.condition_evidence(evidence)
    assert belief.after([]) is belief
    assert_allclose(belief.gp.mean, again.mean, atol=1e-6)
    assert_allclose(belief.gp.matrix, again.matrix, atol=1e-6)


def test_bends_add_up_along_a_circle() -> None:
    angle = np.linspace(0, np.pi, 40)
    points = 100 * np.column_stack([np.cos(angle), np.sin(angle)])
    network = RoadNetwork(
        name="arc",
        edge_ids=np.array(["straight", "arc"]),
        from_junction=np.array([0, 1]),
        to_junction=np.array([1, 0]),
        length_m=np.array([200.0, 314.0]),
        speed_ms=np.array([10.0, 10.0]),
        lanes=np.array([1, 1]),
        junction_ids=np.array(["a", "b"]),
        junction_xy_m=np.array([[-100.0, 0.0], [100.0, 0.0]]),
        junction_height_m=np.zeros(2),
        shape_xy_m=np.concatenate([[[-100.0, 0.0], [100.0, 0.0]], points]),
        shape_start=np.array([0, 2, 42]),
        turns=np.array([[0, 1], [1, 0]]),
        junction_light=np.array([True, False]),
    )
    assert_allclose(network.bend_rad, [0.0, np.pi * 38 / 39], atol=1e-9)
    assert network.take([1], "a test").junction_light.tolist() == [True, False]
