"""The guarantee of the problem in front of you: its bound, and regret measured beside it.

The problem: n points in the unit cube, of which about a share is on offer each round, and K are
chosen; their rewards are a Gaussian process with a stationary kernel of variance one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from superarm.agent import Agent
from superarm.arms import Arms, Step
from superarm.arrays import Matrix
from superarm.beliefs import FiniteGP
from superarm.errors import CapacityError
from superarm.evaluation import Result, World, compare
from superarm.kernels import RBF, Kernel, Matern12, Matern32, Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson, UpperConfidenceBound
from superarm.problems.availability import Always, PoissonSubset
from superarm.problems.synthetic import FiniteProblem
from superarm.theory import (
    BayesUCBWidth,
    Bound,
    BoundCurve,
    EigenvalueBound,
    GainBounds,
    GainSoFar,
    UCBWidth,
    Width,
    bound_curve,
    finite_bound,
    information_gain_bounds,
    largest_eigenvalue_bound,
)
from superarm.theory.bounds import Policy, exponents_of

__all__ = ["Example", "Guarantee", "MeasuredRegret", "guarantee", "measure"]

KernelName = Literal["rbf", "matern12", "matern32", "matern52"]
MOST_ARMS = 6000
"""The most arms of an example: their covariance is formed."""


@dataclass(frozen=True)
class Example:
    """A combinatorial, volatile problem that is easy to state.

    Attributes:
        n_arms: points, drawn uniformly from the unit cube.
        dimension: of the cube.
        kernel: ``rbf``, ``matern12``, ``matern32`` or ``matern52``, of variance one.
        lengthscale: of the kernel.
        super_arm_size: K, how many points are chosen.
        offered: how many points a round offers on average; all of them if none is given.
        noise_variance: of one reward.
        horizon: T.
        seed: of the points, and of all randomness of measured regret.
    """

    n_arms: int = 100
    dimension: int = 2
    kernel: KernelName = "matern52"
    lengthscale: float = 0.3
    super_arm_size: int = 5
    offered: int | None = None
    noise_variance: float = 0.25
    horizon: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse problems that cannot be posed."""
        if self.n_arms > MOST_ARMS:
            msg = f"examples have at most {MOST_ARMS} arms, got {self.n_arms}"
            raise CapacityError(msg)
        if not 1 <= self.super_arm_size <= self.n_arms:
            msg = f"K = {self.super_arm_size} must lie between 1 and the {self.n_arms} arms"
            raise ValueError(msg)

    @property
    def arms(self) -> Arms:
        """The points."""
        rng = np.random.default_rng(self.seed)
        return Arms(np.arange(self.n_arms), rng.random((self.n_arms, self.dimension)))

    @property
    def covariance(self) -> Kernel:
        """The kernel."""
        match self.kernel:
            case "rbf":
                return RBF(self.lengthscale)
            case "matern12":
                return Matern12(self.lengthscale)
            case "matern32":
                return Matern32(self.lengthscale)
            case "matern52":
                return Matern52(self.lengthscale)

    def gram(self) -> Matrix:
        """Return the prior covariance of all points."""
        return self.covariance.gram(self.arms, self.arms)


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A bound with the quantities it was computed from.

    Attributes:
        bound: with its terms.
        gain: the maximal information gain, enclosed.
        eigenvalue: the largest one of a super arm's covariance, from above.
    """

    bound: Bound
    gain: GainBounds
    eigenvalue: EigenvalueBound


def guarantee(
    example: Example, policy: Policy, *, omega: float | None = None, xi: float | None = None
) -> Guarantee:
    """Evaluate Theorem 1 for an example, with certified upper bounds of what it needs.

    Args:
        example: the problem.
        policy: ``"ucb"``, ``"bucb"`` or ``"ts"``, joint Thompson sampling.
        omega: of ``"bucb"``, above 1.
        xi: of ``"bucb"``.
    """
    exponents_of(policy, omega, xi)  # says at once what is missing
    gram = example.gram()
    picks = example.horizon * example.super_arm_size
    gain = information_gain_bounds(gram, example.noise_variance, picks)
    eigenvalue = largest_eigenvalue_bound(gram, example.super_arm_size)
    bound = finite_bound(
        policy,
        n_arms=example.n_arms,
        super_arm_size=example.super_arm_size,
        horizon=example.horizon,
        noise_variance=example.noise_variance,
        information_gain=gain.upper,
        largest_eigenvalue=eigenvalue.value,
        omega=omega,
        xi=xi,
    )
    return Guarantee(bound, gain, eigenvalue)


@dataclass(frozen=True, eq=False)
class MeasuredRegret:
    """Regret measured in repeated worlds, beside the bound by their own information gains.

    Attributes:
        result: what was measured.
        curve: the bound by what the runs themselves have learned.
    """

    result: Result
    curve: BoundCurve


def measure(  # noqa: PLR0913 - an example, an algorithm, and how often
    example: Example,
    policy: Policy,
    *,
    repeats: int = 20,
    omega: float | None = None,
    xi: float | None = None,
    on_run: Callable[[str, int], None] | None = None,
) -> MeasuredRegret:
    """Play an example with the algorithm that the bound speaks of.

    Args:
        example: the problem.
        policy: ``"ucb"``, ``"bucb"`` or ``"ts"``, joint Thompson sampling.
        repeats: how many worlds.
        omega: of ``"bucb"``, above 1.
        xi: of ``"bucb"``.
        on_run: called with name and repeat after every world.
    """
    exponents = exponents_of(policy, omega, xi)
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        msg = f"repeats must be at least 2, got {repeats}"
        raise ValueError(msg)
    arms, kernel, noise = example.arms, example.covariance, example.noise_variance
    prior = FiniteGP.from_kernel(arms, kernel, noise)
    agent = _agent(prior, policy, example.n_arms, exponents)
    gains = np.zeros((repeats, example.horizon))
    # the belief before a round, from which the information of its rewards is computed
    before: dict[int, tuple[FiniteGP, GainSoFar]] = {}

    def watch(name: str, repeat: int, step: Step[Subsets], learned: Agent[object, Subsets]) -> None:  # type: ignore[type-var]
        del name
        belief, so_far = before.get(repeat, (prior, GainSoFar()))
        played = step.round.arms.take(step.super_arm)
        so_far = so_far.after(belief.posterior(played).covariance(), noise)
        gains[repeat, step.t - 1] = so_far.nats
        assert isinstance(learned.belief, FiniteGP)  # noqa: S101 - what the agent began with
        before[repeat] = learned.belief, so_far

    def make_world(rng: np.random.Generator) -> World[Subsets]:
        size = example.super_arm_size
        offered = Always() if example.offered is None else PoissonSubset(example.offered, size)
        feasible = Subsets(example.n_arms, size)
        return FiniteProblem.sample(
            arms, kernel, feasible, rng, noise_variance=noise, availability=offered
        )

    results = compare(
        make_world,
        {policy: lambda _: agent},
        TopK(),
        horizon=example.horizon,
        repeats=repeats,
        seed=example.seed,
        on_run=on_run,
        on_step=watch,
    )
    curve = bound_curve(
        policy,
        gains,
        n_arms=example.n_arms,
        super_arm_size=example.super_arm_size,
        noise_variance=noise,
        largest_eigenvalue=largest_eigenvalue_bound(example.gram(), example.super_arm_size).value,
        omega=omega,
        xi=xi,
    )
    return MeasuredRegret(results[policy], curve)


def _agent(belief: FiniteGP, policy: Policy, n_arms: int, exponents: tuple[float, float]) -> Agent:  # type: ignore[type-arg]  # its posterior is no one's business here
    if policy == "ts":
        return Agent(belief, JointThompson(), TopK())
    width: Width = UCBWidth(n_arms)
    if policy == "bucb":
        width = BayesUCBWidth(n_arms, *exponents)
    return Agent(belief, UpperConfidenceBound(width), TopK())
