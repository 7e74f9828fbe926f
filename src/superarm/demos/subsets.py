"""The demonstration on subsets: GP and independent beliefs under UCB, BayesUCB and Thompson."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from superarm.agent import Agent
from superarm.arms import Arms
from superarm.beliefs import FiniteGP, IndependentGaussian
from superarm.evaluation import Results, World, compare
from superarm.kernels import Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson, UpperConfidenceBound
from superarm.problems import FiniteProblem, PoissonSubset
from superarm.protocols import IndexPolicy, Posterior
from superarm.theory import BayesUCBWidth, UCBWidth

N_ARMS = 600
N_OFFERED = 100
N_CHOSEN = 5
NOISE_VARIANCE = 0.25

_KERNEL = Matern52(lengthscale=0.3)
_POLICIES: dict[str, IndexPolicy[Posterior]] = {
    "UCB": UpperConfidenceBound(UCBWidth(N_ARMS)),
    "BUCB": UpperConfidenceBound(BayesUCBWidth(N_ARMS, omega=1.0, xi=1.0)),
    "TS": MarginalThompson(),
}
METHODS = tuple(f"{belief}-{policy}" for belief in ("GP", "BI") for policy in _POLICIES)
"""The six methods, named as in the paper."""

_World: TypeAlias = World[Subsets]
_Maker: TypeAlias = Callable[[_World], Agent[Posterior, Subsets]]


def run_subset_demo(
    *,
    horizon: int,
    repeats: int,
    seed: int = 0,
    on_run: Callable[[str, int], None] | None = None,
) -> Results:
    """Play all six methods in the same worlds: 600 points in 3-D, Poisson(100) on offer, 5 chosen.

    The points are the same in all worlds; truth, offers and noise are drawn anew.
    """
    points = Arms(np.arange(N_ARMS), np.random.default_rng(seed).random((N_ARMS, 3)))

    def make_world(rng: np.random.Generator) -> _World:
        return FiniteProblem.sample(
            points,
            _KERNEL,
            Subsets(N_ARMS, N_CHOSEN),
            rng,
            noise_variance=NOISE_VARIANCE,
            availability=PoissonSubset(N_OFFERED, fewest=N_CHOSEN),
        )

    gaussian_process = FiniteGP.from_kernel(points, _KERNEL, NOISE_VARIANCE)
    independent = IndependentGaussian.from_kernel(points, _KERNEL, NOISE_VARIANCE)
    agents: dict[str, _Maker] = {}
    for name, policy in _POLICIES.items():
        agents[f"GP-{name}"] = _constant(Agent(gaussian_process, policy, TopK()))
        agents[f"BI-{name}"] = _constant(Agent(independent, policy, TopK()))
    return compare(
        make_world,
        {name: agents[name] for name in METHODS},
        TopK(),
        horizon=horizon,
        repeats=repeats,
        seed=seed,
        on_run=on_run,
    )


def _constant(agent: Agent[Posterior, Subsets]) -> _Maker:
    return lambda _: agent
