"""The only place where a name in a file becomes an object: worlds, beliefs, policies."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

import numpy as np
from scipy.stats import poisson

from superarm.adapting import Forgetting, PriorElimination, Refitting
from superarm.agent import Agent
from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Vector
from superarm.beliefs import (
    ExactGP,
    FiniteGP,
    HyperpriorBelief,
    IndependentGaussian,
    SparseGP,
    StreamingGP,
)
from superarm.beliefs.variational.moving import import_torch
from superarm.delays import DelayedAgent
from superarm.errors import DataError
from superarm.evaluation import World
from superarm.evaluation.comparison import stream
from superarm.experiments.config import Experiment, MethodSettings, PointSettings
from superarm.experiments.parts import importable, make_part
from superarm.experiments.plan import RunSpec
from superarm.kernels import Constant, Kernel, Linear, Matern12, Matern52, OnFeatures
from superarm.oracles import Dijkstra, Paths, Subsets, TopK
from superarm.policies import (
    Greedy,
    JointThompson,
    MarginalThompson,
    Rectified,
    SampledPrior,
    UpperConfidenceBound,
)
from superarm.problems import DriftingProblem, FiniteProblem, PoissonSubset
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
from superarm.roads.bandit.problem import NavigationProblem
from superarm.roads.bandit.traffic import Closures
from superarm.roads.models.paper import EnergyModel
from superarm.saving.parquet import require_parquet
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
        kernel_of: the prior covariance as the method assumes it, given what its lengthscale and
            its variance are multiplied by.
        mean: prior mean rewards, shape (n,).
        noise_variance: of one reward.
        highest: the largest mean reward that is possible, for beliefs without a prior.
        spread: by how much mean rewards differ over the universe.
        size: K, about how many arms a super arm has.
        offered: the most arms a round offers (but for one case in ten million).
        gp: the exact belief, if it exists already.
        drifts: whether the round is a feature of arms on offer.
    """

    arms: Arms
    kernel_of: Callable[[float, float], Kernel]
    mean: Vector
    noise_variance: float
    highest: float
    spread: float
    size: int
    offered: int
    gp: FiniteGP | None = None
    drifts: bool = False

    @property
    def kernel(self) -> Kernel:
        """The prior covariance as the method assumes it."""
        return self.kernel_of(1.0, 1.0)


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
    settings = spec.settings
    lengthscale = (settings.lengthscale or model.lengthscale) * settings.lengthscale_factor
    believed = (
        model if lengthscale == model.lengthscale else replace(model, lengthscale=lengthscale)
    )

    def kernel_of(lengthscale_factor: float, variance_factor: float) -> Kernel:
        if settings.kernel is not None:
            return _own_kernel(settings, lengthscale_factor, variance_factor)
        features = Matern52(
            lengthscale * lengthscale_factor,
            model.feature_kernel.variance * settings.variance_factor * variance_factor,
        )
        return model.graph_kernel * features + features

    usual = settings.variance_factor == settings.noise_factor == 1 and settings.kernel is None
    cost = model.prior_cost_wh
    everything = problem.arms(1)
    prior = StudyPrior(
        arms=everything,
        kernel_of=kernel_of,
        mean=-cost,
        noise_variance=(settings.noise_factor * problem.noise_std_wh) ** 2,
        highest=_highest(-cost, model.gp.prior.variance),
        spread=float(np.ptp(cost)),
        size=int(Dijkstra().select(problem.routes, -np.maximum(cost, 0.0)).size),
        offered=len(everything),
        gp=believed.gp if usual and not problem.congestion else None,
    )
    policy = Rectified(_policy(settings, prior))
    oracle = _oracle(settings, Dijkstra())
    new_contexts = problem.congestion is not None
    return Setting(
        world=problem,
        agent=_player(spec, prior, policy, oracle, new_contexts=new_contexts),
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
    world = _point_world(spec, given, arms, kernel)
    settings = spec.settings
    lengthscale = (settings.lengthscale or spec.lengthscale) * settings.lengthscale_factor

    def kernel_of(lengthscale_factor: float, variance_factor: float) -> Kernel:
        if settings.kernel is not None:
            return _own_kernel(settings, lengthscale_factor, variance_factor)
        return Matern52(
            lengthscale * lengthscale_factor, settings.variance_factor * variance_factor
        )

    prior = StudyPrior(
        arms=arms,
        kernel_of=kernel_of,
        mean=np.zeros(given.arms),
        noise_variance=given.noise_variance * settings.noise_factor**2,
        highest=_highest(np.zeros(given.arms), kernel.diagonal(arms)),
        spread=2.0,
        size=given.chosen,
        offered=min(given.arms, int(poisson.ppf(1 - 1e-7, given.offered))),
        drifts=spec.drift != "none",
    )
    oracle = _oracle(settings, TopK())
    return Setting(
        world=world,
        agent=_player(spec, prior, _policy(settings, prior), oracle),
        oracle=TopK(),
        n_arms=given.arms,
        raw=lambda now, chosen: float(world.expected_rewards(now.arms.take(chosen)).sum()),
        lengths_m=None,
        share_negative=float((_first_truth(world) > 0).mean()),
    )


PointWorld: TypeAlias = FiniteProblem[Subsets] | DriftingProblem[Subsets]


def _point_world(spec: RunSpec, given: PointSettings, arms: Arms, kernel: Kernel) -> PointWorld:
    """Return the world of a run, its truth drawn."""
    feasible, rng = Subsets(given.arms, given.chosen), spec.stream("truth")
    rest: Any = {
        "noise_variance": given.noise_variance,
        "availability": PoissonSubset(given.offered, fewest=given.chosen),
    }
    match spec.drift:
        case "jumps":
            pace: Any = {"horizon": spec.horizon, "every": spec.jump_every}
            return DriftingProblem.jumping(arms, kernel, feasible, rng, **pace, **rest)
        case "wanders":
            pace = {"horizon": spec.horizon, "memory": spec.memory}
            return DriftingProblem.wandering(arms, kernel, feasible, rng, **pace, **rest)
        case _ if spec.settings.time_lengthscale is not None:  # the same truth, with the round
            pace = {"horizon": spec.horizon, "every": spec.horizon}
            return DriftingProblem.jumping(arms, kernel, feasible, rng, **pace, **rest)
        case _:
            return FiniteProblem.sample(arms, kernel, feasible, rng, **rest)


def _first_truth(world: PointWorld) -> Vector:
    return world.truths[0] if isinstance(world, DriftingProblem) else world.truth


def _own_kernel(settings: MethodSettings, lengthscale: float, variance: float) -> Kernel:
    """Return the user's kernel, its parameters multiplied as the settings and a candidate say."""
    assert settings.kernel is not None  # noqa: S101 - or there is none
    kernel: Kernel = make_part("kernel", settings.kernel, settings.kernel_options)
    longer = lengthscale * settings.lengthscale_factor
    if longer != 1:
        scales = {
            name: longer * value
            for name, value in kernel.parameters().items()
            if "lengthscale" in name.rpartition(".")[2]
        }
        if not scales:
            msg = f"{settings.kernel} has no lengthscale to multiply; see its parameters()"
            raise DataError(msg)
        kernel = kernel.with_parameters(scales)
    larger = variance * settings.variance_factor
    return kernel if larger == 1 else larger * kernel


def _oracle(settings: MethodSettings, usual: Oracle[S]) -> Oracle[S]:
    if settings.oracle is None:
        return usual
    oracle: Oracle[S] = make_part("oracle", settings.oracle, settings.oracle_options)
    return oracle


def _player(
    spec: RunSpec,
    prior: StudyPrior,
    policy: IndexPolicy[Posterior],
    oracle: Oracle[S],
    *,
    new_contexts: bool = False,
) -> Player[S, Any]:
    """Return who plays: an agent, or what wraps it."""
    settings = spec.settings
    player: Any
    if settings.adapt in ("hyper", "elimination"):
        beliefs: Any = _candidates(settings, prior)
        if settings.adapt == "hyper":
            several = HyperpriorBelief(beliefs)
            player = Agent(several, SampledPrior(policy), oracle)
        else:
            player = PriorElimination(beliefs, policy, oracle)
    else:
        player = Agent(_belief(spec, prior, new_contexts=new_contexts), policy, oracle)
    if settings.adapt == "refit":
        assert settings.refit_every is not None  # noqa: S101 - filled in when it was read
        player = Refitting(player, settings.refit_every)
    if settings.forget is not None:
        player = Forgetting(player, settings.forget)
    return _delayed(player, settings)


def _candidates(settings: MethodSettings, prior: StudyPrior) -> list[FiniteGP]:
    """Return the prior that is assumed, and it with one thing at a time multiplied."""
    given = settings.candidates
    assert given is not None  # noqa: S101 - checked when it was read
    several = [(1.0, 1.0, 1.0)]
    several += [(factor, 1.0, 1.0) for factor in given.lengthscale]
    several += [(1.0, factor, 1.0) for factor in given.noise]
    several += [(1.0, 1.0, factor) for factor in given.variance]
    return [
        FiniteGP.from_kernel(
            prior.arms,
            prior.kernel_of(lengthscale, variance),
            prior.noise_variance * noise**2,
            prior.mean,
        )
        for lengthscale, noise, variance in several
    ]


def _delayed(agent: Any, settings: MethodSettings) -> Player[S, Any]:  # noqa: ANN401 - who plays
    if settings.delay == 0 and settings.feedback_batch == 1:
        player: Player[S, Any] = agent
        return player
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
            if settings.time_lengthscale is not None:
                return _timed(settings.time_lengthscale, prior)
            if prior.drifts:  # arms come with the round, which this belief does not look at
                covariance = prior.kernel.gram(prior.arms, prior.arms)
                return FiniteGP.from_covariance(prior.mean, covariance, noise)
            return FiniteGP.from_kernel(prior.arms, prior.kernel, noise, prior.mean)


def _timed(rounds: float, prior: StudyPrior) -> ExactGP:
    """Return a belief about rewards that change over some rounds, the last feature of arms."""
    places = range(prior.arms.n_features)
    time = OnFeatures(Matern12(rounds), [prior.arms.n_features])
    return ExactGP.from_kernel(OnFeatures(prior.kernel, places) * time, prior.noise_variance)


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
    if "policy" in settings.own_parts():
        own: IndexPolicy[Posterior] = make_part("policy", settings.policy, settings.policy_options)
        return own
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


def require_parts(experiment: Experiment, beside: Path | None = None) -> None:
    """Raise if an extra is needed that is not installed, or a part of the user's own is wrong.

    Args:
        experiment: what was declared.
        beside: a folder from which the user's parts are imported, too.
    """
    require_parquet()
    if any(method.adam_rate for method in experiment.methods.values()):
        import_torch()
    for name, method in experiment.methods.items():
        for kind, part in method.own_parts().items():
            importable(beside or Path())
            try:
                make_part(kind, part, getattr(method, f"{kind}_options"))
            except ValueError as error:
                msg = f"methods.{name}.{kind}: {error}"
                raise DataError(msg) from error
