"""Regret of agents in the same worlds
===================================

Choose 5 of about 60 arms: a Gaussian process beside independent arms, Thompson sampling beside bounds.
"""

import matplotlib.pyplot  # noqa: F401 - notebooks show figures then
import numpy as np

from superarm import Agent, Arms
from superarm.beliefs import FiniteGP, IndependentGaussian
from superarm.evaluation import compare, plot_regret
from superarm.kernels import Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson, UpperConfidenceBound
from superarm.problems import FiniteProblem, PoissonSubset
from superarm.theory import BayesUCBWidth

arms = Arms(range(200), np.random.default_rng(0).random((200, 2)))
kernel = Matern52(0.3)


def make_world(rng):
    """Draw a truth, and who is on offer."""
    return FiniteProblem.sample(
        arms,
        kernel,
        Subsets(200, 5),
        rng,
        noise_variance=0.1,
        availability=PoissonSubset(60, fewest=5),
    )


gp = FiniteGP.from_kernel(arms, kernel, 0.1)
alone = IndependentGaussian.from_kernel(arms, kernel, 0.1)
bound = UpperConfidenceBound(BayesUCBWidth(200))
agents = {
    "GP-TS": Agent(gp, MarginalThompson(), TopK()),
    "GP-BayesUCB": Agent(gp, bound, TopK()),
    "BI-TS": Agent(alone, MarginalThompson(), TopK()),
    "BI-BayesUCB": Agent(alone, bound, TopK()),
}
results = compare(
    make_world,
    {name: (lambda world, agent=agent: agent) for name, agent in agents.items()},
    TopK(),
    horizon=80,
    repeats=8,
)
figure = plot_regret(results, title="Choose 5 of about 60")
figure
