"""The exact posterior against GPyTorch's, an implementation of other people."""

import importlib
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from parts import require_module
from superarm import Arms
from superarm.beliefs import ExactGP, FiniteGP, SparseGP
from superarm.kernels import RBF, Matern52


def test_posterior_of_a_sum_and_product_kernel_is_gpytorchs() -> None:
    require_module("torch", "torch")
    require_module("gpytorch", "torch")
    torch: Any = importlib.import_module("torch")
    gpytorch: Any = importlib.import_module("gpytorch")

    rng = np.random.default_rng(0)
    arms = Arms(np.arange(60), rng.random((60, 3)))
    rows, rewards = rng.integers(60, size=40), rng.standard_normal(40)
    kernel = Matern52(0.5, 0.7) * RBF(0.8) + Matern52([0.3, 0.6, 0.9], 0.4)

    def scaled(inner: Any, lengthscale: Any, variance: float) -> Any:
        inner.double().lengthscale = lengthscale
        outer = gpytorch.kernels.ScaleKernel(inner).double()
        outer.outputscale = variance
        return outer

    theirs = scaled(gpytorch.kernels.MaternKernel(nu=2.5), 0.5, 0.7) * scaled(
        gpytorch.kernels.RBFKernel(), 0.8, 1.0
    ) + scaled(
        gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=3),
        torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64),
        0.4,
    )
    contexts = torch.from_numpy(arms.contexts.copy())
    with torch.no_grad():
        gram = theirs(contexts, contexts).to_dense().numpy()
    assert_allclose(kernel.gram(arms, arms), gram, atol=1e-7)

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.1

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]  # an untyped base
        def __init__(self) -> None:
            super().__init__(
                contexts[torch.from_numpy(rows)], torch.from_numpy(rewards), likelihood
            )
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = theirs

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Model().double().eval()
    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(
            covar_root_decomposition=False, log_prob=False, solves=False
        ),
    ):
        expected = model(contexts)
        mean, variance = expected.mean.numpy(), expected.variance.numpy()
    for belief in (FiniteGP.from_kernel(arms, kernel, 0.1), ExactGP.from_kernel(kernel, 0.1)):
        posterior = belief.condition(arms.take(rows), rewards).posterior(arms)
        assert_allclose(posterior.mean, mean, atol=1e-6)
        assert_allclose(posterior.std**2, variance, atol=1e-6)


def test_natural_gradient_steps_are_gpytorchs() -> None:
    """Two steps of rate 0.1 with M < D inducing arms, in units of the prior deviation."""
    require_module("torch", "torch")
    require_module("gpytorch", "torch")
    torch: Any = importlib.import_module("torch")
    gpytorch: Any = importlib.import_module("gpytorch")

    rng = np.random.default_rng(5)
    arms = Arms(np.arange(40), rng.random((40, 3)))
    rows = np.concatenate([np.repeat(np.arange(8), 3), np.arange(20, 30)])
    rewards = rng.standard_normal(rows.size)
    belief = SparseGP.from_kernel(arms, Matern52(0.4), 0.1, n_inducing=8, rate=0.1)

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # an untyped base
        def __init__(self, inducing: Any) -> None:
            q = gpytorch.variational.NaturalVariationalDistribution(8, mean_init_std=0.0)
            strategy = gpytorch.variational.VariationalStrategy(
                self, inducing, q, learn_inducing_locations=False, jitter_val=1e-12
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.MaternKernel(nu=2.5)
            self.covar_module.lengthscale = 0.4

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    contexts = torch.from_numpy(arms.contexts.copy())
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.1
    model = Model(contexts[:8].clone()).double()
    seen_rows, seen_rewards = np.empty(0, dtype=np.intp), np.empty(0)
    for _ in range(2):
        belief = belief.condition(arms.take(rows), rewards)
        seen_rows = np.concatenate([seen_rows, rows])
        seen_rewards = np.concatenate([seen_rewards, rewards])
        model.train()
        step = gpytorch.optim.NGD(model.variational_parameters(), num_data=seen_rows.size, lr=0.1)
        objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=seen_rows.size)
        step.zero_grad()
        output = model(contexts[torch.from_numpy(seen_rows)])
        (-objective(output, torch.from_numpy(seen_rewards))).backward()
        step.step()
        model.eval()
        with torch.no_grad():
            theirs = model(contexts)
            mean, variance = theirs.mean.numpy(), theirs.variance.numpy()
        ours = belief.posterior(arms)
        assert sorted(belief.q.places.tolist()) == list(range(8))
        assert_allclose(ours.mean, mean, atol=1e-6)
        assert_allclose(ours.std**2, variance, atol=1e-6)
