"""Routes by coordinates, without a server: what they take, and what trips teach."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module, require_real
from superarm.errors import InfeasibleError
from superarm.oracles import Dijkstra, Paths
from superarm.roads.models import RoadModel
from superarm.roads.network import Access, Geography, generate_city, read_osm
from superarm.roads.network.access import CLOSED
from superarm.roads.physics import potential_difference
from superarm.roads.town import Town
from superarm.roads.vehicle import Vehicle

CITY = generate_city(3, 600).largest_component()
IDS = CITY.edge_ids.tolist()


class Driven:
    """A drive as physics have it, but for a factor, at rest at every boundary."""

    def __init__(self, edges: np.ndarray, factor: float) -> None:
        model = RoadModel(CITY)
        self.edges = edges
        self.energy_wh = (
            factor * model.physics[edges] + potential_difference(CITY, Vehicle())[edges]
        )
        self.entered_s = np.append(0.0, np.cumsum(factor * model.free_flow_s[edges]))
        self.speed_ms = np.zeros(edges.size + 1)


def test_before_the_first_trip_it_is_physics() -> None:
    town = Town(CITY)
    route = town.route(IDS[0], IDS[300])
    physics = RoadModel(CITY).physics
    graph = Paths.on_turns(CITY.n_edges, CITY.turns, 0, 300)
    best = np.asarray(Dijkstra().select(graph, -physics))
    assert route.edges.tolist() == best.tolist()
    expected = physics[best].sum() + potential_difference(CITY, Vehicle())[best].sum()
    assert route.energy_wh == pytest.approx(expected)
    assert route.time_s == pytest.approx(RoadModel(CITY).free_flow_s[best].sum())
    low, high = route.energy_interval_wh
    assert low < route.energy_wh < high
    assert route.minutes_interval[0] < route.minutes < route.minutes_interval[1]
    feature = route.geojson()
    assert feature["geometry"]["type"] == "LineString"
    assert feature["properties"]["edges"] == route.edge_ids


def test_trips_teach_energy_and_time_and_the_old_town_stays() -> None:
    town = Town(CITY)
    route = town.route(IDS[0], IDS[300])
    wiser = town.learn([Driven(route.edges, 1.3)] * 40)
    again = wiser.route(IDS[0], IDS[300])
    climb = potential_difference(CITY, Vehicle())[route.edges].sum()
    energy, variance = wiser.energy.trip(route.edges)
    assert energy + climb == pytest.approx(1.3 * (route.energy_wh - climb) + climb, rel=0.05)
    assert variance < town.energy.trip(route.edges)[1]
    assert wiser.time.trip(route.edges)[0] == pytest.approx(1.3 * route.time_s, rel=0.1)
    assert_allclose(town.route(IDS[0], IDS[300]).energy_wh, route.energy_wh)
    assert again.energy_std_wh < route.energy_std_wh
    only_times = town.learn([], [Driven(route.edges, 2.0)] * 20)
    assert only_times.energy is not wiser.energy
    assert_allclose(only_times.energy.mean, town.energy.mean)
    assert only_times.time.trip(route.edges)[0] > 1.5 * route.time_s


def test_coordinates_are_snapped_and_time_has_a_price() -> None:
    town = Town(CITY)
    where = Geography(CITY).to_globe(CITY.shape_of(0)[[0]])[0]
    there = Geography(CITY).to_globe(CITY.shape_of(300)[[0]])[0]
    route = town.route((where[0], where[1]), (there[0], there[1]))
    assert max(route.snapped_m) < 1
    hurried = town.route(IDS[0], IDS[300], wh_per_minute=1e4)
    calm = town.route(IDS[0], IDS[300])
    assert hurried.time_s <= calm.time_s
    assert hurried.energy_wh >= calm.energy_wh - 1e-9
    draw = np.random.default_rng(0)
    goals = IDS[50:450:10]
    same = [
        town.route(IDS[0], goal, rng=draw).edge_ids == town.route(IDS[0], goal).edge_ids
        for goal in goals
    ]
    assert not all(same)  # a draw explores


def test_what_is_closed_is_told() -> None:
    cars = np.full(CITY.n_edges, 2, dtype=np.uint8)
    cars[300] = CLOSED
    access = replace(Access.everywhere(CITY.n_edges, CITY.n_turns), cars=cars)
    with pytest.raises(InfeasibleError, match="the goal, edge .* is closed to a vehicle of 1.83 t"):
        Town(replace(CITY, access=access)).route(IDS[0], IDS[300])


def test_a_truck_keeps_off_roads_closed_to_it_in_andorra() -> None:
    require_module("osmium", "osm")
    folder = require_real() / "andorra"
    network = read_osm(folder / "andorra.osm.pbf", folder / "N42E001.hgt.zip").largest_component()
    truck = Vehicle(mass_kg=40_000.0, height_m=4.0, front_area_m2=10.0)
    town = Town(network, truck)
    codes = network.access.edges_for(truck)
    assert (codes == CLOSED).any()
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(10):
        start, goal = rng.choice(np.flatnonzero(codes > 1), 2, replace=False)
        try:
            route = town.route(str(network.edge_ids[start]), str(network.edge_ids[goal]))
        except InfeasibleError:
            continue
        found += 1
        assert (codes[route.edges] != CLOSED).all()
    assert found >= 5
