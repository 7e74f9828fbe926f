"""The paper's sparse variational GP round in GPyTorch (Algorithm 3, appendix B.3), to compare with.

M = 1000 inducing arms (the most visited), a batch of B = 2500, one natural-gradient step of rate
0.1, one Adam step of rate 0.01 on inducing locations, then mean and variance of all arms. Single
precision, GPyTorch's default, which is in its favour.
"""

import warnings
from typing import Any

import numpy as np

from superarm import Arms
from superarm.arrays import Rows, Vector

warnings.filterwarnings("ignore", category=DeprecationWarning)

import gpytorch  # noqa: E402 - after its warnings are silenced
import torch  # noqa: E402

INDUCING, BATCH = 1000, 2500


class _Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # an untyped base
    def __init__(self, inducing: Any) -> None:  # noqa: ANN401 - a tensor
        distribution = gpytorch.variational.NaturalVariationalDistribution(inducing.shape[0])
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing, distribution, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        product = _matern(0.5) * _matern(1.0)
        self.covar_module = product + _matern(0.5)

    def forward(self, x: Any) -> Any:  # noqa: ANN401 - tensors
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class SparseRound:
    """One round of the paper's update."""

    def __init__(self, arms: Arms, rows: Rows, rewards: Vector, noise_variance: float) -> None:
        """Set up the model for a history of observations."""
        torch.set_num_threads(1)
        self._contexts = torch.tensor(arms.contexts, dtype=torch.float32)
        self._rows = torch.tensor(rows)
        self._rewards = torch.tensor(rewards, dtype=torch.float32)
        visits = np.bincount(rows, minlength=len(arms))
        busiest = np.argsort(-visits, kind="stable")[:INDUCING]
        self._model = _Model(self._contexts[torch.tensor(busiest)].clone())
        self._likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self._likelihood.noise = noise_variance
        self._natural = gpytorch.optim.NGD(
            self._model.variational_parameters(), num_data=rows.size, lr=0.1
        )
        self._adam = torch.optim.Adam([self._model.variational_strategy.inducing_points], lr=0.01)
        self._objective = gpytorch.mlls.VariationalELBO(
            self._likelihood, self._model, num_data=rows.size
        )

    def __call__(self) -> tuple[Any, Any]:
        """Take both steps and predict all arms."""
        self._model.train()
        batch = torch.randperm(self._rows.shape[0])[:BATCH]
        self._natural.zero_grad()
        self._adam.zero_grad()
        output = self._model(self._contexts[self._rows[batch]])
        loss = -self._objective(output, self._rewards[batch])
        loss.backward()
        self._natural.step()
        self._adam.step()
        self._model.eval()
        with torch.no_grad():
            posterior = self._model(self._contexts)
            return posterior.mean, posterior.variance


def _matern(variance: float) -> Any:  # noqa: ANN401 - a kernel of theirs
    scaled = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))
    scaled.outputscale = variance
    scaled.base_kernel.lengthscale = 1.0
    for parameter in scaled.parameters():
        parameter.requires_grad_(requires_grad=False)
    return scaled
