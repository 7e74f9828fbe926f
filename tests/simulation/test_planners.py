"""Planners of simulated fleets: what they expect before and after drives, without a simulator."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from superarm.oracles import Dijkstra, Paths
from superarm.roads.models import RoadModel
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.physics.motion import mechanical_difference
from superarm.roads.vehicle import Vehicle
from superarm.simulation import Drive, Trip, planner
from superarm.simulation.planners import LIMITED, Learned, WithAuxiliaries

HEATED = replace(Vehicle(), auxiliary_power_w=2000.0)


def city() -> RoadNetwork:
    return generate_city(3, 500).largest_component()


def slow_drive(roads: RoadNetwork, slowness: float) -> Drive:
    """A drive as physics have it, but so many times as long, with the heating on."""
    bare = RoadModel(roads, replace(HEATED, auxiliary_power_w=0.0))
    graph = Paths.on_turns(roads.n_edges, roads.turns, 0, roads.n_edges // 2)
    edges = np.asarray(Dijkstra().select(graph, -bare.physics), dtype=np.intp)
    seconds = slowness * bare.free_flow_s[edges]
    entered, speeds = np.append(0.0, np.cumsum(seconds)), np.zeros(edges.size + 1)
    height = mechanical_difference(roads, HEATED, edges, speeds)
    energy = bare.physics[edges] + height + HEATED.auxiliary_power_w / 3600 * seconds
    trip = Trip("one", int(edges[0]), int(edges[-1]), 0.0)
    return Drive(trip=trip, edges=edges, energy_wh=energy, entered_s=entered, speed_ms=speeds)


def test_before_the_first_drive_auxiliaries_run_for_the_free_flow_time() -> None:
    roads = city()
    chosen = planner("GP-mean", roads, HEATED, np.random.default_rng(0))
    costs = chosen.costs.of(chosen.rng, 0.0)
    assert_allclose(costs, RoadModel(roads, HEATED).physics, rtol=1e-9)


def test_a_queue_is_learned_as_time_not_as_driving() -> None:
    roads = city()
    drive = slow_drive(roads, slowness=2.0)
    chosen = planner("GP-mean", roads, HEATED, np.random.default_rng(0))
    assert isinstance(chosen.costs, WithAuxiliaries)
    before = chosen.costs.driving.belief.mean
    for _ in range(20):
        chosen.arrived(drive)
    chosen.night()
    # what was driven was as expected, so that nothing is learned of it
    assert_allclose(chosen.costs.driving.belief.mean, before, atol=1e-6 * before.max())
    used, predicted = float(drive.energy_wh.sum()), chosen.costs.predicted(drive.edges, 0.0)[0]
    height = float(mechanical_difference(roads, HEATED, drive.edges).sum())
    assert abs(predicted + height - used) < 0.1 * used
    heating = HEATED.auxiliary_power_w / 3600 * drive.total_s
    assert heating > 0.2 * used  # it matters


def test_other_parts_of_the_day_do_not_wait_in_its_queues() -> None:
    roads = city()
    drive = slow_drive(roads, slowness=2.0)
    chosen = planner("GP-mean", roads, HEATED, np.random.default_rng(0), (0.0, 600.0))
    before = chosen.costs.of(chosen.rng, 700.0)
    for _ in range(5):
        chosen.arrived(drive)
    chosen.night()
    assert_allclose(chosen.costs.of(chosen.rng, 700.0), before, rtol=1e-6)
    assert (chosen.costs.of(chosen.rng, 0.0) > before)[drive.edges].mean() > 0.9


def test_a_limited_route_is_as_bold_as_the_limit_allows() -> None:
    roads = city()
    bold = planner("GP-TS", roads, Vehicle(), np.random.default_rng(5))
    limited = planner("GP-TS-limited", roads, Vehicle(), np.random.default_rng(5))
    assert isinstance(limited.costs, Learned)
    expected = limited.costs.belief.mean
    kept = 0
    for number in range(30):
        trip = Trip(f"t{number}", number, roads.n_edges // 2 + number, 0.0)
        graph = Paths.on_turns(roads.n_edges, roads.turns, trip.start, trip.goal)
        best = Dijkstra().select(graph, -expected)
        free, tied = bold.route(trip), limited.route(trip)
        limit = (1 + LIMITED) * expected[best].sum()
        assert expected[tied].sum() <= limit * (1 + 1e-9)
        if expected[free].sum() <= limit:
            assert (free == tied).all()
            kept += 1
    assert kept < 30  # the limit cuts some
