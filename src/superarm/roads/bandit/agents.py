"""The six methods of the paper, by name: GP and BI beliefs under UCB, BUCB and TS."""

from superarm.agent import Agent
from superarm.beliefs import StreamingGP
from superarm.oracles import Dijkstra, Paths
from superarm.policies import MarginalThompson, Rectified, UpperConfidenceBound
from superarm.protocols import Belief, IndexPolicy, Posterior
from superarm.roads.bandit.problem import NavigationProblem
from superarm.roads.models.priors import RoadModel
from superarm.theory import BayesUCBWidth, UCBWidth

METHODS = ("GP-UCB", "GP-BUCB", "GP-TS", "BI-UCB", "BI-BUCB", "BI-TS")


def navigator(problem: NavigationProblem | RoadModel, method: str) -> Agent[Posterior, Paths]:
    """Return the agent of a method, with the prior of the problem or model.

    Args:
        problem: a problem of the paper, whose own prior is believed, or a `RoadModel`: the prior
            for worlds that were not drawn from it, such as ``SumoWorld(..., model=model)``.
        method: one of `METHODS`.

    With congestion, contexts are new every round, and the GP belief is a `StreamingGP`.
    """
    if method not in METHODS:
        msg = f"no method {method!r}; there are {METHODS}"
        raise ValueError(msg)
    name, _, policy = method.partition("-")
    belief = _gp(problem) if name == "GP" else _independent(problem)
    return Agent(belief, Rectified(_policy(policy, problem.network.n_edges)), Dijkstra())


def _independent(problem: NavigationProblem | RoadModel) -> Belief[Posterior]:
    return problem.independent if isinstance(problem, RoadModel) else problem.model.independent


def _gp(problem: NavigationProblem | RoadModel) -> Belief[Posterior]:
    if isinstance(problem, RoadModel):
        return problem.belief
    if problem.congestion is None:
        return problem.model.gp
    return StreamingGP.from_kernel(problem.kernel, problem.noise_std_wh**2, problem.prior_mean)


def _policy(name: str, n_arms: int) -> IndexPolicy[Posterior]:
    match name:
        case "UCB":
            return UpperConfidenceBound(UCBWidth(n_arms))
        case "BUCB":
            return UpperConfidenceBound(BayesUCBWidth(n_arms, omega=1.0, xi=1.0))
        case _:
            return MarginalThompson()
