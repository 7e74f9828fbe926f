"""Feasible sets and oracles, worlds, and records of what came of theory and evaluation."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from stored.writing.fixture import Fixture
from stored.writing.learning import ARMS, KERNEL, N, gaussian_beliefs
from superarm import Agent, BayesianRegret, Round, Step
from superarm.adapting import Health
from superarm.adapting.watching import Scatter
from superarm.beliefs import DenseGP
from superarm.evaluation import Calibration, Result, Scored
from superarm.fitting import LogNormal, fit
from superarm.kernels import Matern52
from superarm.oracles import (
    Assignments,
    BellmanFord,
    Choices,
    ChoiceTable,
    DensityGreedy,
    Dijkstra,
    Exhaustive,
    FrontRoute,
    Hungarian,
    Knapsack,
    Knapsacks,
    Kruskal,
    Matchings,
    Paths,
    SpanningTrees,
    Subsets,
    SubsetsUpTo,
    TopK,
    Tree,
)
from superarm.policies import Greedy
from superarm.problems import (
    Always,
    ClickRates,
    ContextualProblem,
    DriftingProblem,
    FiniteProblem,
    PoissonSubset,
    complete_matchings,
    complete_trees,
    grid_paths,
)
from superarm.problems.guarantee import Example, Guarantee, MeasuredRegret
from superarm.theory import (
    Bound,
    BoundCurve,
    GainSoFar,
    UCBWidth,
    greedy_information_gain,
    information_gain_bounds,
    largest_eigenvalue_bound,
    validate,
)

_MANY = np.random.default_rng(8).standard_normal(24)
INDICES = _MANY[:N]
LINE = Paths.on_turns(5, [(0, 1), (1, 2), (2, 3), (0, 4), (4, 3), (3, 0), (1, 4)], 0, 3)


def feasible_sets() -> Iterator[Fixture]:
    """Return every feasible set, with an oracle that chooses from it."""
    pairs = [(i, j) for i in range(3) for j in range(4)]
    everything: dict[str, tuple[Any, Any]] = {
        "Subsets": (Subsets(N, 3), TopK()),
        "SubsetsUpTo": (SubsetsUpTo(N, 3), TopK()),
        "Knapsacks": (Knapsacks(np.linspace(1.0, 3.0, N), 6.0), Knapsack()),
        "Knapsacks-greedy": (Knapsacks(np.arange(1, N + 1), 9), DensityGreedy()),
        "Matchings": (Matchings(3, 4, pairs), Hungarian()),
        "Assignments": (Assignments(3, 4, pairs), Hungarian()),
        "SpanningTrees": (SpanningTrees(5, np.argwhere(np.triu(np.ones((5, 5)), 1))), Kruskal()),
        "Choices": (Choices(np.arange(N) // 3, 1 + np.arange(N) % 4, 5), ChoiceTable()),
        "Paths": (grid_paths(3, 3), BellmanFord()),
        "Paths-turns": (LINE, Dijkstra()),
        "Paths-enumerated": (grid_paths(2, 3), Exhaustive(500)),
    }
    for name, (feasible, oracle) in everything.items():
        indices = -np.abs(_MANY) if isinstance(feasible, Paths) else _MANY
        given = {"oracle": oracle, "indices": indices[: feasible.n_arms]}
        yield Fixture(f"oracles/{name}", feasible, "feasible", given)
    tree = Tree.away(LINE, np.array([1.0, 2.0, 4.0, 1.0, 5.0]), 0)
    yield Fixture("oracles/Tree", tree, "tree", {"row": 3})
    yield Fixture("oracles/FrontRoute", FrontRoute(np.array([0, 1, 2]), 1.5, 2.5))


def worlds() -> Iterator[Fixture]:
    """Return every problem that is no road's."""
    rng = np.random.default_rng(3)
    offer = PoissonSubset(7.0, fewest=4)
    everything: dict[str, Any] = {
        "FiniteProblem": FiniteProblem.sample(ARMS, KERNEL, Subsets(N, 3), rng, availability=offer),
        "ContextualProblem": ContextualProblem.sample(N, 2, Matern52(0.5), Subsets(N, 3), rng),
        "DriftingProblem": DriftingProblem.wandering(
            ARMS, KERNEL, Subsets(N, 3), rng, horizon=4, memory=3.0
        ),
        "ClickRates": ClickRates.sample(rng, n_items=15, size=4),
        "FiniteProblem-matchings": FiniteProblem.sample(
            ARMS, KERNEL, complete_matchings(3, 4), rng
        ),
        "FiniteProblem-trees": FiniteProblem.sample(
            ARMS.take(np.arange(10)), KERNEL, complete_trees(5), rng
        ),
    }
    for name, world in everything.items():
        yield Fixture(f"problems/{name}", world, "problem", {"played": np.array([2, 0])})
    yield Fixture("problems/Always", Always(), "availability")
    yield Fixture("problems/PoissonSubset", offer, "availability")
    yield Fixture("problems/Example", Example(n_arms=20, horizon=5))


def records() -> Iterator[Fixture]:
    """Return what theory, evaluation and fits leave."""
    gram = KERNEL.gram(ARMS, ARMS)
    curves = np.cumsum(np.abs(INDICES)).reshape(3, 4)
    eigenvalue, gains = largest_eigenvalue_bound(gram, 3), information_gain_bounds(gram, 0.1, 4)
    bound = Bound("ucb", "theorem", 10, 7.5, 2.0, 30.0, {"pi^2 / 6": 1.5, "later": 0.25})
    curve, result = BoundCurve(curves[0], curves[1]), Result(curves, 1.5)
    step: Any = Step(Round(2, ARMS, Subsets(N, 3)), INDICES, np.array([1, 4, 2]), INDICES[:3])
    agent = Agent(gaussian_beliefs()["IndependentGaussian"], Greedy(), TopK())
    scatter = Scatter(3, 1.5, 10.0, 12.0, 2.0, 5.0)
    everything: dict[str, tuple[Any, tuple[str, ...]]] = {
        "theory/Bound": (bound, ("total",)),
        "theory/BoundCurve": (curve, ()),
        "theory/EigenvalueBound": (eigenvalue, ("exact",)),
        "theory/GainBounds": (gains, ("gap",)),
        "theory/GainSoFar": (GainSoFar().after(gram[:3, :3], 0.1), ()),
        "theory/GreedyGain": (greedy_information_gain(gram, 0.1, 4), ("upper",)),
        "theory/Validity": (validate(UCBWidth(N)), ()),
        "problems/Guarantee": (Guarantee(bound, gains, eigenvalue), ()),
        "problems/MeasuredRegret": (MeasuredRegret(result, curve), ()),
        "evaluation/BayesianRegret": (BayesianRegret(curves[0], curves[1], 3), ()),
        "evaluation/Calibration": (Calibration(INDICES, np.ones(N), INDICES + 0.5), ("z", "error")),
        "evaluation/Result": (result, ("final",)),
        "evaluation/Step": (step, ("t", "ids")),
        "evaluation/Round": (step.round, ()),
        "evaluation/Arms": (ARMS, ("n_features",)),
        "fitting/LogNormal": (LogNormal(2.0, 0.5), ()),
        "adapting/Health": (Health(5, 15, -12.5, 14.0, scatter, Scatter(5)), ("mean_square",)),
    }
    for name, (record, also) in everything.items():
        yield Fixture(name, record, "fields", {"also": list(also)})
    scored = Scored(step, agent, np.array([1, 2, 4]), 0.5, 0.01)
    public = ("best", "regret", "seconds", "step")
    yield Fixture("evaluation/Scored", scored, "names", {"names": list(public)})
    belief: Any = DenseGP.from_kernel(ARMS, Matern52([0.4, 0.8]), 0.1, 0.2)
    learned = belief.condition(ARMS, INDICES).condition(ARMS.take([3, 1, 3]), INDICES[:3])
    fitted = fit(learned, restarts=0)
    yield Fixture("fitting/Fit", fitted, "fit", {"arms": ARMS.take([0, 4])})


FIXTURES = (feasible_sets, worlds, records)
