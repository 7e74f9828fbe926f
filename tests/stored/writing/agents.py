"""Agents, as `superarm.save` keeps them: every belief with a policy, and every wrapper."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from stored.writing.fixture import Fixture
from stored.writing.learning import ARMS, GRAPH, N, beliefs
from stored.writing.roads import EDGES, ROADS
from superarm import Agent, DelayedAgent, Round
from superarm.adapting import Forgetting, PriorElimination, Refitting, Watched
from superarm.beliefs import DenseGP, FiniteGP
from superarm.kernels import Matern52
from superarm.oracles import Exhaustive, Subsets, TopK
from superarm.policies import (
    EpsilonGreedy,
    Greedy,
    JointThompson,
    MarginalThompson,
    OnLatent,
    Rectified,
    SampledPrior,
    UpperConfidenceBound,
)
from superarm.rivals import Clipped, CountWidth
from superarm.roads.bandit import METHODS, NavigationProblem, navigator
from superarm.theory import BayesUCBWidth

ROUND = Round(3, ARMS, Subsets(N, 3))
_POLICIES: dict[str, Any] = {
    "IndependentGaussian": EpsilonGreedy(0.3),
    "HyperpriorBelief": SampledPrior(JointThompson()),
    "FiniteGP-noise": UpperConfidenceBound(BayesUCBWidth(N)),
    "StreamingGP": MarginalThompson(),
    "ExactGP": Rectified(JointThompson()),
    "AdaptivePartition": Greedy(),
    "EmpiricalMeans": Clipped(UpperConfidenceBound(CountWidth()), 3.0),
    "CountGP": OnLatent(MarginalThompson()),
}


def agents() -> Iterator[Fixture]:
    """Return agents in the middle of a run; on a device only PyTorch can go on."""
    for fixture in beliefs():
        name = fixture.name.rpartition("/")[2]
        policy = _POLICIES.get(name, JointThompson())
        agent: Any = Agent(fixture.value, policy, TopK())
        yield Fixture(f"agents/{name}", agent, "agent", {"available": ROUND}, is_run=True)


def wrappers() -> Iterator[Fixture]:
    """Return agents that adapt, or learn late, when they have done so for some rounds."""
    finite: Any = FiniteGP.from_kernel(ARMS, Matern52([0.4, 0.8]), 0.1)
    plain: Any = Agent(finite, JointThompson(), TopK())
    priors = [FiniteGP.from_kernel(ARMS, Matern52(scale), 0.1) for scale in (0.2, 1.0)]
    dense: Any = DenseGP.from_kernel(ARMS, GRAPH + Matern52(0.4), 0.1)
    everything: dict[str, Any] = {
        "DelayedAgent": DelayedAgent(plain, delay=2, batch=2),
        "Forgetting": Forgetting(plain, 0.9),
        "Forgetting-sums": Forgetting(Agent(dense, Greedy(), TopK()), 0.8),
        "Refitting": Refitting(plain, every=4, restarts=0),
        "Watched": Watched(Forgetting(plain, 0.95)),
        "Watched-refitting": Watched(
            Refitting(plain, every=3, fixed=("noise_variance",), restarts=0)
        ),
        "PriorElimination": PriorElimination(priors, JointThompson(), TopK(), risk=0.1),
        "Exhaustive": Agent(finite, JointThompson(), Exhaustive(500)),
    }
    for name, agent in everything.items():
        learned = agent
        for t in range(1, 5):
            chosen = np.array([t, t + 4, (t + 9) % N])
            learned = learned.learn(Round(t, ARMS, Subsets(N, 3)), chosen, np.sin(3.0 * chosen))
        later = Round(5, ARMS, Subsets(N, 3))
        yield Fixture(f"agents/{name}", learned, "agent", {"available": later}, is_run=True)


def navigators() -> Iterator[Fixture]:
    """Return the six methods of the paper on a route, and one with congestion."""
    ends = (str(ROADS.edge_ids[EDGES[0]]), str(ROADS.edge_ids[EDGES[-1]]))
    for method, congestion in [(name, False) for name in METHODS] + [("GP-TS", True)]:
        rng = np.random.default_rng(6)
        world = NavigationProblem(ROADS, *ends, rng=rng, congestion=congestion)
        agent, first = navigator(world, method), world.observe(1, rng)
        agent = agent.learn(first, EDGES, world.pull(first, EDGES, rng))
        name = f"agents/{method}{'-congestion' if congestion else ''}"
        given = {"available": world.observe(2, rng)}
        yield Fixture(name, agent, "agent", given, is_run=True)


FIXTURES = (agents, wrappers, navigators)
