"""Roads, vehicles, what is believed of them, charging, matching; a generated city throughout."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stored.writing.fixture import Fixture
from superarm.oracles import Paths, Tree
from superarm.roads.bandit import Closures, Congestion, NavigationProblem
from superarm.roads.charging import (
    ChargingCurve,
    Legs,
    OpeningHours,
    Station,
    StationPlaces,
    StopPlan,
    Stops,
)
from superarm.roads.imports import Columns, ImportReport, Log, MatchedTrip
from superarm.roads.maps import Panel
from superarm.roads.matching import Matcher, Trace, driven
from superarm.roads.models import (
    EnergyModel,
    RoadBelief,
    RoadModel,
    Spread,
    TimedDrive,
    TimeModel,
    TravelTimes,
)
from superarm.roads.network import Access, RoadNetwork, generate_city
from superarm.roads.network.geography import Geography
from superarm.roads.network.water import Water
from superarm.roads.routing.vehicle_access import Permit
from superarm.roads.town import Town
from superarm.roads.vehicle import Vehicle
from superarm.simulation import Drive, Trip

VEHICLES = (
    Vehicle(),
    Vehicle(mass_kg=18_000.0, height_m=4.0),
    Vehicle(2100.0).at_temperature(-5.0),
)


def dressed(network: RoadNetwork) -> RoadNetwork:
    """Return a network with everything that one can have: lights, rules, names, water."""
    n, turns, rng = network.n_edges, network.n_turns, np.random.default_rng(1)
    rules = Access(
        cars=rng.choice(np.array([1, 2, 2, 2, 2], dtype=np.uint8), n),
        trucks=rng.choice(np.array([0, 1, 2, 2, 2], dtype=np.uint8), n),
        most_t=np.where(rng.random(n) < 0.2, 7.5, np.inf),
        most_m=np.where(rng.random(n) < 0.2, 3.8, np.inf),
        toll=rng.random(n) < 0.1,
        turns=rng.choice(np.array([1, 3, 3, 3], dtype=np.uint8), turns),
    )
    ring = np.array([[0.0, 0.0], [90.0, 0.0], [90.0, 60.0], [0.0, 0.0]])
    island = ring / 4 + 20.0
    water = Water.of([[ring, island], [ring + 300.0]], [("river", ring[:3] * 2 - 50.0)])
    return replace(
        network,
        junction_light=rng.random(network.n_junctions) < 0.3,
        access=rules,
        streets=np.array([("", f"Straße {k // 4}", "Łódź Ave")[k % 3] for k in range(n)]),
        road_class=np.array([("primary", "residential", "")[k % 3] for k in range(n)]),
        water=water,
        offset_m=(12.5, -3.0),
        notes=("of a generated city", "dressed up"),
    )


def small_network() -> RoadNetwork:
    """Return the middle of a city: fewer edges than cities have, so that matrices are small."""
    city = generate_city(0, 500).largest_component()
    middle = (city.junction_xy_m[city.from_junction] + city.junction_xy_m[city.to_junction]) / 2
    near = np.hypot(*(middle - np.median(middle, axis=0)).T) < 320.0
    centre = city.take(np.flatnonzero(near), "edges far from the middle").largest_component()
    lights = np.arange(centre.n_junctions) % 3 == 0
    return replace(centre, junction_light=lights)


ROADS = small_network()
_TREE = Tree.away(Paths.on_turns(ROADS.n_edges, ROADS.turns, 0, 1), ROADS.length_m, 0)
EDGES = _TREE.path(int(np.argmax(_TREE.costs)))


def a_drive(number: int) -> Drive:
    """Return a drive on some roads: measured edge by edge."""
    rng = np.random.default_rng(number)
    costs = RoadModel(ROADS).physics[EDGES] * rng.lognormal(0.0, 0.1, EDGES.size)
    seconds = ROADS.length_m[EDGES] / ROADS.speed_ms[EDGES] * rng.lognormal(0.2, 0.1, EDGES.size)
    speed = np.concatenate([[0.0], rng.uniform(5.0, 14.0, EDGES.size - 1), [0.0]])
    entered = np.concatenate([[0.0], np.cumsum(seconds)])
    trip = Trip(f"t{number}", int(EDGES[0]), int(EDGES[-1]), 30.0)
    return Drive(trip, EDGES, costs, entered, speed)


def a_timed_drive(number: int) -> TimedDrive:
    """Return a drive of which one edge and one stretch were timed."""
    first, last = np.array([0, 2]), np.array([0, 4])
    seconds = np.array([20.0, 95.0]) + number
    return TimedDrive(EDGES, first, last, seconds, number % 3, heavy=number % 2 == 1)


def models() -> Iterator[Fixture]:
    """Return networks, models of roads and what was learned of them."""
    yield Fixture("roads/RoadNetwork", dressed(ROADS), "network", {"vehicles": list(VEHICLES)})
    for number, vehicle in enumerate(VEHICLES):
        yield Fixture(f"roads/Vehicle-{number}", vehicle)
    yield Fixture("roads/Access", dressed(ROADS).access)
    yield Fixture("roads/Spread", Spread((("physics", 0.2), ("light", 2.0)), 0.1, 1.0, 0.05, 0.8))
    energy = EnergyModel(ROADS, VEHICLES[2], "physical", "dissipation", 0.8)
    yield Fixture("roads/EnergyModel", energy, "energy model", {"rows": [0, 4]})
    model = RoadModel(ROADS, VEHICLES[2])
    yield Fixture("roads/RoadModel", model, "road model", {"edges": EDGES})
    learned = RoadBelief.before(model).after([a_drive(k) for k in range(3)])
    given = {"edges": EDGES, "drives": [a_drive(7)]}
    yield Fixture("roads/RoadBelief", learned, "road belief", given)
    times = RoadBelief.before(RoadModel(ROADS, target="time")).after([a_drive(4)])
    yield Fixture("roads/RoadBelief-time", times, "road belief", given)
    ends = {"start": str(ROADS.edge_ids[EDGES[0]]), "goal": str(ROADS.edge_ids[EDGES[-1]])}
    yield Fixture("roads/Town", Town(ROADS).learn([a_drive(k) for k in range(2)]), "town", ends)
    yield Fixture(
        "roads/TownRoute",
        Town(ROADS).route(ends["start"], ends["goal"]),
        "fields",
        {"also": ["minutes"]},
    )
    slow = TimeModel(ROADS, n_features=6)
    yield Fixture("roads/TimeModel", slow, "time model", {"drive": a_timed_drive(0)})
    travel = TravelTimes.before(slow).after(slow.sums([a_timed_drive(k) for k in range(4)]))
    later = {"edges": EDGES, "drive": a_timed_drive(5)}
    yield Fixture("roads/TravelTimes", travel, "times", later)
    yield Fixture("roads/TimePosterior", travel.posterior, "time posterior", {"edges": EDGES})
    yield Fixture("roads/TimedDrive", a_timed_drive(1), "fields", {"also": ["places", "starts"]})


def problems() -> Iterator[Fixture]:
    """Return the paper's problem on roads, and what makes roads change."""
    ends = (str(ROADS.edge_ids[EDGES[0]]), str(ROADS.edge_ids[EDGES[-1]]))
    rng = np.random.default_rng(6)
    closed, played = Closures(0.05), {"played": EDGES[:3]}
    plain = NavigationProblem(ROADS, *ends, rng=rng, closures=closed, rectify="dissipation")
    yield Fixture("roads/NavigationProblem", plain, "problem", played)
    busy = NavigationProblem(ROADS, *ends, rng=rng, congestion=True)
    yield Fixture("roads/NavigationProblem-congestion", busy, "problem", played)
    yield Fixture("roads/Closures", closed, "closures", {"routes": plain.routes})
    edges = Closures(0.05, "edges")
    yield Fixture("roads/Closures-edges", edges, "closures", {"routes": plain.routes})
    level = Congestion.drawn(ROADS, rng)
    yield Fixture("roads/Congestion", level, "congestion", {"contexts": ROADS.contexts})
    permit = Permit.of(ROADS, VEHICLES[1])
    costs = {"costs": ROADS.length_m, "start": int(EDGES[0]), "goal": int(EDGES[-1])}
    yield Fixture("roads/Permit", permit, "permit", costs)


def charging() -> Iterator[Fixture]:
    """Return batteries, stations and stops."""
    curve = ChargingCurve(60_000.0, ((0.0, 100_000.0), (0.5, 80_000.0), (1.0, 10_000.0)), 0.9)
    hours = OpeningHours.of("Mo-Fr 08:00-18:30; Sa 10:00-14:00")
    yield Fixture("charging/ChargingCurve", curve, "curve")
    yield Fixture("charging/OpeningHours", hours, "hours")
    yield Fixture("charging/OpeningHours-always", OpeningHours(), "hours")
    power = np.array([22_000.0, 150_000.0])
    stops = Stops(curve, 30_000.0, 5_000.0, power, [hours, OpeningHours()], 7_200.0)
    yield Fixture("charging/Stops", stops, "stops")
    legs = Legs(*(np.arange(6.0).reshape(2, 3) * scale for scale in (60.0, 900.0, 1000.0, 50.0)))
    yield Fixture("charging/Legs", legs, "legs")
    yield Fixture("charging/StopPlan", StopPlan((1, 0), (0, 1, 1), 5_400.0))
    line = Geography(ROADS).line(EDGES)
    stations = [
        Station("Square", line[2][0], line[2][1], 50_000.0, 2, hours),
        Station("Gate", line[0][0], line[0][1]),
    ]
    yield Fixture("charging/Station", stations[0])
    places = StationPlaces.on(Geography(ROADS), stations)
    yield Fixture("charging/StationPlaces", places, "places")


def traces() -> Iterator[Fixture]:
    """Return logs, what was made of them, and drives in simulations."""
    drive = driven(ROADS, EDGES, 4.0)
    trace = Trace(drive.points[:, 0], drive.points[:, 1:])
    matcher = Matcher(ROADS, 8.0, u_turns=True)  # that remembers nothing yet
    yield Fixture("matching/Matcher", matcher, "matcher", {"trace": trace})
    match = replace(matcher).match(trace)
    yield Fixture("matching/Match", match, "fields", {"also": ["edges", "share"]})
    yield Fixture("matching/Trace", trace)
    yield Fixture("matching/Part", match.parts[0])
    yield Fixture("matching/KnownDrive", drive)
    yield Fixture("matching/Columns", Columns({"time": "when"}, {"power": "kW"}, "UTC", 40_000.0))
    clock = np.arange(4.0)
    log = Log("van", clock, np.ones((4, 2)), clock * 2, clock * 3, clock - 5, True, {"no time": 2})
    yield Fixture("matching/Log", log)
    report = ImportReport(40, 38, 2, ["too short"], {"no time": 2}, np.arange(4.0))
    yield Fixture("matching/ImportReport", report)
    first = np.array([0, 1])
    trip = MatchedTrip(
        "a",
        1.7e9,
        EDGES[:3],
        np.arange(4.0),
        np.arange(4.0),
        first,
        np.array([0, 2]),
        np.array([5.0, 9.0]),
        4.5,
    )
    yield Fixture("matching/MatchedTrip", trip, "fields", {"also": ["is_by_edge"]})
    yield Fixture("roads/Panel", Panel("Energy", ROADS.length_m, "m", routes={"A": EDGES}))


FIXTURES = (models, problems, charging, traces)
