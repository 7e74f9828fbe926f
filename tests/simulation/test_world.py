"""SUMO as the world."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from superarm import DataError, InfeasibleError
from superarm.oracles import Dijkstra, Paths
from superarm.roads.bandit import navigator
from superarm.roads.models import RoadModel
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.physics import dissipation
from superarm.roads.physics.motion import mechanical_difference
from superarm.roads.vehicle import Vehicle

require_module("libsumo", "simulation")

from superarm.simulation import (  # noqa: E402 - where it is installed
    FixedTraffic,
    Settings,
    SimulationError,
    Simulator,
    SumoWorld,
    Traffic,
    Trip,
    plan_by,
    write_sumo,
)

CITY = generate_city(1, 500).largest_component()


def straight(length_m: float = 3000.0, speed_ms: float = 13.9, grade: float = 0.0) -> RoadNetwork:
    """A straight road there and back, in three parts each."""
    n = 4
    x = np.linspace(0, length_m, n)
    ends = np.array([(i, i + 1) for i in range(n - 1)] + [(i + 1, i) for i in range(n - 1)][::-1])
    points = np.column_stack([x, np.zeros(n)])
    m = len(ends)
    turns = [(i, i + 1) for i in range(m - 1)] + [(m - 1, 0)]
    return RoadNetwork(
        name="straight",
        edge_ids=np.array([f"e{i}" for i in range(m)]),
        from_junction=ends[:, 0].copy(),
        to_junction=ends[:, 1].copy(),
        length_m=np.full(m, length_m / (n - 1)),
        speed_ms=np.full(m, speed_ms),
        lanes=np.ones(m, dtype=int),
        junction_ids=np.array([f"j{i}" for i in range(n)]),
        junction_xy_m=points,
        junction_height_m=grade * x,
        shape_xy_m=points[ends].reshape(-1, 2),
        shape_start=np.arange(0, 2 * m + 1, 2),
        turns=np.array(turns),
    )


@pytest.fixture(scope="module")
def world() -> Iterator[SumoWorld]:
    with SumoWorld(CITY) as made:
        yield made


def shortest(world: SumoWorld) -> Any:
    net = world.network
    paths = Paths.on_turns(net.n_edges, net.turns, int(net.turns[0, 0]), int(net.turns[0, 1]))
    select = Dijkstra().select
    return plan_by(lambda trip: select(paths.between(trip.start, trip.goal), -net.length_m))


@pytest.mark.parametrize("grade", [0.0, 0.04, -0.02])
def test_free_flow_on_a_straight_road_agrees_with_our_physics(grade: float) -> None:
    vehicle = Vehicle(rotating_mass_kg=40.0)
    careful = Settings(imperfection=0.0)
    with SumoWorld(straight(grade=grade), vehicle=vehicle, settings=careful) as made:
        day = made.day(1, [Trip("t", 0, 2, 0.0)], plan_by(lambda _: np.arange(3)))
    (drive,) = day.drives
    net = made.network
    lost = drive.energy_wh - mechanical_difference(net, vehicle, drive.edges, drive.speed_ms)
    expected = dissipation(net, vehicle)[drive.edges]
    assert_allclose(lost[1], expected[1], rtol=0.02)  # the middle is driven at the limit
    # at both ends it is slower than that, and stopping loses some
    assert_allclose(
        drive.total_wh - lost.sum(),
        mechanical_difference(net, vehicle, drive.edges).sum(),
        atol=0.1,
    )
    assert_allclose(lost.sum(), expected.sum(), rtol=0.05)
    assert_allclose(drive.seconds[1], 1000 / 13.9, rtol=0.02)


def test_the_exported_city_is_the_city(world: SumoWorld) -> None:
    net = world.network
    place = {name: i for i, name in enumerate(CITY.edge_ids.tolist())}
    same = np.array([place[name] for name in net.edge_ids.tolist()])
    assert net.n_edges > 0.97 * CITY.n_edges
    taken = CITY.length_m[same] - net.length_m  # by junctions
    assert (taken > -0.02 * CITY.length_m[same]).all()
    assert taken.sum() < 0.15 * net.length_m.sum()
    assert_allclose(net.speed_ms, CITY.speed_ms[same], atol=0.01)
    assert_allclose(net.climb_m, CITY.climb_m[same], atol=0.02)
    assert net.junction_light.any()


def test_the_same_world_again_gives_the_same_drives(world: SumoWorld) -> None:
    trips = world.trips(1, 6, 0.0, 120.0)
    assert trips == world.trips(1, 6, 0.0, 120.0)
    days = []
    for _ in range(2):
        with SumoWorld(world.file, settings=Settings(seed=5)) as again:
            days.append([again.day(number, trips, shortest(again)) for number in (1, 2)])
    for one, other in zip(*days, strict=True):
        assert [drive.total_wh for drive in one.drives] == [
            drive.total_wh for drive in other.drives
        ]
        assert not one.failed
        assert len(one.drives) == 6
    for drive in days[0][0].drives:
        assert drive.edges[[0, -1]].tolist() == [drive.trip.start, drive.trip.goal]
        assert drive.speed_ms[0] == 0
        assert drive.speed_ms[-1] < 0.1  # what SUMO calls standing
        assert (drive.seconds > 0).all()


def test_it_is_an_environment_like_any_other(world: SumoWorld) -> None:
    rng = np.random.default_rng(0)
    available = world.observe(1, rng)
    route = Dijkstra().select(available.feasible, -world.network.length_m)
    rewards = world.pull(available, route, rng)
    assert rewards.shape == route.shape
    assert rewards.sum() < 0


def test_it_climbs_what_our_network_climbs(world: SumoWorld) -> None:
    """Heights telescope: what a trip takes beyond its losses is the height between its ends."""
    drives = world.day(11, world.trips(11, 40, 0.0, 600.0), shortest(world)).drives
    height = mechanical_difference(world.network, world.vehicle, np.arange(world.network.n_edges))
    lost = dissipation(world.network, world.vehicle, "physical")
    known = [(lost[one.edges].sum(), height[one.edges].sum(), one.edges.size) for one in drives]
    found = np.linalg.lstsq(np.array(known), [one.total_wh for one in drives], rcond=None)[0]
    assert found[1] == pytest.approx(1.0, abs=0.03)


def test_the_navigator_learns_in_it_by_a_road_model(world: SumoWorld) -> None:
    model = RoadModel(world.network, world.vehicle)
    world.model = model
    rng = np.random.default_rng(1)
    try:
        for method in ("GP-TS", "BI-TS"):
            agent = navigator(model, method)
            for t in range(1, 4):
                available = world.observe(t, rng)
                route = agent.decide(available, rng)
                rewards = world.pull(available, route, rng)
                agent = agent.learn(available, route, rewards)
                assert rewards.sum() < -0.5 * model.physics[route].sum()
            after = agent.belief.posterior(model.arms)
            assert (after.std <= np.sqrt(model.belief.variance) + 1e-9).all()
            assert (after.mean != -model.physics).any()
        world.model = RoadModel(generate_city(seed=5, n_edges=500))
        with pytest.raises(ValueError, match="of another network"):
            world.observe(9, rng)
    finally:
        world.model = None


def test_other_cars_are_the_same_for_everybody(world: SumoWorld) -> None:
    near = Path(os.path.relpath(world.file))  # as users name it
    traffic = Traffic.random(near, [(0, 300, 0.4)], seed=3, pool=60)
    again = Traffic.random(world.file, [(0, 300, 0.4)], seed=3, pool=60)
    assert traffic.pool == again.pool
    assert traffic.day(4) == again.day(4) != traffic.day(5)
    known = set(world.network.edge_ids.tolist())
    assert sum(set(route) <= known for route in traffic.pool) > 0.8 * len(traffic.pool)
    world.traffic = traffic
    try:
        day = world.day(2, world.trips(2, 3, 200.0, 300.0), shortest(world))
    finally:
        world.traffic = Traffic.none()
    assert day.others > 50
    assert len(day.drives) + len(day.failed) == 3


def test_routes_that_cannot_be_driven_fail_by_themselves(world: SumoWorld) -> None:
    good = world.trips(3, 1, 0.0, 10.0)[0]
    plan = shortest(world)
    bad = Trip("bad", good.start, good.goal, 5.0)

    def route(trip: Trip) -> Any:
        return np.array([good.goal, good.start]) if trip.name == "bad" else plan.route(trip)

    day = world.day(3, [good, bad], plan_by(route))
    assert [one.trip.name for one in day.drives] == [good.name]
    assert day.failed[0].name == "bad"
    assert "no legal turn" in day.failed[0].reason
    with pytest.raises(ValueError, match="same name"):
        world.day(3, [good, good], plan)


def test_a_simulator_that_dies_fails_its_trips_and_the_next_day_goes_on(world: SumoWorld) -> None:
    trips = world.trips(4, 2, 0.0, 60.0)
    plan = shortest(world)

    def deadly(trip: Trip) -> Any:
        if trip.name == trips[-1].name:
            assert world._simulator is not None  # noqa: SLF001
            assert world._simulator._child is not None  # noqa: SLF001
            world._simulator._child.kill()  # noqa: SLF001
        return plan.route(trip)

    day = world.day(4, trips, plan_by(deadly))
    assert len(day.drives) + len(day.failed) == 2
    assert "died" in day.failed[-1].reason
    assert len(world.day(4, trips, plan).drives) == 2


def test_demands_that_do_not_fit_are_told(world: SumoWorld, tmp_path: Path) -> None:
    ids = world.network.edge_ids
    first, second = (str(ids[edge]) for edge in world.network.turns[0])
    good, bad = (0.0, (first, second)), (1.0, (first, "nowhere"))
    trips = world.trips(7, 1, 30.0, 40.0)
    try:
        world.traffic = FixedTraffic((good, bad, (2.0, (second, second, second))))
        day = world.day(7, trips, shortest(world))
        assert (day.others, day.refused) == (1, 2)
        world.traffic = FixedTraffic((bad,))
        with pytest.raises(SimulationError, match="none of 1 other cars"):
            world.day(7, trips, shortest(world))
    finally:
        world.traffic = Traffic.none()
    route = f"<routes><vehicle id='a' depart='0:01:05'><route edges='{first} {second}'/></vehicle>"
    file = tmp_path / "demand.rou.xml"
    file.write_text(route + "</routes>")
    assert Traffic.from_file(file).cars == ((65.0, (first, second)),)
    packed = tmp_path / "demand.rou.xml.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert Traffic.from_file(packed).cars == Traffic.from_file(file).cars
    file.write_text(route + "<flow id='f'/></routes>")
    with pytest.raises(DataError, match="duarouter"):
        Traffic.from_file(file)
    file.write_text("<routes/>")
    with pytest.raises(DataError, match="holds no vehicles"):
        Traffic.from_file(file)


def test_a_route_that_passes_its_goal_is_refused(world: SumoWorld) -> None:
    net = world.network
    first, second = (int(edge) for edge in net.turns[0])
    there = shortest(world).route(Trip("t", second, first, 0.0))
    loop = np.concatenate([[first], there])
    day = world.day(8, [Trip("t", first, first, 0.0)], plan_by(lambda _: loop))
    assert "before its end" in day.failed[0].reason


def test_heights_follow_the_length_of_bent_roads(tmp_path: Path) -> None:
    flat = straight(grade=0.01)
    points = flat.shape_xy_m.reshape(-1, 2, 2)
    near = points[:, :1] + 0.01 * (points[:, 1:] - points[:, :1])
    bent = replace(
        flat,
        shape_xy_m=np.concatenate([points[:, :1], near, points[:, 1:]], axis=1).reshape(-1, 2),
        shape_start=np.arange(0, 3 * flat.n_edges + 1, 3),
    )
    write_sumo(bent, tmp_path / "bent.net.xml")
    first = (tmp_path / "bent.edg.xml").read_text().split('shape="')[1].split('"')[0]
    assert [float(point.split(",")[2]) for point in first.split()] == [0.0, 0.1, 10.0]


def test_a_planner_that_fails_does_not_spoil_the_next_day(world: SumoWorld) -> None:
    trips = world.trips(5, 2, 0.0, 60.0)

    def broken(trip: Trip) -> Any:
        raise KeyError(trip.name)

    with pytest.raises(KeyError):
        world.day(5, trips, plan_by(broken))
    assert len(world.day(5, trips, shortest(world)).drives) == 2


def test_trips_without_a_way_fail_by_themselves(world: SumoWorld) -> None:
    trips = world.trips(6, 2, 0.0, 60.0)
    plan = shortest(world)

    def picky(trip: Trip) -> Any:
        if trip.name == trips[0].name:
            msg = "no way leads there"
            raise InfeasibleError(msg)
        return plan.route(trip)

    day = world.day(6, trips, plan_by(picky))
    assert [one.trip.name for one in day.drives] == [trips[1].name]
    assert day.failed[0].reason == "no way leads there"


def test_networks_that_sumo_cannot_load_say_so(tmp_path: Path) -> None:
    broken = tmp_path / "broken.net.xml"
    broken.write_text("<net><edge id='a'")
    with (
        pytest.raises(SimulationError, match="simulator died|SUMO says"),
        Simulator(broken, Vehicle()),
    ):
        pass
    with pytest.raises(SimulationError, match="not running"):
        Simulator(broken, Vehicle(), Settings())._send({})  # noqa: SLF001


def test_versions_that_name_parameters_otherwise_are_refused(
    world: SumoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superarm.simulation.process.KNOWN_VERSIONS", (99, 0))
    with pytest.raises(SimulationError, match="SUMO 99.0 on"), Simulator(world.file, Vehicle()):
        pass


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SimulationError, match=r"pip install 'superarm\[simulation\]'"):
        Simulator(Path("city.net.xml"), Vehicle()).start()


def test_looking_for_sumo_leaves_the_projections_of_others_alone() -> None:
    require_module("sumo", "simulation")
    program = (
        "import os; from superarm.simulation.export import sumo_home; home = sumo_home();"
        "assert (home / 'bin').is_dir(); assert 'PROJ_LIB' not in os.environ"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PROJ_")}
    subprocess.run([sys.executable, "-c", program], check=True, env=clean)
