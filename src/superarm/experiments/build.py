"""The only place where a name in a file becomes an object: worlds, beliefs, policies."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
from scipy.stats import poisson

from superarm.agent import Agent
from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Vector
from superarm.beliefs import FiniteGP, IndependentGaussian, SparseGP, StreamingGP
from superarm.beliefs.variational.moving import import_torch
from superarm.delays import DelayedAgent
from superarm.evaluation import World
from superarm.evaluation.comparison import stream
from superarm.experiments.config import Experiment, MethodSettings
from superarm.experiments.parquet import require_parquet
from superarm.experiments.plan import RunSpec
from superarm.kernels import Constant, Kernel, Linear, Matern52
from superarm.navigation.model import EnergyModel
from superarm.navigation.problem import NavigationProblem
from superarm.navigation.traffic import Closures
from superarm.oracles import Dijkstra, Paths, Subsets, TopK
from superarm.policies import (
    Greedy,
    JointThompson,
    MarginalThompson,
    Rectified,
    UpperConfidenceBound,
)
from superarm.problems import FiniteProblem, PoissonSubset
from superarm.protocols import Belief, FeasibleSet, IndexPolicy, Oracle, Player, Posterior
from superarm.rivals import (
    AdaptivePartition,
    Clipped,
    ClockWidth,
    CountWidth,
    EmpiricalMeans,
    MaximumImprovement,
    RandomisedUCB,
    RidgeWidth,
    RussoVanRoyWidth,
    SrinivasWidth,
)
from superarm.theory import BayesUCBWidth, FixedWidth, ScaledWidth, UCBWidth, Width

S = TypeVar("S", bound=FeasibleSet)


@dataclass(frozen=True, eq=False)
class Setting(Generic[S]):
    """A world with its agent, and what the evaluator needs.

    Attributes:
        world: an environment whose truth is known to the evaluator.
        agent: who plays.
        oracle: finds the optimum that regret is measured against.
        n_arms: size of the universe.
        raw: what a super arm is worth in the unit that is reported beside regret: the raw energy of
            a route, the expected reward of points.
        lengths_m: of all arms; none where they have none.
        share_negative: on how many arms the true cost is negative.
    """

    world: World[S]
    agent: Player[S, Any]
    oracle: Oracle[S]
    n_arms: int
    raw: Callable[[Round[S], SuperArm], float]
    lengths_m: Vector | None
    share_negative: float


@dataclass(frozen=True, eq=False)
class StudyPrior:
    """What all beliefs of a world are made from.

    Attributes:
        arms: the universe with its contexts; those of the first round where they change.
        kernel: the prior covariance.
        mean: prior mean rewards, shape (n,).
        noise_variance: of one reward.
        highest: the largest mean reward that is possible, for beliefs without a prior.
        spread: by how much mean rewards differ over the universe.
        size: K, about how many arms a super arm has.
        offered: the most arms a round offers (but for one case in ten million).
        gp: the exact belief, if it exists already.
    """

    arms: Arms
    kernel: Kernel
    mean: Vector
    noise_variance: float
    highest: float
    spread: float
    size: int
    offered: int
    gp: FiniteGP | None = None


def make_problem(spec: RunSpec, model: EnergyModel) -> NavigationProblem:
    """Return the roads of a run, with their truth."""
    closures = None
    if spec.traffic in ("closed-turns", "closed-edges"):
        closures = Closures(
            spec.closed_share, "turns" if spec.traffic == "closed-turns" else "edges"
        )
    return NavigationProblem(
        model.network,
        spec.route.start,
        spec.route.goal,
        rng=spec.stream("truth"),
        truth=spec.truth,
        closures=closures,
        congestion=spec.traffic == "congestion",
        model=model,
    )


def road_setting(spec: RunSpec, model: EnergyModel) -> Setting[Paths]:
    """Return the roads of a run, its truth drawn, and its agent."""
    problem = make_problem(spec, model)
    believed = model
    if spec.settings.lengthscale is not None:
        believed = replace(model, lengthscale=spec.settings.lengthscale)
    cost = model.prior_cost_wh
    everything = problem.arms(1)
    prior = StudyPrior(
        arms=everything,
        kernel=believed.kernel,
        mean=-cost,
        noise_variance=problem.noise_std_wh**2,
        highest=_highest(-cost, model.gp.prior.variance),
        spread=float(np.ptp(cost)),
        size=int(Dijkstra().select(problem.routes, -np.maximum(cost, 0.0)).size),
        offered=len(everything),
        gp=None if problem.congestion else believed.gp,
    )
    belief = _belief(spec, prior, new_contexts=problem.congestion is not None)
    agent = Agent(belief, Rectified(_policy(spec.settings, prior)), Dijkstra())
    return Setting(
        world=problem,
        agent=_delayed(agent, spec.settings),
        oracle=Dijkstra(),
        n_arms=model.network.n_edges,
        raw=problem.route_energy_wh,
        lengths_m=model.network.length_m,
        share_negative=problem.share_of_negative_costs,
    )


def point_setting(spec: RunSpec) -> Setting[Subsets]:
    """Choose K of the points on offer; the points are the same in all repeats."""
    given = spec.points
    assert given is not None  # noqa: S101 - or it would be navigation
    where = stream(spec.seed, 0, "points").random((given.arms, given.dimension))
    arms, kernel = Arms(np.arange(given.arms), where), Matern52(spec.lengthscale)
    world = FiniteProblem.sample(
        arms,
        kernel,
        Subsets(given.arms, given.chosen),
        spec.stream("truth"),
        noise_variance=given.noise_variance,
        availability=PoissonSubset(given.offered, fewest=given.chosen),
    )
    prior = StudyPrior(
        arms=arms,
        kernel=Matern52(spec.settings.lengthscale or spec.lengthscale),
        mean=np.zeros(given.arms),
        noise_variance=given.noise_variance,
        highest=_highest(np.zeros(given.arms), kernel.diagonal(arms)),
        spread=2.0,
        size=given.chosen,
        offered=min(given.arms, int(poisson.ppf(1 - 1e-7, given.offered))),
    )
    agent = Agent(_belief(spec, prior), _policy(spec.settings, prior), TopK())
    return Setting(
        world=world,
        agent=_delayed(agent, spec.settings),
        oracle=TopK(),
        n_arms=given.arms,
        raw=lambda now, chosen: float(world.expected_rewards(now.arms.take(chosen)).sum()),
        lengths_m=None,
        share_negative=float((world.truth > 0).mean()),
    )


def _delayed(agent: Agent[Posterior, S], settings: MethodSettings) -> Player[S, Any]:
    if settings.delay == 0 and settings.feedback_batch == 1:
        return agent
    return DelayedAgent(agent, settings.delay, settings.feedback_batch)


def _belief(  # noqa: PLR0911 - one answer per name
    spec: RunSpec, prior: StudyPrior, *, new_contexts: bool = False
) -> Belief[Posterior]:
    settings, noise = spec.settings, prior.noise_variance
    match settings.belief:
        case "sparse":
            return SparseGP.from_kernel(
                prior.arms,
                prior.kernel,
                noise,
                prior.mean,
                **settings.given("n_inducing", "batch", "rate", "steps", "adam_rate"),
                seed=int(spec.stream("batches").integers(2**32)),
            )
        case "streaming" | "gp" if settings.belief == "streaming" or new_contexts:
            most = settings.given("n_inducing")
            return StreamingGP.from_kernel(prior.kernel, noise, prior.mean, **most)
        case "independent":
            variances = prior.kernel.diagonal(prior.arms)
            return IndependentGaussian(prior.mean, variances, noise)
        case "linear":
            return FiniteGP.from_kernel(prior.arms, _linear(prior), noise, prior.mean)
        case "empirical":
            spread = float(np.sqrt(noise))
            return EmpiricalMeans(len(prior.arms), prior.highest, 2 * spread, spread)
        case "partition":
            low, high = prior.arms.contexts.min(axis=0), prior.arms.contexts.max(axis=0)
            spread = float(np.sqrt(noise))
            return AdaptivePartition(
                low, high + 1e-9, spec.horizon, diameter=prior.spread, scale=2 * spread,
                noise_std=spread,
            )  # fmt: skip
        case _:
            if prior.gp is not None:
                return prior.gp
            return FiniteGP.from_kernel(prior.arms, prior.kernel, noise, prior.mean)


def _highest(mean: Vector, variance: Vector) -> float:
    """Return a reward that no arm has, but for three standard deviations of the prior."""
    return float((mean + 3 * np.sqrt(variance)).max())


def _linear(prior: StudyPrior) -> Kernel:
    """Return a linear kernel with the variance of the prior's, half of it a common level."""
    variance = float(prior.kernel.diagonal(prior.arms).mean())
    return Linear(_weight_variance(prior)) + Constant(variance / 2)


def _weight_variance(prior: StudyPrior) -> float:
    variance = float(prior.kernel.diagonal(prior.arms).mean())
    return variance / 2 / float((prior.arms.contexts**2).sum(axis=1).mean())


def _ridge(prior: StudyPrior) -> RidgeWidth:
    """Return the width of C2UCB for the linear belief above."""
    regularisation = prior.noise_variance / _weight_variance(prior)
    dimension = prior.arms.n_features + 1  # and the level
    return RidgeWidth(
        dimension,
        prior.size,
        regularisation=regularisation,
        norm=float(np.sqrt(dimension / regularisation)),
        context_norm=float(np.sqrt(1 + (prior.arms.contexts**2).sum(axis=1).max())),
    )


def _policy(  # noqa: PLR0911 - one answer per name
    settings: MethodSettings, prior: StudyPrior
) -> IndexPolicy[Posterior]:
    match settings.policy:
        case "ts":
            return MarginalThompson()
        case "joint-ts":  # the settings were checked: the belief draws jointly
            return cast("IndexPolicy[Posterior]", JointThompson())
        case "pims":
            return cast("IndexPolicy[Posterior]", MaximumImprovement())
        case "irgp":
            return RandomisedUCB(len(prior.arms))
        case "greedy":
            return Greedy()
        case "count":
            return Clipped(UpperConfidenceBound(CountWidth()), prior.highest)
        case "ridge":
            width: Width = _ridge(prior)
        case "oclok":
            width = ClockWidth(prior.offered)
        case _:
            width = width_of(settings, len(prior.arms))
    return UpperConfidenceBound(width)


def width_of(settings: MethodSettings, n_arms: int) -> Width:
    """Return the confidence width of a method, where it depends on the number of arms alone."""
    width: Width
    match settings.policy:
        case "srinivas":
            return SrinivasWidth(n_arms)
        case "russo":
            return RussoVanRoyWidth(n_arms)
        case "fixed":
            return FixedWidth(settings.given("width")["width"])
        case "bucb":
            width = BayesUCBWidth(n_arms, **settings.given("omega", "xi"))
        case _:
            width = UCBWidth(n_arms)
    factor = settings.given("beta_factor")["beta_factor"]
    return width if factor == 1 else ScaledWidth(width, factor)


def require_parts(experiment: Experiment) -> None:
    """Raise if an extra is needed that is not installed."""
    require_parquet()
    if any(method.adam_rate for method in experiment.methods.values()):
        import_torch()
