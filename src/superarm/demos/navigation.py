"""The demonstration: six methods learn two routes of a generated city."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from superarm.agent import Agent
from superarm.arms import Step
from superarm.arrays import Rows, Vector
from superarm.evaluation import Result, Results, World, compare
from superarm.oracles import Dijkstra, Paths
from superarm.protocols import Posterior
from superarm.roads.bandit.agents import METHODS, navigator
from superarm.roads.bandit.problem import NavigationProblem
from superarm.roads.bandit.routes import crossing_routes
from superarm.roads.conventions import Rectify, Truth
from superarm.roads.models.paper import EnergyModel
from superarm.roads.network.city import generate_city


@dataclass(frozen=True, eq=False)
class RouteResult:
    """What happened on one route.

    Attributes:
        results: regret and time by method.
        visits: how often each method drove each edge, all repeats together, shape (n,).
        energy_wh: mean raw energy of the last tenth of trips by method.
        best_wh: mean raw energy of the routes one would choose if the truth were known.
        last_route: the last route driven by each method in the first world.
        mean_wh: energy each method believes in at the end of the first world, shape (n,).
        std_wh: its standard deviation, shape (n,).
        truth_wh: the true energy in that world, shape (n,).
    """

    name: str
    start: str
    goal: str
    results: Results
    visits: dict[str, Vector]
    energy_wh: dict[str, float]
    best_wh: float
    last_route: dict[str, Rows]
    mean_wh: dict[str, Vector]
    std_wh: dict[str, Vector]
    truth_wh: Vector


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Everything the page shows."""

    model: EnergyModel
    routes: list[RouteResult]
    horizon: int
    repeats: int
    truth: Truth
    negative_share: float


def run_demo(  # noqa: PLR0913 - what a user may choose
    *,
    n_edges: int = 4000,
    horizon: int = 80,
    repeats: int = 3,
    seed: int = 0,
    rectify: Rectify = "dissipation",
    truth: Truth = "positive",
    on_run: Callable[[str, int], None] | None = None,
) -> Demonstration:
    """Play all methods on two routes across a generated city."""
    network = generate_city(seed, n_edges).largest_component()
    model = EnergyModel(network, rectify=rectify)
    negative = [0.0]
    routes = [
        _run_route(name, ends, model, truth, horizon, repeats, seed, on_run, negative)
        for name, ends in crossing_routes(network).items()
    ]
    return Demonstration(model, routes, horizon, repeats, truth, float(np.mean(negative[1:])))


def run_congestion(
    *,
    n_edges: int = 2000,
    horizon: int = 48,
    repeats: int = 10,
    seed: int = 0,
    on_run: Callable[[str, int], None] | None = None,
) -> Results:
    """Play GP-TS (streaming) and BI-TS where a congestion level changes contexts every round."""
    network = generate_city(seed, n_edges).largest_component()
    model = EnergyModel(network)
    ends = crossing_routes(network)["A"]
    worlds: list[NavigationProblem] = []

    def make_world(rng: np.random.Generator) -> World[Paths]:
        worlds.append(NavigationProblem(network, *ends, rng=rng, congestion=True, model=model))
        return worlds[-1]

    return compare(
        make_world,
        {method: partial(_make_agent, method, worlds) for method in ("GP-TS", "BI-TS")},
        Dijkstra(),
        horizon=horizon,
        repeats=repeats,
        seed=seed,
        on_run=on_run,
    )


def _run_route(  # noqa: PLR0913, PLR0917 - gathered in one place
    name: str,
    ends: tuple[str, str],
    model: EnergyModel,
    truth: Truth,
    horizon: int,
    repeats: int,
    seed: int,
    on_run: Callable[[str, int], None] | None,
    negative: list[float],
) -> RouteResult:
    network = model.network
    visits = {method: np.zeros(network.n_edges) for method in METHODS}
    energies: dict[str, list[float]] = defaultdict(list)
    best: list[float] = []
    last: dict[str, tuple[Step[Paths], Agent[Posterior, Paths]]] = {}
    worlds: list[NavigationProblem] = []

    def make_world(rng: np.random.Generator) -> World[Paths]:
        problem = NavigationProblem(network, *ends, rng=rng, truth=truth, model=model)
        worlds.append(problem)
        negative.append(problem.share_of_negative_costs)
        everything = problem.observe(1, rng)
        ideal = Dijkstra().select(everything.feasible, problem.expected_rewards(everything.arms))
        best.append(problem.route_energy_wh(everything, ideal))
        return problem

    def watch(method: str, repeat: int, step: Step[Paths], agent: Agent[Posterior, Paths]) -> None:
        visits[method][step.super_arm] += 1
        if step.t > 0.9 * horizon:
            energies[method].append(worlds[repeat].route_energy_wh(step.round, step.super_arm))
        if repeat == 0 and step.t == horizon:
            last[method] = step, agent

    results = compare(
        make_world,
        {method: partial(_make_agent, method, worlds) for method in METHODS},
        Dijkstra(),
        horizon=horizon,
        repeats=repeats,
        seed=seed + ord(name),
        on_run=on_run,
        on_step=watch,
    )
    posteriors = {method: agent.belief.posterior(model.arms) for method, (_, agent) in last.items()}
    return RouteResult(
        name=name,
        start=ends[0],
        goal=ends[1],
        results=results,
        visits=visits,
        energy_wh={method: float(np.mean(values)) for method, values in energies.items()},
        best_wh=float(np.mean(best)),
        last_route={method: step.super_arm for method, (step, _) in last.items()},
        mean_wh={m: model.potential_wh - p.mean for m, p in posteriors.items()},
        std_wh={method: posterior.std for method, posterior in posteriors.items()},
        truth_wh=worlds[0].truth_wh,
    )


def _make_agent(
    method: str, worlds: list[NavigationProblem], world: World[Paths]
) -> Agent[Posterior, Paths]:
    del world  # the newest one
    return navigator(worlds[-1], method)


def final_regret(results: Mapping[str, Result]) -> dict[str, tuple[float, float]]:
    """Return mean and standard error of the last cumulative regret by method."""
    return {
        name: (float(result.regret.mean[-1]), float(result.regret.standard_error[-1]))
        for name, result in results.items()
    }
