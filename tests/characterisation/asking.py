"""Everything that the net knows of Superarm: a move of a package is followed here and nowhere else.

What comes out are arrays, texts and numbers; which of them are recorded is for the other modules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array, vstack

from characterisation.reports import Report, Roads, Trace
from parts import require_module, require_networks, require_path, require_real
from studies import small
from superarm import cumulative_regret, play
from superarm.arms import Arms
from superarm.experiments import Study, run_experiment
from superarm.experiments.drives import score
from superarm.experiments.drives.study import STUDIES
from superarm.oracles import Dijkstra
from superarm.roads.bandit import Closures, NavigationProblem, crossing_routes, navigator
from superarm.roads.battery import Battery
from superarm.roads.imports import Importer, Log, read_logs
from superarm.roads.imports.importer import MatchedTrip
from superarm.roads.matching import Matcher
from superarm.roads.matching import Trace as Points
from superarm.roads.matching.map_updates import EdgeMap
from superarm.roads.models import EnergyModel, RoadBelief, RoadModel, TravelTimes
from superarm.roads.models.fleet import TRIP_DEVIATION, Fleet
from superarm.roads.models.likelihood import Reader, Source
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network import (
    Access,
    Geography,
    RoadNetwork,
    generate_city,
    read_osm,
    read_sumo,
)
from superarm.roads.physics import (
    deterministic_energy,
    dissipation,
    kinetic_energy,
    mechanical_difference,
    potential_difference,
)
from superarm.roads.physics.energy import energy_parts
from superarm.roads.routing.query import RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.routing.vehicle_access import Permits
from superarm.roads.town import Town
from superarm.roads.vehicle import CLASSES, Vehicle
from superarm.service.routes.tokens import RouteTokens
from superarm.service.trips.intake import Intake
from superarm.service.trips.schemas import TripIn
from superarm.simulation import Drive, Trip, planner
from superarm.simulation.planners import METHODS as PLANNERS

Network = RoadNetwork
HEAVY = Vehicle(mass_kg=40_000.0, height_m=4.0, front_area_m2=10.0)


# ---- networks


def generate(seed: int, edges: int) -> Network:
    """Return the connected part of a generated city."""
    return generate_city(seed=seed, n_edges=edges).largest_component()


def restrict(network: Network) -> Network:
    """Return a network where some roads are closed to some vehicles, by their positions."""
    place = np.arange(network.n_edges)
    everywhere = Access.everywhere(network.n_edges, network.n_turns)
    cars, trucks, most_t = (getattr(everywhere, n).copy() for n in ("cars", "trucks", "most_t"))
    cars[place % 97 == 5] = 1  # for those who begin or end there
    trucks[place % 31 == 7] = 0
    most_t[place % 43 == 3] = 7.5
    rules = replace(everywhere, cars=cars, trucks=trucks, most_t=most_t)
    return replace(network, access=rules).largest_component()


def read_andorra() -> Network:
    """Return the map of Andorra by the importer as it is now, or skip."""
    require_module("osmium", "osm")
    folder = require_real() / "andorra"
    require_path(folder / "N42E001.hgt.zip", "the map of Andorra and its heights are missing")
    return read_osm(folder / "andorra.osm.pbf", folder / "N42E001.hgt.zip").largest_component()


def andorra_track() -> Path:
    """Return a GPS track that was recorded there."""
    return require_real() / "andorra" / "track.gpx"


def read_monaco() -> Network:
    """Return the paper's network of Monaco, or skip."""
    require_module("sumolib", "sumo")
    path = require_networks() / "monaco.net.xml.gz"
    require_path(path, "the road network of Monaco is missing")
    return read_sumo(path).largest_component()


def roads_of(network: Network) -> Roads:
    """Return the arrays of a network."""
    return Roads(
        network.edge_ids.tolist(),
        network.turns,
        network.length_m,
        network.speed_ms,
        network.from_junction,
        network.to_junction,
        network.junction_height_m,
        network.junction_xy_m,
        [network.shape_of(edge) for edge in range(network.n_edges)],
    )


def more_arrays(network: Network) -> dict[str, Any]:
    """Return what else a network says of its edges and junctions."""
    arrays = {name: getattr(network, name) for name in ("lanes", "bend_rad", "grade", "contexts")}
    return arrays | {"lights": network.junction_light.astype(float)}


def notes_of(network: Network) -> dict[str, Any]:
    """Return counts of names, classes and water."""
    return {
        "named edges": int((network.streets != "").sum()),
        "streets": int(np.unique(network.streets).size),
        "classes": int(np.unique(network.road_class).size),
        "water": network.water.n_pieces,
    }


def permits_of(network: Network) -> dict[str, Any]:
    """Return for some vehicles what every edge is to them, and how many turns they may take."""
    permits, access = {}, network.access
    for name, vehicle in (CLASSES | {"heavy": HEAVY}).items():
        codes = np.bincount(access.edges_for(vehicle), minlength=3).tolist()
        permits[name] = {"edges": codes, "turns": int(access.turns_for(vehicle).sum())}
    return permits


def locate(network: Network, xy_m: np.ndarray) -> np.ndarray:
    """Return longitudes and latitudes of points on the plane."""
    return np.round(Geography(network).to_globe(np.array(xy_m)), 6)


# ---- energy


def vehicles() -> dict[str, Vehicle]:
    """Return vehicles whose energy is asked for."""
    car, van, truck = CLASSES.values()
    return {
        "car": car,
        "truck": truck,
        "van in winter": van.loaded(700.0).at_temperature(-10.0),
        "car in summer": replace(car.at_temperature(35.0), rotating_mass_kg=60.0),
    }


def energy_of(network: Network, vehicle: Vehicle) -> dict[str, Any]:
    """Return every energy that physics say of edges."""
    speeds = 0.8 * np.append(network.speed_ms[:25], 0.0)
    first = np.arange(25)
    return {
        "paper": deterministic_energy(network, vehicle, "paper"),
        "physical": deterministic_energy(network, vehicle, "physical"),
        "dissipation": dissipation(network, vehicle, "physical"),
        "potential": potential_difference(network, vehicle),
        "motion": kinetic_energy(vehicle, network.speed_ms),
        "mechanical": mechanical_difference(network, vehicle, first, speeds),
        "parts": list(energy_parts(network, vehicle, first)),
    }


def thriftiest(network: Network, vehicle: Vehicle, pairs: Sequence[tuple[str, str]]) -> list[Any]:
    """Return edges of the routes of least dissipation by physics."""
    costs = np.maximum(dissipation(network, vehicle, "physical"), 0.0)
    permit = Permits(network).of(vehicle)
    places = [(network.position(start), network.position(goal)) for start, goal in pairs]
    return [network.edge_ids[permit.cheapest(costs, *ends)].tolist() for ends in places]


# ---- the service below HTTP: nothing rounded, random numbers that are given


@dataclass(frozen=True, eq=False)
class Believed:
    """What the service believes after some reports, with how much trips have in common given."""

    network: Network
    posterior: RoadPosterior
    sources: tuple[Source, ...]

    @classmethod
    def after(cls, network: Network, reports: Sequence[tuple[int, Report]]) -> "Believed":
        """Learn reports, each with the number of its device."""
        fleet = Fleet(network)
        reader: Reader[Any] = Reader.of(fleet)
        intake = Intake(network, reader, RouteTokens(network, bytes(32)))
        sources = tuple(Source(slot, spread=TRIP_DEVIATION) for slot in range(8))
        measured = [intake.measured(TripIn.model_validate(report))[0] for _, report in reports]
        trips = [(trip, sources[slot]) for trip, (slot, _) in zip(measured, reports, strict=True)]
        belief: Any = fleet.prior()
        if trips:
            belief = belief.condition_evidence(reader.evidence(trips, range(1, len(trips) + 1)))
        times = TravelTimes.before(fleet.time_model).after(reader.times(measured)).posterior
        posterior = RoadPosterior.of(fleet, belief, reader.visits(measured), trips=len(trips))
        return cls(network, replace(posterior, learned_times=times), sources)

    def energies_wh(self, vehicle: str) -> tuple[np.ndarray, np.ndarray]:
        """Return means and deviations of all edges."""
        drivetrain = self.posterior.fleet.drivetrain(CLASSES[vehicle])
        return self.posterior.energy_wh(drivetrain), self.posterior.cost_std_wh(drivetrain)

    def gains(self, count: int) -> list[tuple[float, float]]:
        """Return how far devices are believed to read off, with deviations."""
        return [self.posterior.gain(source) for source in self.sources[:count]]

    def seconds(self, part: int, *, heavy: bool) -> np.ndarray:
        """Return expected times of all edges in a part of the day."""
        return np.asarray(self.posterior.times.seconds(part, heavy=heavy))

    def along(self, edge_ids: Sequence[str], vehicle: str) -> dict[str, Any]:
        """Return what is predicted of a route, jointly."""
        edges = self._places(edge_ids)
        drivetrain = self.posterior.fleet.drivetrain(CLASSES[vehicle])
        mean, covariance = self.posterior.along(edges, drivetrain)
        return {"mean": mean, "covariance": covariance}

    def clock_along(self, edge_ids: Sequence[str], part: int) -> tuple[np.ndarray, float]:
        """Return the expected seconds of the edges of a route, and the deviation of their sum."""
        return self.posterior.times.of(self._places(edge_ids), part)

    def covariance_of(self, routes: Sequence[Sequence[str]], vehicle: str) -> np.ndarray:
        """Return the joint covariance of what routes dissipate."""
        weights = self.posterior.fleet.drivetrain(CLASSES[vehicle]).weights_wh
        rows = []
        for route in routes:
            edges, size = self._places(route), self.posterior.fleet.n_arms
            flat = np.zeros(edges.size, dtype=np.intp)
            rows.append(csr_array((weights[edges], (flat, edges)), shape=(1, size)))
        return self.posterior.covariance_of(csr_array(vstack(rows)))

    def explore(self, ends: tuple[str, str], seed: int, **query: Any) -> dict[str, Any]:
        """Return the answer to a question, with the random numbers of a seed."""
        vehicle = CLASSES[query.pop("vehicle", "car")]
        if battery := query.pop("battery", None):
            query["battery"] = Battery(*battery)
        start, goal = (self.network.position(name) for name in ends)
        drivetrain = self.posterior.fleet.drivetrain(vehicle)
        answer = Router(self.network).answer(
            RouteQuery(start=start, goal=goal, **query),
            self.posterior,
            drivetrain,
            np.random.default_rng(seed),
        )
        routes = [answer.route, answer.best, *answer.alternatives]
        return {
            "edges": [self.network.edge_ids[route.edges].tolist() for route in routes],
            "mean_wh": [route.mean_wh for route in routes],
            "std_wh": [route.std_wh for route in routes],
            "boldness": answer.boldness,
            "arrival": answer.route.arrival,
        }

    def _places(self, edge_ids: Sequence[str]) -> Any:
        return np.array([self.network.position(name) for name in edge_ids], dtype=np.intp)


# ---- the paper's problem


def paper_prior(network: Network, rectify: str, *, physical: bool) -> EnergyModel:
    """Return the paper's prior of a network."""
    efficiency: Any = "physical" if physical else "paper"
    return EnergyModel(network, efficiency=efficiency, rectify=cast("Any", rectify))


def describe_prior(model: EnergyModel, seed: int) -> dict[str, Any]:
    """Return its numbers, and two truths drawn from it."""
    rng = np.random.default_rng(seed)
    sample = np.arange(0, model.network.n_edges, 37)
    return {
        "cost": model.prior_cost_wh,
        "noise": [model.noise_std_wh, model.spread_wh],
        "variance": model.kernel.diagonal(model.arms),
        "gram": model.kernel.gram(model.arms.take(sample), model.arms.take(sample)),
        "truth gp": model.draw_truth_wh("gp", rng),
        "truth positive": model.draw_truth_wh("positive", rng),
    }


def learn_edges(model: EnergyModel, edges: np.ndarray, costs: np.ndarray) -> dict[str, Any]:
    """Return the posteriors of both beliefs of a prior after some edges were measured."""
    arms: Arms = model.arms.take(edges)
    posteriors = {}
    for name, belief in (("GP", model.gp), ("BI", model.independent)):
        posterior = belief.condition(arms, -costs).posterior(model.arms)
        posteriors[name] = {"mean": posterior.mean, "std": posterior.std}
    return posteriors


def play_rounds(
    network: Network, route: str, method: str, horizon: int, **options: Any
) -> dict[str, Any]:
    """Return what a method of the paper does in some rounds of a navigation problem."""
    if share := options.pop("closed", None):
        options["closures"] = Closures(share, "turns")
    ends = crossing_routes(network)[route]
    problem = NavigationProblem(network, *ends, rng=np.random.default_rng(31), **options)
    world, mind = np.random.default_rng(32), np.random.default_rng(33)
    agent = navigator(problem, method)
    steps = [step for step, _ in play(problem, agent, horizon, world=world, mind=mind)]
    return {
        "edges": [network.edge_ids[step.super_arm].tolist() for step in steps],
        "rewards": [float(step.rewards.sum()) for step in steps],
        "indices": [float(step.indices.sum()) for step in steps],
        "raw_wh": [problem.route_energy_wh(step.round, step.super_arm) for step in steps],
        "regret": cumulative_regret(steps, problem, Dijkstra()),
    }


def run_study(folder: Path) -> dict[str, Any]:
    """Run a small experiment of two methods; return the columns of its runs."""
    run_experiment(small(repeats=2, horizon=10), folder)
    study = Study(folder)
    runs = {}
    for cell, repeats in study.cells.items():
        for repeat in repeats:
            columns = study.steps(cell, repeat)
            runs[f"{cell.method} {repeat}"] = {
                name: values for name, values in columns.items() if name != "ms"
            }
    return runs


# ---- towns and simulated fleets


@dataclass(frozen=True, eq=False)
class Driven:
    """A drive that was measured edge by edge, as towns and planners learn it."""

    edges: np.ndarray
    energy_wh: np.ndarray
    entered_s: np.ndarray
    speed_ms: np.ndarray


def found_town(network: Network, vehicle: str = "car") -> Town:
    """Return a town that has learned nothing."""
    return Town(network, CLASSES[vehicle])


def town_route(town: Town, start: Any, goal: Any, **options: Any) -> dict[str, Any]:
    """Return a route of a town; `seed` draws it."""
    if (seed := options.pop("seed", None)) is not None:
        options["rng"] = np.random.default_rng(seed)
    route = town.route(start, goal, **options)
    names = ("length_m", "energy_wh", "energy_std_wh", "time_s", "time_std_s", "snapped_m")
    return {"edges": route.edge_ids} | {name: getattr(route, name) for name in names}


def town_learns(town: Town, drives: Sequence[Driven], times: Sequence[Driven] = ()) -> Town:
    """Return the town after some drives."""
    return town.learn(drives, times)


def town_beliefs(town: Town) -> dict[str, Any]:
    """Return what a town believes of energies and times."""
    beliefs = {}
    for name, belief in (("energy", town.energy), ("time", town.time)):
        beliefs[name] = {
            "mean": belief.mean,
            "variance": belief.gp.variance,
            "factors": [belief.factors.scale, belief.factors.noise, belief.learned_noise],
        }
    return beliefs


def road_belief(network: Network, target: str, drives: Sequence[Driven]) -> dict[str, Any]:
    """Return what a road model says before and after some drives."""
    model = RoadModel(network, target=cast("Any", target))
    belief = RoadBelief.before(model).after(drives)
    route = drives[0].edges
    return {
        "physics": model.physics,
        "prior": model.kernel.diagonal(model.arms),
        "noise": model.noise_variance,
        "measured": model.measured_of(drives[0]),
        "mean": belief.mean,
        "variance": belief.gp.variance,
        "trip": belief.trip(route),
        "joint": belief.gp.matrix[np.ix_(route, route)],
        "sample": belief.sample(np.random.default_rng(4)),
    }


def planner_methods() -> tuple[str, ...]:
    """Return the methods of simulated fleets whose turns are not arms."""
    return tuple(name for name in PLANNERS if not name.endswith("turns"))


def plan_days(
    network: Network,
    method: str,
    auxiliary_w: float,
    asked: Sequence[tuple[int, int, float]],
    drives: Sequence[Driven],
) -> list[dict[str, Any]]:
    """Return what a planner answers before and after a day of drives, with its predictions."""
    vehicle = replace(Vehicle(), auxiliary_power_w=auxiliary_w)
    chosen = planner(method, network, vehicle, np.random.default_rng(6), (0.0, 36_000.0))
    days = []
    for day in range(2):
        trips = [Trip(f"{day}.{n}", *ends) for n, ends in enumerate(asked)]
        routes = [network.edge_ids[chosen.route(trip)].tolist() for trip in trips]
        expected = [chosen.predictions[trip.name] for trip in trips]
        names = ("energy_wh", "energy_variance", "time_s", "time_variance")
        days.append(
            {"edges": routes}
            | {
                name: [_or_none(getattr(prediction, name)) for prediction in expected]
                for name in names
            }
        )
        for drive in drives:
            ends = int(drive.edges[0]), int(drive.edges[-1]), float(drive.entered_s[0])
            trip = Trip("", *ends)
            chosen.arrived(
                Drive(trip, drive.edges, drive.energy_wh, drive.entered_s, drive.speed_ms)
            )
        chosen.night()
    return days


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# ---- traces and logs


def match(
    network: Network, trace: Trace, accuracy_m: float, *, u_turns: bool = False
) -> dict[str, Any]:
    """Return what the matcher makes of points."""
    return _match(network, trace.seconds, trace.xy_m, accuracy_m, u_turns=u_turns)


def _match(
    network: Network, clock_s: Any, xy_m: Any, accuracy_m: float, *, u_turns: bool = False
) -> dict[str, Any]:
    matcher = Matcher(network, accuracy_m, u_turns=u_turns)
    result = matcher.match(Points(clock_s, xy_m))
    lengths = matcher.geometry_m
    return {
        "problems": len(result.problems),
        "share": result.share,
        "parts": [
            {
                "edges": network.edge_ids[part.edges].tolist(),
                # a point between two edges may lie on either of them
                "along_m": np.cumsum(np.append(0.0, lengths[part.edges]))[part.place]
                + part.offset_m,
                "off_m": part.off_m,
            }
            for part in result.parts
        ],
    }


def match_file(network: Network, path: Path, accuracy_m: float) -> dict[str, Any]:
    """Return what the matcher makes of a file of points."""
    (log,) = read_logs(path)
    return _match(network, log.time_s, Geography(network).plane_of(log.globe), accuracy_m)


def import_trace(network: Network, trace: Trace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report and the trips of the log of a logger that counts energy."""
    unknown = np.full(trace.seconds.size, np.nan)
    globe = locate(network, trace.xy_m)
    log = Log("made-up", trace.clock_s, globe, trace.used_wh, unknown, unknown)
    return _import_logs(network, [log])


def import_file(network: Network, path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report and the trips of a file of a logger."""
    return _import_logs(network, read_logs(path))


def _import_logs(
    network: Network, logs: Sequence[Log]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    importer = Importer(network)
    trips: list[MatchedTrip] = [trip for log in logs for trip in importer.trips(log)]
    names = ("entered_s", "speed_ms", "first", "last", "energy_wh")
    facts = importer.report
    report = {"points": facts.points, "matched": facts.matched, "rejected": len(facts.rejected)}
    return report, [
        {"edges": network.edge_ids[trip.edges].tolist()} | {n: getattr(trip, n) for n in names}
        for trip in trips
    ]


def map_edges(old: Network, new: Network) -> dict[str, Any]:
    """Return which edges of an old map are which of a new one."""
    edge_map = EdgeMap.between(old, new)
    pieces = [str([edge for edge, _, _ in some]) for some in edge_map.pieces]
    shares = [[share for _, *ends in parts for share in ends] for parts in edge_map.pieces]
    return {
        "counts": [edge_map.by_id, edge_map.by_geometry, edge_map.lost],
        "pieces": pieces,
        "shares": [share for ends in shares for share in ends],
    }


def change_map(network: Network) -> Network:
    """Return a map that lacks some edges and calls others by new names."""
    kept = np.flatnonzero(np.arange(network.n_edges) % 17 != 3)
    smaller = network.take(kept, "characterisation")
    names = [f"new-{name}" if n % 5 == 0 else name for n, name in enumerate(smaller.edge_ids)]
    return replace(smaller, edge_ids=np.array(names))


# ---- measured vehicles


def score_drives(study: str, trips: int) -> dict[str, dict[str, Any]]:
    """Return how models predict the first trips of a measured vehicle, or skip."""
    how = STUDIES[study]
    folder = require_real() / how.folder
    require_path(folder, f"the drives of {study} are missing")
    rows = how.read(folder)
    first_rows = rows.take(slice(0, list(rows.trips())[trips - 1].stop))
    names = ("trip_mean", "trip_std", "trip_joint", "mean", "std", "time_mean", "time_std")
    return {
        model: {name: getattr(scores, name) for name in names if getattr(scores, name).size}
        | {"deviations": dict(scores.deviations)}
        for model, scores in score(first_rows, how.setting).items()
    }
