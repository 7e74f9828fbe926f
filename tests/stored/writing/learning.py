"""Kernels, beliefs, posteriors, policies, widths, feasible sets and oracles."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from stored.asking.learning import gain, level
from stored.writing.fixture import Fixture
from superarm import Arms
from superarm.beliefs import (
    ArmStatistics,
    Binomial,
    CountGP,
    DenseGP,
    EnsembleGP,
    Evidence,
    ExactGP,
    FiniteGP,
    HyperpriorBelief,
    IndependentGaussian,
    Poisson,
    SparseGP,
    StreamingGP,
    surprise_of,
)
from superarm.beliefs.ensemble import EnsembleState, Observations, PriorRoot
from superarm.gaussian import Marginals
from superarm.kernels import (
    RBF,
    Beside,
    Constant,
    GraphMatern,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    OnFeatures,
    PerArm,
    draw_function,
)
from superarm.kernels.draws import draw_arm_function
from superarm.policies import (
    EpsilonGreedy,
    Greedy,
    JointThompson,
    MarginalThompson,
    OnLatent,
    Rectified,
    SampledPrior,
    UniformRandom,
    UpperConfidenceBound,
)
from superarm.rivals import (
    AdaptivePartition,
    AgnosticWidth,
    BetaRates,
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
from superarm.theory import (
    BayesUCBWidth,
    FixedWidth,
    InfiniteBayesUCBWidth,
    InfiniteUCBWidth,
    QuantileWidth,
    Regularity,
    ScaledWidth,
    UCBWidth,
)

N = 12
_RNG = np.random.default_rng(5)
ARMS = Arms(np.arange(N), _RNG.random((N, 2)))
NEW = Arms(np.arange(N), _RNG.random((N, 2)))
ROWS = np.array([3, 7, 3, 0])
REWARDS = np.array([0.5, -1.0, 0.25, 2.0])
KERNEL = 0.5 * Matern52([0.4, 0.8]) * Matern32(1.0) + PerArm(0.1)
RING = np.array([[i, (i + 1) % N] for i in range(N)])
GRAPH = GraphMatern(RING, np.linspace(50.0, 200.0, N))


def kernels() -> Iterator[Fixture]:
    """Return every kernel, and functions drawn from some."""
    rng = np.random.default_rng(2)
    everything: dict[str, Any] = {
        "RBF": RBF([0.3, 0.7], 1.5),
        "Matern12": Matern12(0.4),
        "Matern32": Matern32(0.5, 2.0),
        "Matern52": Matern52([0.2, 0.9]),
        "Linear": Linear(0.7),
        "Constant": Constant(0.3),
        "PerArm": PerArm(0.2),
        "OnFeatures": OnFeatures(Matern52(0.5), [1]),
        "Beside": Beside(Matern52(0.5), 8, PerArm(1.5)),
        "Sum": Matern52(0.4) + Constant(0.2),
        "Product": Matern52(0.4) * Linear(2.0),
        "GraphMatern": GRAPH,
        "GraphMatern-odd": GraphMatern(
            RING, np.ones(N), nu=1.5, kappa=0.5, normalise="correlation", variance=2.0
        ),
        "GraphMatern-product": GRAPH * Matern52(0.4) + Matern52(1.0),
    }
    for name, kernel in everything.items():
        yield Fixture(
            f"kernels/{name}", kernel, "kernel", {"arms": ARMS, "others": ARMS.take([0, 5])}
        )
    functions: dict[str, Any] = {
        "RandomFunction": draw_function(Matern52(0.4), 2, rng, count=30),
        "SumFunction": draw_arm_function(GRAPH * RBF(0.5) + RBF(1.0), N, 2, rng),
    }
    for name, function in functions.items():
        yield Fixture(f"kernels/{name}", function, "function", {"arms": ARMS})


def _learned(belief: Any) -> Any:
    return belief.condition(ARMS.take(ROWS), REWARDS).condition(ARMS.take([5]), np.array([1.5]))


def gaussian_beliefs() -> dict[str, Any]:
    """Return beliefs about real rewards, which have learned something."""
    noise = np.linspace(0.05, 0.3, N)
    mean = np.linspace(-1.0, 1.0, N)
    dense = DenseGP.from_kernel(ARMS, KERNEL, 0.1)
    sums: dict[str, Any] = {"starts": [0, 3, 4], "totals": [1.0, 2.0]}
    ensemble: dict[str, Any] = {"n_draws": 4, "tolerance": 1e-10}
    return {
        "FiniteGP": FiniteGP.from_kernel(ARMS, KERNEL, 0.1),
        "FiniteGP-noise": FiniteGP.from_kernel(ARMS, GRAPH + Matern52(0.4), noise, mean),
        "FiniteGP-covariance": FiniteGP.from_covariance(mean, KERNEL.gram(ARMS, ARMS), noise),
        "FiniteGP-device": FiniteGP.from_kernel(ARMS, KERNEL, 0.1, device="cpu"),
        "DenseGP": dense,
        "DenseGP-sums": dense.condition_sums(ARMS.take([0, 1, 2, 8]), **sums),
        "DenseGP-forgetful": DenseGP.from_kernel(ARMS, KERNEL, 0.1, mean, keep_evidence=False),
        "DenseGP-covariance": DenseGP.from_covariance(mean, KERNEL.gram(ARMS, ARMS), noise),
        "EnsembleGP": EnsembleGP.from_kernel(ARMS, GRAPH + Linear() + PerArm(0.1), 0.1, **ensemble),
        "EnsembleGP-tiles": EnsembleGP.from_kernel(
            ARMS, Matern12(0.1) + GRAPH, 0.1, rest="tiles", most_features=3, **ensemble
        ),
        "ExactGP": ExactGP.from_kernel(Matern52(0.5), 0.1, 0.5, max_distinct=100),
        "ExactGP-noise": ExactGP.from_kernel(Matern32(0.5) + PerArm(0.1), noise, mean),
        "StreamingGP": StreamingGP.from_kernel(Matern52(0.5), 0.1, n_inducing=6),
        "IndependentGaussian": IndependentGaussian(mean, 1.0, noise),
        "IndependentGaussian-kernel": IndependentGaussian.from_kernel(ARMS, KERNEL, 0.1),
        "HyperpriorBelief": HyperpriorBelief(
            [FiniteGP.from_kernel(ARMS, Matern52(scale), 0.1) for scale in (0.2, 1.0)], [1.0, 2.0]
        ),
        "SparseGP": SparseGP.from_kernel(ARMS, KERNEL, 0.1, n_inducing=8, batch=3, seed=4),
        "SparseGP-adam": SparseGP.from_kernel(
            ARMS, KERNEL, 0.1, n_inducing=8, batch=3, steps=3, adam_rate=0.01
        ),
        "AdaptivePartition": AdaptivePartition([0.0, 0.0], [1.0, 1.0], 50, diameter=4.0),
        "EmpiricalMeans": EmpiricalMeans(N, 2.0, 1.5),
    }


def _counting_beliefs() -> dict[str, Any]:
    return {
        "CountGP": CountGP.from_kernel(ARMS, Matern52(0.5), Binomial(20), 0.3),
        "CountGP-events": CountGP.from_kernel(ARMS, Matern52(0.5), Poisson(10.0), 2.0),
        "CountGP-contexts": CountGP.on_contexts(Matern52(0.5), Binomial(20), 0.3),
        "BetaRates": BetaRates(N, 1.0, 2.0, trials=20),
    }


def beliefs() -> Iterator[Fixture]:
    """Return every belief, as it is after some rewards."""
    more: dict[str, Any] = {"arms": ARMS.take([0, 3, 5, 9]), "played": ARMS.take([1, 3])}
    for name, belief in gaussian_beliefs().items():
        given = more | {"rewards": np.array([0.3, -0.2]), "options": {}}
        yield Fixture(f"beliefs/{name}", _learned(belief), "belief", given)
    for name, belief in _counting_beliefs().items():
        learned = belief.condition(ARMS.take([3, 7, 0]), np.array([0.2, 0.5, 0.1]))
        given = more | {"rewards": np.array([0.5, 0.25]), "options": {"trials": np.array([8, 4])}}
        yield Fixture(f"beliefs/{name}", learned, "belief", given)


def posteriors() -> Iterator[Fixture]:
    """Return views of beliefs, as somebody may have kept them."""
    every = gaussian_beliefs() | _counting_beliefs()
    for name in (name for name in every if "-" not in name):
        belief = every[name].condition(ARMS.take([3, 7]), np.array([0.25, 0.5]))
        yield Fixture(f"posteriors/{name}", belief.posterior(ARMS.take([0, 3, 5])), "posterior")
    marginals = Marginals(REWARDS, np.ones(4), np.full(4, 0.1))
    yield Fixture("posteriors/Marginals", marginals, "posterior")


def parts() -> Iterator[Fixture]:
    """Return what beliefs are made of, where it is public."""
    rows = np.array([0, 3, 3, 7])
    _, statistics = ArmStatistics.of_batch(rows, REWARDS, np.full(4, 0.1))
    yield Fixture("beliefs/ArmStatistics", statistics)
    yield Fixture("beliefs/Binomial", Binomial(7))
    yield Fixture("beliefs/Poisson", Poisson(2.5))
    learned = _learned(gaussian_beliefs()["FiniteGP"])
    surprise = surprise_of(learned, ARMS.take([1, 2]), [0.5, -0.5])
    yield Fixture("beliefs/Surprise", surprise)
    sums = csr_array(np.array([[1.0, 0, 0.5, 0], [0, 2.0, 0, 1.0], [0, 0, 1.0, 1.0]]))
    observed = (sums, np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, 0.3]))
    common = csr_array(np.array([[0.5, 0.5, 0.0]]))
    yield Fixture("beliefs/Evidence", Evidence.of_functionals(*observed, common), "evidence")
    rows_of_all = Observations.of_functionals(*observed, common)
    yield Fixture("beliefs/Observations", rows_of_all, "evidence")
    belief: Any = _learned(gaussian_beliefs()["EnsembleGP"])
    state = EnsembleState.of(belief)
    given = {"prior": belief.prior, "root": belief.root, "places": np.array([0, 3, 5])}
    yield Fixture("beliefs/EnsembleState", state, "ensemble", given)
    for name, kernel in {"PriorRoot": GRAPH + Linear(), "PriorRoot-rest": Matern12(0.1)}.items():
        yield Fixture(f"beliefs/{name}", PriorRoot.of_kernel(ARMS, kernel, 1e-9, 4), "root")


def policies() -> Iterator[Fixture]:
    """Return every policy, with a posterior to decide by."""
    every = gaussian_beliefs() | _counting_beliefs()
    usual = Marginals(REWARDS, np.linspace(0.1, 1.0, 4), np.full(4, 0.3))
    joint = _learned(every["FiniteGP"]).posterior(ARMS.take([0, 3, 5, 9]))
    several = _learned(every["HyperpriorBelief"]).posterior(ARMS.take([0, 3]))
    counted = every["CountGP"].condition(ARMS.take([3]), np.array([0.2])).posterior(ARMS)
    everything: dict[str, tuple[Any, Any]] = {
        "Greedy": (Greedy(), usual),
        "EpsilonGreedy": (EpsilonGreedy(0.5), usual),
        "UniformRandom": (UniformRandom(-2.0, 0.0), usual),
        "JointThompson": (JointThompson(), joint),
        "MarginalThompson": (MarginalThompson(), usual),
        "SampledPrior": (SampledPrior(JointThompson()), several),
        "OnLatent": (OnLatent(MarginalThompson()), counted),
        "Rectified": (Rectified(MarginalThompson()), usual),
        "Rectified-posterior": (Rectified(Greedy(), "posterior"), usual),
        "UpperConfidenceBound": (UpperConfidenceBound(BayesUCBWidth(N)), usual),
        "Clipped": (Clipped(UpperConfidenceBound(CountWidth()), 0.5), usual),
        "MaximumImprovement": (MaximumImprovement(), joint),
        "RandomisedUCB": (RandomisedUCB(N), usual),
    }
    for name, (policy, posterior) in everything.items():
        yield Fixture(f"policies/{name}", policy, "policy", {"posterior": posterior})


def widths() -> Iterator[Fixture]:
    """Return every confidence width; two of them use functions of a user's own."""
    regularity = Regularity.of_kernel(Matern52(0.3), 2)
    everything: dict[str, Any] = {
        "UCBWidth": UCBWidth(N),
        "BayesUCBWidth": BayesUCBWidth(N, omega=2.0, xi=0.5),
        "FixedWidth": FixedWidth(2.0),
        "ScaledWidth": ScaledWidth(UCBWidth(N), 0.25),
        "QuantileWidth": QuantileWidth(level),
        "InfiniteUCBWidth": InfiniteUCBWidth(regularity, 3, 0.1),
        "InfiniteBayesUCBWidth": InfiniteBayesUCBWidth(
            regularity, 3, 0.1, omega=2.0, explicit=True
        ),
        "SrinivasWidth": SrinivasWidth(N, 0.05),
        "AgnosticWidth": AgnosticWidth(1.5, gain, 0.05),
        "RussoVanRoyWidth": RussoVanRoyWidth(N),
        "ClockWidth": ClockWidth(N, 0.05),
        "CountWidth": CountWidth(),
        "RidgeWidth": RidgeWidth(2, 3, norm=2.0),
    }
    for name, width in everything.items():
        yield Fixture(f"widths/{name}", width, "width")
    yield Fixture("theory/Regularity", regularity)


FIXTURES = (kernels, beliefs, posteriors, parts, policies, widths)
