"""Combinatorial decisions with Gaussian-process rewards.

==============================  ====================================================================
what you need                   name
==============================  ====================================================================
what is on offer                `Arms` (ids and contexts, row by row), `Round` (arms, number, and
                                the feasible super arms of `superarm.oracles`)
who decides                     `Agent`: a belief, a policy and an oracle; `DelayedAgent` where
                                feedback comes late
the loop                        `play`, which is Algorithm 1, or `Agent.decide` and `Agent.learn`
to go on tomorrow               `save`, `load`
how good it was                 `cumulative_regret`, `bayesian_regret`; comparisons are in
                                `superarm.evaluation`
==============================  ====================================================================

Every round some base arms are on offer. A policy computes one index per arm from a belief, an
oracle picks the best feasible set of arms, every arm played returns its own noisy reward, and the
belief learns:

>>> import numpy as np
>>> from superarm import Agent, Arms, Round
>>> from superarm.beliefs import FiniteGP
>>> from superarm.kernels import Matern52
>>> from superarm.oracles import Subsets, TopK
>>> from superarm.policies import UpperConfidenceBound
>>> from superarm.theory import BayesUCBWidth
>>> arms = Arms(ids=np.arange(50), contexts=np.linspace(0, 1, 50)[:, None])
>>> belief = FiniteGP.from_kernel(arms, Matern52(lengthscale=0.2), noise_variance=0.01)
>>> agent = Agent(belief, UpperConfidenceBound(BayesUCBWidth(n_arms=50)), TopK())
>>> now = Round(1, arms, Subsets(50, 3))
>>> chosen = agent.decide(now, np.random.default_rng(0))
>>> agent = agent.learn(now, chosen, rewards=[0.1, 0.4, 0.2])
"""

from superarm.agent import Agent
from superarm.arms import Arms, Round, Step, SuperArm
from superarm.delays import DelayedAgent
from superarm.errors import (
    CapacityError,
    DataError,
    InfeasibleError,
    NegativeCycleError,
    NumericalError,
    SuperarmError,
    WorkLimitError,
)
from superarm.evaluation import (
    BayesianRegret,
    bayesian_regret,
    cumulative_regret,
    instantaneous_regret,
)
from superarm.loop import play
from superarm.saving import SavedRun, load, save

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Arms",
    "BayesianRegret",
    "CapacityError",
    "DataError",
    "DelayedAgent",
    "InfeasibleError",
    "NegativeCycleError",
    "NumericalError",
    "Round",
    "SavedRun",
    "Step",
    "SuperArm",
    "SuperarmError",
    "WorkLimitError",
    "__version__",
    "bayesian_regret",
    "cumulative_regret",
    "instantaneous_regret",
    "load",
    "play",
    "save",
]
